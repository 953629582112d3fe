"""A paused kind or queue is not claimed by anybody; its jobs wait, in sight, and go on when it is resumed."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import App, Context, Job, Provider, stage
from holdfast.core.outcome import Done
from holdfast.engines.worker import Worker
from holdfast.errors import NotAllowed, NotFound
from holdfast.kernel.attempt import run_attempt
from holdfast.kernel.hands.pausing import set_paused
from holdfast.kernel.hold import force, hold_once
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.questions.explain import explain
from holdfast.kernel.reap import sweep_once
from holdfast.kernel.settle import Ending
from holdfast.kernel.submit import submit
from holdfast.kernel.turn import claim_one, turn
from holdfast.tables import audit, lanes, workers
from holdfast.testing import HandClock
from tests.kernel.places import Place, close_all, rows

PARCEL, LETTER = "pausing.parcel", "pausing.letter"
app = App("pausing")
api = Provider("pausing.api")


@app.job()
class Letter(Job[str]):
    @stage()
    async def write(self, ctx: Context, text: str) -> str:
        return text

    @stage(provider=api)
    async def send(self, ctx: Context, text: str, write: str) -> None: ...


@app.job(deadline_s=60)
class Parcel(Job[str]):
    @stage(provider=api)
    async def send(self, ctx: Context, text: str) -> None: ...


class Office:
    """Two processes on one database, each of which has claimed before."""

    def __init__(self, kernel: Kernel, other: Kernel) -> None:
        self.kernel, self.other = kernel, other

    async def take(self, kernel: Kernel | None = None) -> list[str]:
        """The kinds of what a worker leases; it gives all of it back as done."""
        kernel = kernel or self.kernel
        taken, _ = await turn(kernel, "w", ["pausing"], [], 5)
        await turn(kernel, "w", ["pausing"], [Ending(one.job, Done(None)) for one in taken], 0)
        return [one.job.kind for one in taken]

    async def pause(self, name: str, sort: Any = "kind") -> None:
        await set_paused(self.kernel, sort, name, paused=True, actor="olga", reason="prices are wrong")

    async def resume(self, name: str, sort: Any = "kind") -> None:
        await set_paused(self.kernel, sort, name, paused=False, actor="olga", reason="they are right")

    async def column(self, name: str) -> list[Any]:
        return [
            row[name]
            for row in await rows(self.kernel.store, f"SELECT {name} FROM holdfast_jobs ORDER BY kind DESC, id")
        ]


@pytest.fixture
async def office(place: Place, clock: HandClock) -> Any:
    yield Office(place.kernel(app, clock=clock), place.kernel(app, clock=clock, seed=2))
    await close_all(place)


async def test_a_paused_kind_is_claimed_by_nobody_and_costs_one_claim_a_row(office: Office, clock: HandClock) -> None:
    await submit(office.other, Parcel, "a")
    await submit(office.other, Letter, "b")
    await office.pause(PARCEL)
    assert await office.take(office.other) == [LETTER], "the other process has read the pause in its claim"
    assert await office.column("hold") == ["pause", None]
    assert await office.column("parked") == [1, 0]
    assert await office.column("attempt") == [0, 2 - 1]
    _, again = await turn(office.kernel, "w", ["pausing"], [], 5)
    assert again == 0, "what is set aside is in no claim's way"


async def test_what_was_set_aside_goes_on_with_its_provider_when_the_kind_is_resumed(
    office: Office, clock: HandClock
) -> None:
    for text in "abc":
        await submit(office.kernel, Parcel, text)
        clock.advance(1)
    await office.pause(PARCEL)
    assert await office.take() == []
    assert await office.column("provider") == [None] * 3, "no breaker lets a paused job go"
    await force(office.kernel, api.name, open=True, actor="olga", reason="x")
    await force(office.kernel, api.name, open=False, actor="olga", reason="x")
    assert await hold_once(office.kernel) == 0
    await office.resume(PARCEL)
    assert await hold_once(office.other) == 3, "the keeper may be another process"
    assert await office.column("provider") == [api.name] * 3
    assert await office.take() == [PARCEL] * 3


async def test_a_job_that_was_set_aside_by_a_claim_that_was_late_is_let_go_too(
    office: Office, clock: HandClock
) -> None:
    await office.pause(PARCEL)
    await office.resume(PARCEL)
    assert await hold_once(office.kernel) == 0
    job = await submit(office.kernel, Parcel, "a")
    async with office.kernel.store.transaction() as tx:
        await lanes.park(tx, {job: (0, "pause")}, office.kernel.now())  # its statement began before the resume
    clock.advance(61)
    assert await hold_once(office.kernel) == 1


async def test_a_paused_queue_is_not_looked_at_and_goes_on_where_it_was(office: Office, clock: HandClock) -> None:
    await submit(office.kernel, Letter, "a")
    later = await submit(office.kernel, Letter, "b", delay_s=2)
    await office.pause("pausing", "queue")
    for _ in range(4):
        assert await office.take() == [] == await office.take(office.other)
        clock.advance(5)
    assert set(await office.column("parked")) == {0}, "nothing of it is written"
    assert await office.take() == [], "this was the look from the bottom"
    await office.resume("pausing", "queue")
    assert sorted(await office.take()) == [LETTER, LETTER], f"at once, {later} too: no floor was raised over them"


async def test_no_job_goes_on_to_its_next_stage_while_its_kind_or_queue_is_paused(office: Office) -> None:
    await submit(office.kernel, Letter, "a")
    (taken,), _ = await turn(office.kernel, "w", ["pausing"], [], 5)
    await office.pause(LETTER)
    ended = await run_attempt(office.kernel, taken)
    assert ended is not None
    kept, _ = await turn(office.kernel, "w", ["pausing"], [ended], 0, goes_on=True)
    assert kept == []
    assert (await office.column("state"), await office.column("stage")) == (["queued"], ["send"])
    assert await office.take() == []


async def test_engines_that_carry_ids_are_told_of_nothing_that_is_paused(office: Office, clock: HandClock) -> None:
    kernel = office.kernel
    job = await submit(kernel, Parcel, "a")
    asked = (kernel.registry.declared, office.kernel.now(), 10)
    await office.pause("pausing", "queue")
    assert await claim_one(kernel, "w", job) is None
    async with kernel.store.transaction() as tx:
        assert await lanes.due_ids(tx, "pausing", *asked) == ([], {})
    await office.resume("pausing", "queue")
    await office.pause(PARCEL)
    assert await claim_one(kernel, "w", job) is None
    async with kernel.store.transaction() as tx:
        assert (await lanes.due_ids(tx, "pausing", *asked))[0] == []
    assert await office.column("hold") == ["pause"]


async def test_deadlines_run_while_a_kind_is_paused(office: Office, clock: HandClock) -> None:
    await submit(office.kernel, Parcel, "a")
    await office.pause(PARCEL)
    assert await office.take() == []
    clock.advance(61)
    assert await sweep_once(office.kernel) == 1
    assert (await office.column("state"), await office.column("hold")) == (["dead"], [None])


async def test_why_a_job_waits_is_said_with_who_paused_it_and_why(office: Office, clock: HandClock) -> None:
    job = await submit(office.kernel, Parcel, "a")
    await office.pause(PARCEL)
    clock.advance(30)
    for _ in range(2):  # before a claim has met it, and after
        why = await explain(office.kernel, job)
        assert why.facts["code"] == "PAUSED"
        assert (
            "olga has paused the kind 'pausing.parcel'" in why.sentence
            and "30 s ago (prices are wrong)" in why.sentence
        )
        assert "its deadline is" in why.sentence
        assert await office.take() == []
    await office.resume(PARCEL)
    assert (await explain(office.kernel, job)).facts["code"] == "RELEASED"


async def test_a_pause_is_audited_and_what_cannot_be_paused_is_refused(office: Office) -> None:
    await office.pause(PARCEL)
    with pytest.raises(NotAllowed, match="paused already"):
        await office.pause(PARCEL)
    with pytest.raises(NotAllowed, match="not paused"):
        await office.resume(LETTER)
    with pytest.raises(NotFound, match="kind named 'Parsel'"):
        await office.pause("Parsel")
    with pytest.raises(NotFound, match="queue named 'x'"):
        await office.pause("x", "queue")
    async with office.kernel.store.reading() as tx:
        (line,) = await audit.of_subject(tx, "kind:pausing.parcel")
    assert (line.actor, line.action) == ("olga", "kind.paused") and "prices are wrong" in line.data


async def test_a_drained_worker_ends_what_it_has_and_takes_nothing_until_it_is_told_to(office: Office) -> None:
    worker = Worker(office.kernel, queues=["pausing"])
    await worker.renew()
    await rows_drain(office.kernel, worker.name, 1)
    await worker.renew()
    await submit(office.kernel, Letter, "a")
    assert worker._room() == 0
    await rows_drain(office.kernel, worker.name, None)
    await worker.renew()
    assert worker._room() == worker.concurrency
    assert await worker.run_until_idle() == 2


async def rows_drain(kernel: Kernel, name: str, at: int | None) -> None:
    async with kernel.store.transaction() as tx:
        assert await workers.drain(tx, name, at)
