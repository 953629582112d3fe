"""A job's story is whole, in order and told once, although neither every claim nor every success is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import App, Context, Job, stage
from holdfast.core.failure import Category
from holdfast.core.job import Claimed, State
from holdfast.core.outcome import Called, Done, Failed, Lost, Next, Parked, Released
from holdfast.errors import CallError
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.settle import Ending
from holdfast.kernel.submit import submit_many
from holdfast.kernel.turn import end, turn
from holdfast.operator.audit import audit
from holdfast.stores.statement import statement_of
from holdfast.tables import depth, events
from holdfast.tables import jobs as jobs_table
from holdfast.tables.events import BEGINNING, EventPosition
from holdfast.testing import HandClock
from tests.kernel.places import Place as Where
from tests.kernel.places import close_all, rows

app = App("steps")
BROKEN = Failed(CallError.of(Category.UPSTREAM, "BAD", "try again").failure)


@app.job()
class One(Job[int]):
    @stage()
    async def go(self, ctx: Context, number: int) -> None: ...


@app.job()
class Two(Job[int]):
    @stage()
    async def ask(self, ctx: Context, number: int) -> int:
        return number

    @stage()
    async def keep(self, ctx: Context, number: int, ask: int) -> None: ...


@pytest.fixture
async def kernel(place: Where, clock: HandClock) -> Any:
    yield place.kernel(app, clock=clock)
    await close_all(place)


async def take(kernel: Kernel, *ended: Ending, limit: int = 10, goes_on: bool = False) -> list[Claimed]:
    leased, _ = await turn(kernel, "w", ["steps"], ended, limit, goes_on=goes_on)
    return [taken.job for taken in leased]


async def story(kernel: Kernel, job_id: str, after: EventPosition = BEGINNING, limit: int = 1_000) -> Sequence[Any]:
    async with kernel.store.reading() as tx:
        return await events.of_job(tx, job_id, after, limit)


def steps(read: Sequence[Any]) -> list[tuple[str, int]]:
    return [(row.type, row.attempt) for row in read]


@pytest.mark.spec("K17", "K19")
async def test_a_turn_writes_one_claim_and_one_success_of_a_kind_and_every_job_tells_both(
    kernel: Kernel, clock: HandClock
) -> None:
    await submit_many(kernel, One, range(5))
    await submit_many(kernel, Two, range(2))
    jobs = await take(kernel)
    claimed_at = kernel.now()
    clock.advance(1)
    await take(kernel, *(Ending(job, Done(None)) for job in jobs), limit=0)
    written = await rows(kernel.store, "SELECT type, data FROM holdfast_job_events ORDER BY seq")
    assert [row["type"] for row in written] == ["claimed", "succeeded", "succeeded"]
    assert sorted(row["data"] or "" for row in written) == ["", "1", "4"]
    for job in jobs:
        read = await story(kernel, job.id)
        assert steps(read) == [("created", 0), ("claimed", 1), ("succeeded", 1)]
        assert [row.at for row in read[1:]] == [claimed_at, kernel.now()]
        assert {row.data for row in read} == {None}
    async with kernel.store.reading() as tx:
        ended = await depth.finished_since(tx, 0)
    assert {row.kind: (row.state, row.jobs) for row in ended} == {
        "steps.one": ("succeeded", 5), "steps.two": ("succeeded", 2)
    }  # fmt: skip
    assert await audit(kernel) == []


@pytest.mark.spec("K17", "K3")
async def test_every_attempt_that_ended_shows_when_it_was_claimed(kernel: Kernel, clock: HandClock) -> None:
    await submit_many(kernel, Two, range(3))
    claims: list[int] = []
    jobs = await take(kernel)
    for outcome in (BROKEN, Lost(), Released(), Next(1)):
        claims.append(kernel.now())
        clock.advance(1)
        ended = [Ending(job, outcome, "1" if isinstance(outcome, Next) else None) for job in jobs]
        leased = await take(kernel, *ended)
        clock.advance(3_600)
        jobs = leased or await take(kernel)
        assert len(jobs) == 3
    claims.append(jobs[0].last_attempt_at or 0)
    await take(kernel, *(Ending(job, Done(None)) for job in jobs), limit=0)
    for job in jobs:
        read = await story(kernel, job.id)
        assert [row.type for row in read[1::2]] == ["claimed"] * 5
        assert [row.type for row in read[2::2]] == ["retried", "lost", "released", "advanced", "succeeded"]
        assert [row.attempt for row in read[1:]] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
        assert [row.at for row in read[1::2]] == claims
    assert await audit(kernel) == []


@pytest.mark.spec("K17", "G13")
async def test_whoever_follows_a_job_gets_each_step_once_and_in_order(kernel: Kernel, clock: HandClock) -> None:
    """After every commit a reader asks for what came after the last step it saw; and a page may end anywhere."""
    await submit_many(kernel, Two, range(2))
    other, followed, place = sorted(await ids(kernel))[1], [], BEGINNING

    async def follow() -> None:
        nonlocal place
        for at, row in events.positions_of(await story(kernel, other, place), place):
            place = EventPosition.parse(str(at))
            followed.append(row)

    async def note(type: str, attempt: int) -> None:
        async with kernel.store.transaction() as tx:
            await events.append(tx, [(other, attempt, type, None)], kernel.now())
        await follow()

    jobs = await take(kernel)
    await follow()
    await note("progress", 1)
    await take(kernel, *(Ending(job, BROKEN) for job in jobs), limit=0)
    await follow()
    clock.advance(3_600)
    jobs = await take(kernel)
    await follow()
    await note("stale", 1)
    await note("progress", 2)
    jobs = await take(kernel, *(Ending(job, Next(1), "1") for job in jobs), goes_on=False)
    jobs = jobs or await take(kernel)
    await follow()
    await note("stale", 2)
    await take(kernel, *(Ending(job, Done(None)) for job in jobs), limit=0)
    await follow()
    await note("stale", 3)
    await note("result_expired", 3)
    whole = await story(kernel, other)
    assert sorted(map(str, followed)) == sorted(map(str, whole))
    known = [step for step in steps(whole) if step[0] not in ("stale", "progress")]
    assert known == [
        ("created", 0), ("claimed", 1), ("retried", 1), ("claimed", 2), ("advanced", 2), ("claimed", 3),
        ("succeeded", 3), ("result_expired", 3),
    ]  # fmt: skip
    assert steps(whole).index(("claimed", 2)) < steps(whole).index(("progress", 2))
    paged: list[Any] = []
    place = BEGINNING
    while page := await story(kernel, other, place, limit=1):
        paged += page
        place = place.after(page[0])
    assert paged == whole


async def ids(kernel: Kernel) -> list[str]:
    return [row["id"] for row in await rows(kernel.store, "SELECT CAST(id AS TEXT) AS id FROM holdfast_jobs")]


@pytest.mark.spec("K17", "K24")
async def test_a_job_that_waited_tells_its_claim_once(kernel: Kernel) -> None:
    await submit_many(kernel, One, range(2))
    jobs = await take(kernel)
    waiting = [Ending(job, Parked(f"k{n}", kernel.now() + 60_000)) for n, job in enumerate(jobs)]
    await take(kernel, *waiting, limit=0)
    async with kernel.store.transaction() as tx:
        called = [Ending(job, Called("1"), "1", expected=State.WAITING) for job in jobs]
        await end(kernel, tx, called)
    for job in jobs:
        told = [("created", 0), ("claimed", 1), ("waiting", 1), ("succeeded", 1)]
        assert steps(await story(kernel, job.id)) == told
        async with kernel.store.transaction() as tx:
            await events.write_success(tx, job.id)
            await events.write_success(tx, job.id)
        assert steps(await story(kernel, job.id)) == told, "written down, it is still told once"
    assert await audit(kernel) == []


# What code of before writes, which knows nothing of `claimed_at`.
OLD_LOST = (
    """UPDATE holdfast_jobs SET state = 'queued', lease_owner = NULL, lease_until = NULL WHERE state = 'processing'"""
)
OLD_CLAIM = """UPDATE holdfast_jobs SET state = 'processing', attempt = attempt + 1, lease_owner = 'old',
  lease_until = CAST(:now AS BIGINT) + 60000, last_attempt_at = CAST(:now AS BIGINT) WHERE state = 'queued'"""
OLD_GOES_ON = "UPDATE holdfast_jobs SET attempt = attempt + 1, stage = 'keep', last_attempt_at = CAST(:now AS BIGINT)"
OLD_EVENT = """INSERT INTO holdfast_job_events (job_id, attempt, type, at)
SELECT id, attempt, CAST(:type AS TEXT), CAST(:now AS BIGINT) FROM holdfast_jobs"""


async def by_old_code(kernel: Kernel, change: str, type: str, *, event_first: bool = False) -> None:
    async with kernel.store.transaction() as tx:
        written = statement_of(change), statement_of(OLD_EVENT)
        for text in reversed(written) if event_first else written:
            params = {"now": kernel.now(), "type": type}
            await tx.rows(text, **{name: params[name] for name in text.order})


@pytest.mark.spec("K22")
@pytest.mark.parametrize("old_claims_next", [False, True])
async def test_an_attempt_of_ours_that_older_code_ends_keeps_its_claim(
    kernel: Kernel, clock: HandClock, old_claims_next: bool
) -> None:
    await submit_many(kernel, One, range(3))
    await take(kernel)
    clock.advance(1)
    await by_old_code(kernel, OLD_LOST, "lost")
    expected = [("created", 0), ("claimed", 1), ("lost", 1)]
    assert [steps(await story(kernel, job)) for job in await ids(kernel)] == [expected] * 3
    if old_claims_next:
        await by_old_code(kernel, OLD_CLAIM, "claimed")
    else:
        await take(kernel)
    expected.append(("claimed", 2))
    assert [steps(await story(kernel, job)) for job in await ids(kernel)] == [expected] * 3
    assert await audit(kernel) == []


@pytest.mark.spec("K22")
async def test_an_attempt_of_older_code_that_we_end_tells_its_claim_once(kernel: Kernel, clock: HandClock) -> None:
    await submit_many(kernel, Two, range(2))
    await by_old_code(kernel, OLD_CLAIM, "claimed")
    await by_old_code(kernel, OLD_GOES_ON, "went_on", event_first=True)
    held = await rows(kernel.store, "SELECT CAST(id AS TEXT) AS id FROM holdfast_jobs")
    async with kernel.store.transaction() as tx:
        locked = [await jobs_table.lock_one(tx, row["id"]) for row in held]
        await end(kernel, tx, [Ending(found[0], BROKEN) for found in locked if found is not None])
    expected = [("created", 0), ("claimed", 1), ("advanced", 1), ("claimed", 2), ("retried", 2)]
    assert [steps(await story(kernel, row["id"])) for row in held] == [expected] * 2
    assert await audit(kernel) == []


@pytest.mark.parametrize("text", ["", "-1", "x", "1.", "1.1.1", "٣", "9" * 19, "1." + "9" * 19, "1.1\n", None])
def test_what_is_no_place_is_the_beginning(text: str | None) -> None:
    assert EventPosition.parse(text) == BEGINNING


def test_a_place_is_read_back_as_it_was_written() -> None:
    assert [
        EventPosition.parse(str(place)) for place in (EventPosition(7), EventPosition(7, 1), EventPosition(0, 2))
    ] == [(7, 0), (7, 1), (0, 2)]
