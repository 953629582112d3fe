"""Accepting work: one transaction, one job per key, and commits that concurrent callers share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from holdfast import App, Context, IdempotencyConflict, InvalidInput, Job, stage
from holdfast.errors import StoreUnavailable
from holdfast.kernel import submit as submitting
from holdfast.kernel.gather import Gather
from holdfast.kernel.observe.watch import LogWatch
from holdfast.kernel.submit import prepare, submit, submit_in, submit_many, submit_orders
from holdfast.tables import events, outbox
from holdfast.testing import HandClock
from tests.kernel.places import Deploy, Place, close_all, rows

app = App("accept")


@dataclass
class Order:
    number: int
    note: str = ""


@app.job(deadline_s=60)
class Ship(Job[Order]):
    @stage()
    async def ship(self, ctx: Context, order: Order) -> int:
        return order.number


COUNT = "SELECT COUNT(*) AS jobs FROM holdfast_jobs"


@pytest.mark.spec("K1", "K17")
async def test_a_jobs_history_begins_with_its_own_row(deploy: Deploy) -> None:
    world = await deploy(app)
    kernel = world.kernel
    job_id = await submit(kernel, Ship, Order(1))
    created = {"seq": 0, "part": 0, "attempt": 0, "type": "created", "at": kernel.now(), "data": None}
    async with kernel.store.reading() as tx:
        assert [step._asdict() for step in await events.of_job(tx, job_id)] == [created]
        assert not await events.of_job(tx, job_id, after=events.EventPosition(0)), "seen, and not shown again"


@pytest.mark.spec("K1")
async def test_job_and_outbox_row_are_written_together_or_not_at_all(deploy: Deploy) -> None:
    world = await deploy(app)
    kernel = world.kernel

    async def write(fail: bool) -> None:
        async with kernel.store.transaction() as tx:
            order = prepare(Ship.__holdfast__, Order(1), job_id=kernel.new_id(), now=kernel.now())
            await submit_in(tx, [order], kernel.now())
            await outbox.put(tx, [(kernel.new_uuid4(), "a", "q", "t", "{}", "{}")], kernel.now())
            if fail:
                raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await write(fail=True)
    written = f"SELECT *, (SELECT COUNT(*) FROM holdfast_outbox) AS messages FROM ({COUNT}) AS c"
    assert await rows(kernel.store, written) == [{"jobs": 0, "messages": 0}]
    await write(fail=False)
    assert await rows(kernel.store, written) == [{"jobs": 1, "messages": 1}]


@pytest.mark.spec("K1")
@pytest.mark.parametrize("failpoint, kept", [("submit.before_commit", 0), ("submit.after_commit", 1)])
async def test_a_crash_around_the_commit_leaves_all_or_nothing(deploy: Deploy, failpoint: str, kept: int) -> None:
    world = await deploy(app)
    world.crash_at(failpoint)
    await world._as_a_process(submit(world.kernel, Ship, Order(1)))
    assert world.crashes == 1
    assert await rows(world.kernel.store, COUNT) == [{"jobs": kept}]


@pytest.mark.spec("K1", "K14")
async def test_the_deadline_is_fixed_at_creation(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Ship, Order(1))
    shorter = await world.enqueue(Ship, Order(2), deadline_s=5)
    assert (await world.job(job_id))["deadline_at"] == world.clock.now_ms() + 60_000
    assert (await world.job(shorter))["deadline_at"] == world.clock.now_ms() + 5_000


@pytest.mark.spec("K1")
async def test_a_key_makes_one_job_and_refuses_another_payload(deploy: Deploy) -> None:
    world = await deploy(app)
    first = await world.enqueue(Ship, Order(1), key="order:1")
    world.clock.advance(5)
    assert await world.enqueue(Ship, Order(1), key="order:1") == first
    with pytest.raises(IdempotencyConflict, match="order:1"):
        await world.enqueue(Ship, Order(2), key="order:1")
    assert await rows(world.kernel.store, COUNT) == [{"jobs": 1}]


@pytest.mark.spec("K1")
async def test_one_batch_may_hold_a_key_twice(deploy: Deploy) -> None:
    world = await deploy(app)
    kernel = world.kernel
    orders = [
        prepare(Ship.__holdfast__, Order(n), job_id=kernel.new_id(), now=kernel.now(), key=f"k{n}") for n in (1, 2, 1)
    ]
    ids = await submit_orders(kernel, orders)
    assert ids[0] == ids[2] != ids[1]
    assert await submit_orders(kernel, orders) == ids, "writing the same orders again changes nothing"
    assert await rows(kernel.store, COUNT) == [{"jobs": 2}]


@pytest.mark.spec("K1")
async def test_many_at_once_are_written_like_one_and_writing_them_again_changes_nothing(deploy: Deploy) -> None:
    world = await deploy(app)
    kernel = world.kernel
    kind, now = Ship.__holdfast__, kernel.now()
    note = 'NUL \0, the six characters \\u0000, \\N, a tab\t, a line\r\n, quotes " and \u2028'
    orders = [
        prepare(kind, Order(n, note), job_id=kernel.new_id(), now=now, owner="a\td\\a \u2028") for n in range(250)
    ]
    ids = await submit_orders(kernel, orders[:120])
    single = await world.enqueue(Ship, Order(7, note), owner="a\td\\a \u2028")
    again = await submit_orders(kernel, orders)  # as after an ambiguous commit of the first ones
    assert again == [order.id for order in orders] and ids == again[:120]
    assert await rows(kernel.store, COUNT) == [{"jobs": 251}]
    bulk, alone = dict(await world.job(ids[7])), dict(await world.job(single))
    assert await world.events(ids[7]) == ["created"]
    assert bulk | {"id": single} == alone


@pytest.mark.spec("K1")
async def test_many_inputs_are_accepted_in_their_order(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submitting, "BULK_ROWS", 100)
    monkeypatch.setattr(submitting, "ROWS_AT_A_TIME", 10)
    world = await deploy(app)
    ids = await submit_many(world.kernel, Ship, (Order(n) for n in range(430)), priority=1)
    found = await rows(
        world.kernel.store, "SELECT CAST(id AS TEXT) AS id, payload FROM holdfast_jobs WHERE priority = 1"
    )
    by_id = {row["id"]: json.loads(row["payload"])["number"] for row in found}
    assert [by_id[job_id] for job_id in ids] == list(range(430))


@pytest.mark.spec("K1")
@pytest.mark.parametrize(("limit", "value"), [("BULK_BYTES", 500), ("BULK_ROWS", 40), ("BULK_ROWS_FIRST", 1)])
async def test_a_limit_ends_a_commit(deploy: Deploy, monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    monkeypatch.setattr(submitting, limit, value)
    world = await deploy(app)
    commits: list[str] = []

    async def count(name: str) -> None:
        commits.append(name)

    world.kernel.failpoint = count
    await submit_many(world.kernel, Ship, (Order(n) for n in range(400)))
    assert 8 < commits.count("submit.before_commit") < 20, "four hundred, some dozens to a commit"


@pytest.mark.spec("K1")
async def test_many_jobs_cannot_share_a_key(deploy: Deploy) -> None:
    world = await deploy(app)
    with pytest.raises(InvalidInput, match="one job"):
        await submit_many(world.kernel, Ship, [Order(1), Order(2)], key="same")  # type: ignore[arg-type]
    assert await submit_many(world.kernel, Ship, []) == []
    assert await rows(world.kernel.store, COUNT) == [{"jobs": 0}]


@pytest.mark.spec("K1")
async def test_a_commit_that_fails_ends_the_bulk_and_is_told(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submitting, "BULK_ROWS", 100)
    world = await deploy(app)
    commits: list[str] = []

    async def third_fails(name: str) -> None:
        commits.append(name)
        if commits.count("submit.before_commit") == 3:
            raise StoreUnavailable("gone")

    world.kernel.failpoint = third_fails
    with pytest.raises(StoreUnavailable):
        await submit_many(world.kernel, Ship, (Order(n) for n in range(2_000)))
    assert commits.count("submit.before_commit") < 10, "nothing is begun once the failure is known"


@pytest.mark.spec("K17")
async def test_jobs_are_counted_when_they_are_committed_and_only_then(deploy: Deploy) -> None:
    world = await deploy(app)
    kernel, counted = world.kernel, Counted()
    kernel.watch = counted

    async def write(number: int, fail: bool) -> None:
        order = prepare(Ship.__holdfast__, Order(number), job_id=kernel.new_id(), now=kernel.now(), key=f"k{number}")
        async with kernel.store.transaction() as tx:
            await submit_in(tx, [order], kernel.now(), kernel.watch)
            if fail:
                raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await write(1, fail=True)
    assert counted.jobs == 0
    await write(1, fail=False)
    await write(1, fail=False)  # the same key: no new job
    assert counted.jobs == 1
    await submit_many(kernel, Ship, [Order(n) for n in range(150)])
    assert counted.jobs == 151


class Counted(LogWatch):
    jobs = 0.0

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self.jobs += amount if name == "jobs_created" else 0


@pytest.mark.spec("K1")
async def test_concurrent_first_users_of_a_key_share_one_job(place: Place, clock: HandClock) -> None:
    kernels = [place.kernel(app, clock=clock, seed=n) for n in range(3)]
    ids = await asyncio.gather(*[submit(kernel, Ship, Order(7), key="same") for kernel in kernels * 4])
    assert len(set(ids)) == 1
    assert await rows(kernels[0].store, COUNT) == [{"jobs": 1}]
    await close_all(place)


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    "input, options, says",
    [
        ({"number": "many"}, {}, "number"),
        (Order(1, "\ud800"), {}, "JSON"),
        (Order(1), {"key": "a\0b"}, "NUL"),
        (Order(1), {"key": ""}, "1 to 255"),
        (Order(1), {"key": "k" * 256}, "1 to 255"),
        (Order(1), {"priority": 9}, "priority 9"),
        (Order(1), {"delay_s": -1}, "0 or more"),
        (Order(1, "x" * 5_000_000), {}, "limit"),
    ],
)
async def test_bad_input_gets_one_sentence_and_writes_nothing(
    deploy: Deploy, input: object, options: dict[str, Any], says: str
) -> None:
    world = await deploy(app)
    with pytest.raises(InvalidInput, match=says):
        await world.enqueue(Ship, input, **options)
    assert await rows(world.kernel.store, COUNT) == [{"jobs": 0}]


@pytest.mark.spec("K1", "K19")
async def test_an_input_may_hold_any_text_that_json_can_say(deploy: Deploy) -> None:
    world = await deploy(app)
    note = 'NUL \0, the six characters \\u0000, quotes " and \u2028'
    job = await world.enqueue(Ship, Order(1, note))
    payload = (await world.job(job))["payload"]
    assert Ship.__holdfast__.load_input(payload) == Order(1, note)


def counting_commits(store: Any) -> list[int]:
    """Count the store's transactions as they end."""
    commits: list[int] = []
    begin = store.transaction

    @asynccontextmanager
    async def counted() -> AsyncIterator[Any]:
        async with begin() as tx:
            await asyncio.sleep(0)  # a real commit takes a while: others arrive meanwhile
            yield tx
        commits.append(1)

    store.transaction = counted
    return commits


@pytest.mark.spec("K1")
async def test_concurrent_enqueues_share_commits(place: Place, clock: HandClock) -> None:
    kernel = place.kernel(app, clock=clock)
    commits = counting_commits(kernel.store)
    ids = await asyncio.gather(*[submit(kernel, Ship, Order(number)) for number in range(32)])
    assert len(set(ids)) == 32 and len(commits) <= 3
    assert await rows(kernel.store, COUNT) == [{"jobs": 32}]
    await close_all(place)


@pytest.mark.spec("K1")
async def test_more_callers_than_one_commit_holds_are_all_answered(place: Place, clock: HandClock) -> None:
    kernel = place.kernel(app, clock=clock)
    kernel.gathers[submit_orders] = Gather(partial(submit_orders, kernel), rows_max=5)
    async with asyncio.timeout(10):
        ids = await asyncio.gather(*[submit(kernel, Ship, Order(number)) for number in range(23)])
    assert len(set(ids)) == 23
    await close_all(place)


@pytest.mark.spec("K1")
async def test_a_conflicting_key_fails_only_its_own_caller(place: Place, clock: HandClock) -> None:
    kernel = place.kernel(app, clock=clock)
    first = await submit(kernel, Ship, Order(0), key="taken")
    asked = [submit(kernel, Ship, Order(n), key=f"k{n}") for n in range(8)]
    asked += [submit(kernel, Ship, Order(99), key="taken"), submit(kernel, Ship, Order(0), key="taken")]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(answers[8], IdempotencyConflict) and answers[9] == first
    assert len({answer for answer in answers[:8] if isinstance(answer, str)}) == 8
    await close_all(place)


@pytest.mark.spec("K1")
@pytest.mark.parametrize("victim", [0, 1, 5])
async def test_a_cancelled_caller_harms_nobody_and_leaves_no_ghost(place: Place, clock: HandClock, victim: int) -> None:
    kernel = place.kernel(app, clock=clock)
    reached, go = asyncio.Event(), asyncio.Event()

    async def stop_in_the_commit(name: str) -> None:
        if name == "submit.before_commit" and not reached.is_set():
            reached.set()
            await go.wait()

    kernel.failpoint = stop_in_the_commit
    tasks = [asyncio.create_task(submit(kernel, Ship, Order(number))) for number in range(6)]
    await reached.wait()
    tasks[victim].cancel()
    go.set()
    async with asyncio.timeout(10):
        answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(answers.pop(victim), asyncio.CancelledError)
    assert len({answer for answer in answers if isinstance(answer, str)}) == 5
    await submit(kernel, Ship, Order(100))
    written = await rows(kernel.store, "SELECT COUNT(*) AS n FROM holdfast_jobs")
    assert written[0]["n"] in (6, 7), "what was being written when its caller went away may be there, and nothing else"
    await close_all(place)


@pytest.mark.spec("K1")
async def test_a_store_that_is_away_is_told_to_every_caller(place: Place, clock: HandClock) -> None:
    kernel = place.kernel(app, clock=clock)

    async def away(name: str) -> None:
        if name == "submit.before_commit":
            raise StoreUnavailable("gone")

    kernel.failpoint = away
    answers = await asyncio.gather(*[submit(kernel, Ship, Order(n)) for n in range(4)], return_exceptions=True)
    assert all(isinstance(answer, StoreUnavailable) for answer in answers)
    assert await rows(kernel.store, COUNT) == [{"jobs": 0}]
    await close_all(place)
