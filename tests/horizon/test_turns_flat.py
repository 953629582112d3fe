"""Taking turns costs the same behind what many jobs leave behind, and behind a backlog that no statistics know."""

from __future__ import annotations

import psycopg
import pytest

from holdfast import App, Context, Job, Limit, stage
from holdfast.core.outcome import Done
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.settle import Ending
from holdfast.kernel.submit import submit_many
from holdfast.kernel.turn import claim_one, turn
from holdfast.kernel.upkeep.taking_turns import let_newcomers_in
from holdfast.operator.snapshot import snapshot
from holdfast.testing import HandClock
from tests.horizon.explaining import ExplainingStore
from tests.horizon.test_flat import MORE, held_snapshot, vacuum

JOBS, KEYS = 4_000, 40
A_FEW = 20
"""Buffers that twenty jobs may cost more: another level of an index for each that is written."""
STATEMENTS = ("turns.lanes", "turns.next_keys", "turns.admit", "depth.in_line")
END = (  # as a job does: let in, claimed, ended
    "UPDATE holdfast_jobs SET hold = NULL, parked = 0, run_at = run_at + 1 WHERE hold = 'turn'",
    "UPDATE holdfast_jobs SET state = 'processing', attempt = 1, lease_owner = 'w', lease_until = 1"
    " WHERE state = 'queued' AND parked = 0",
    "UPDATE holdfast_jobs SET state = 'succeeded', lease_owner = NULL, lease_until = NULL, finished_at = 1"
    " WHERE state = 'processing'",
)
app = App("turns_flat")


@app.job(fair_by="owner")
class Send(Job[int]):
    @stage()
    async def send(self, ctx: Context, number: int) -> None: ...


limited = App("limited")


@limited.job(limit=Limit(per="owner", at_once=30, per_minute=1_000))
class Charge(Job[int]):
    @stage()
    async def charge(self, ctx: Context, number: int) -> None: ...


async def fill(kernel: Kernel, owner: str, count: int) -> None:
    await submit_many(kernel, Send, range(count), owner=owner)


def end_all(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for text in END:
            connection.execute(text.encode())


async def measured(kernel: Kernel, store: ExplainingStore, clock: HandClock) -> dict[str, int]:
    """What each statement of a turn costs at the most: with nothing to do, and with twenty jobs of two keys."""
    clock.advance(60)
    await turn(kernel, "w", ["turns_flat"], [], 20)  # the look from the bottom
    await snapshot(kernel)
    clock.advance(0.6)
    store.forget()
    await turn(kernel, "w", ["turns_flat"], [], 20)
    for owner in ("noisy", "quiet"):
        await fill(kernel, owner, 10)
    assert [depth.jobs for depth in (await snapshot(kernel)).lanes] == [20]
    taken, _ = await turn(kernel, "w", ["turns_flat"], [], 20)
    assert len(taken) == 20
    await turn(kernel, "w", ["turns_flat"], [Ending(one.job, Done(None), None) for one in taken], 20)
    return {name: store.buffers[name] for name in STATEMENTS}


@pytest.mark.slow
@pytest.mark.spec("K21", "K25")
async def test_taking_turns_costs_no_more_behind_a_held_snapshot(postgres_url: str) -> None:
    clock = HandClock()
    store = ExplainingStore(postgres_url, clock=clock)
    kernel = Kernel(store, Registry([app]))
    await kernel.migrate()
    vacuum(postgres_url)
    clean = await measured(kernel, store, clock)
    with held_snapshot(postgres_url):
        await fill(kernel, "noisy", JOBS)
        for number in range(KEYS):
            await fill(kernel, f"key {number}", JOBS // KEYS)
        end_all(postgres_url)
        behind = await measured(kernel, store, clock)
        store.forget()
        await turn(Kernel(store, kernel.registry), "w", ["turns_flat"], [], 20)
        walked = dict(store.buffers)
    await store.close()

    assert {name: (clean[name], behind[name]) for name in STATEMENTS if behind[name] > MORE * clean[name] + A_FEW} == {}
    assert walked["turns.lanes"] > 10 * behind["turns.lanes"], "there is nothing to walk over here"


async def count(kernel: Kernel, store: ExplainingStore, clock: HandClock) -> int:
    """What a count of a key with five jobs under way costs, once the process has counted it, a while ago."""
    await submit_many(kernel, Charge, range(5), owner="ann")
    taken, _ = await turn(kernel, "w", ["limited"], [], 20)
    assert len(taken) == 5
    clock.advance(300)
    await submit_many(kernel, Charge, range(1), owner="ann")
    store.forget()
    more, _ = await turn(kernel, "w", ["limited"], [], 20)
    cost = store.buffers["turns.begun"]
    await turn(kernel, "w", ["limited"], [Ending(one.job, Done(None), None) for one in taken + more], 0)
    clock.advance(300)
    return cost


@pytest.mark.slow
@pytest.mark.spec("K21", "K25")
async def test_counting_what_a_key_has_begun_costs_no_more_behind_a_held_snapshot(postgres_url: str) -> None:
    clock = HandClock()
    store = ExplainingStore(postgres_url, clock=clock)
    kernel = Kernel(store, Registry([limited]))
    await kernel.migrate()
    clean = await count(kernel, store, clock)
    with held_snapshot(postgres_url):
        for _ in range(40):
            await submit_many(kernel, Charge, range(30), owner="ann")
            taken, _ = await turn(kernel, "w", ["limited"], [], 30)
            await turn(kernel, "w", ["limited"], [Ending(one.job, Done(None), None) for one in taken], 0)
            clock.advance(61)
        behind = await count(kernel, store, clock)
        store.forget()
        await submit_many(kernel, Charge, range(1), owner="ann")
        await turn(Kernel(store, kernel.registry), "w", ["limited"], [], 20)
        walked = store.buffers["turns.begun"]
    await store.close()

    assert behind <= MORE * clean
    assert walked > 10 * behind, "there is nothing to walk over here"


@pytest.mark.slow
@pytest.mark.spec("K25")
async def test_a_newcomer_costs_no_more_behind_a_backlog_that_no_statistics_know(postgres_url: str) -> None:
    """Right after a bulk the planner believes in an empty table: no statement may become a pass over the backlog."""
    clock = HandClock()
    store = ExplainingStore(postgres_url, clock=clock)
    kernel = Kernel(store, Registry([app]))
    await kernel.migrate()
    empty = await measured(kernel, store, clock)
    await fill(kernel, "noisy", JOBS)
    for number in range(6):  # a prepared statement gets its general plan with the sixth use
        await fill(kernel, f"new {number}", 1)
        store.forget()
        taken, _ = await turn(kernel, "w", ["turns_flat"], [], 4)
        assert f"new {number}" in {one.job.owner for one in taken}
    behind = {name: store.buffers[name] for name in STATEMENTS}
    await store.close()
    assert {name: (empty[name], behind[name]) for name in STATEMENTS if behind[name] > MORE * empty[name] + A_FEW} == {}


@pytest.mark.slow
@pytest.mark.spec("K25")
async def test_a_newcomer_behind_a_backlog_waits_for_fewer_statements_than_an_idle_pick_up(postgres_url: str) -> None:
    """The statements that follow each other between the ring and the start; wall times say little on a busy machine."""
    clock = HandClock()
    store = ExplainingStore(postgres_url, clock=clock)
    kernel = Kernel(store, Registry([app]))
    await kernel.migrate()
    await measured(kernel, store, clock)
    await fill(kernel, "first", 1)
    store.forget()
    taken, _ = await turn(kernel, "w", ["turns_flat"], [], 4)
    idle = set(store.buffers)
    await fill(kernel, "noisy", JOBS)
    await turn(kernel, "w", ["turns_flat"], [Ending(one.job, Done(None), None) for one in taken], 4)
    await fill(kernel, "new", 1)
    store.forget()
    (job_id,) = await let_newcomers_in(kernel, ["turns_flat"], 1, {"noisy"})
    leased = await claim_one(kernel, "w", job_id)
    await store.close()

    assert leased is not None and leased.job.owner == "new"
    assert idle == {"turns.lanes", "turns.next_keys", "turns.admit", "jobs.turn"}
    assert set(store.buffers) == {"turns.next_keys", "turns.admit", "jobs.claim_one"}
