"""Every state against every verb: an edge that is not in the table is refused and leaves the row as it was."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import App, Context, Discard, Done, Job, NotAllowed, Snooze, Wait, stage
from holdfast.core.failure import Category, failure
from holdfast.core.job import EDGES, LIVE, TERMINAL, Claimed, State
from holdfast.core.outcome import Called, Failed, Held, Lost, Next, Outcome, Overdue, Released, Withdrawn
from holdfast.errors import StoreError
from holdfast.kernel import operate
from holdfast.kernel.intake import called_back
from holdfast.kernel.reap import reap_once, sweep_once
from holdfast.kernel.settle import Ending
from holdfast.kernel.turn import claim_one, end
from holdfast.stores.statement import _statement
from holdfast.tables import jobs, leases
from holdfast.testing import World
from tests.kernel.places import Deploy, take

app = App("edges")
planned: list[Any] = []


@app.job(deadline_s=1_000)
class Thing(Job[str]):
    @stage()
    async def run(self, ctx: Context, text: str) -> Any:
        return planned.pop() if planned else text


async def brought_to(world: World, state: State) -> tuple[str, Claimed]:
    """A job in this state, and the attempt that somebody still holds of it (if only in memory)."""
    job_id = await world.enqueue(Thing, "x")
    ghost = Claimed(
        *(job_id, "edges.thing", "edges", "run", state, 1, 0, 0, 0, 2, 0, 0, None, None, None, None, None, '"x"')
    )
    if state is State.QUEUED:
        return job_id, ghost
    if state is State.PROCESSING:
        (job,) = await take(world.kernel)
        return job_id, job
    if state is State.CANCELLED:
        await take(world.kernel)
        await operate.cancel(world.kernel, job_id, "ann")
        return job_id, ghost
    planned.append({State.WAITING: Wait("k", 500), State.DEAD: Discard("no"), State.SUCCEEDED: Done(1)}[state])
    await world.work()
    assert await world.state(job_id) == state
    return job_id, ghost


FAILURE = failure(Category.BUG, "BUG", "x")
OUTCOMES: list[Outcome] = [
    *(Done("v"), Next("v"), Snooze(1), Wait("other", 9), Discard("no"), Failed(FAILURE), Held("p", "held", 0)),
    *(Lost(), Released(), Overdue(), Called("{}"), Withdrawn("ann")),
]


@pytest.mark.spec("K15")
@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("state", list(State))
async def test_an_attempt_ends_only_a_job_that_it_holds(deploy: Deploy, state: State, outcome: Outcome) -> None:
    """A worker settles from `processing`; only a job in that state, at that attempt, is changed."""
    world = await deploy(app)
    job_id, job = await brought_to(world, state)
    before = await world.job(job_id)
    async with world.kernel.store.transaction() as tx:
        accepted = await end(world.kernel, tx, [Ending(job, outcome, '"v"')])
    after = await world.job(job_id)
    if state is State.PROCESSING:
        assert accepted == {job_id} and (state, State(after["state"])) in EDGES
        async with world.kernel.store.transaction() as tx:
            assert await end(world.kernel, tx, [Ending(job, Done("v"), '"v"')]) == set(), "only once"
        assert await world.job(job_id) == after
    else:
        assert accepted == set() and after == before


@pytest.mark.spec("K15")
async def test_an_edge_that_is_not_in_the_table_is_not_written(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id, job = await brought_to(world, State.QUEUED)
    before = await world.job(job_id)
    with pytest.raises(AssertionError, match="never goes from queued to queued"):
        async with world.kernel.store.transaction() as tx:
            await end(world.kernel, tx, [Ending(job, Released(), expected=State.QUEUED)])
    assert await world.job(job_id) == before


VERBS: dict[str, tuple[Any, dict[State, State]]] = {
    "claim": (lambda w, j: claim_one(w.kernel, "w9", j), {State.QUEUED: State.PROCESSING}),
    "cancel": (
        lambda w, j: operate.cancel(w.kernel, j, "ann"),
        dict.fromkeys(sorted(LIVE), State.CANCELLED),
    ),
    "call back": (lambda w, j: called_back(w.kernel, "k", "m", "{}"), {State.WAITING: State.SUCCEEDED}),
    "reap": (lambda w, j: _reap(w), {State.PROCESSING: State.QUEUED}),
    "sweep": (lambda w, j: _sweep(w), dict.fromkeys(sorted(LIVE), State.DEAD)),
    "revive": (lambda w, j: _revive(w, j), {State.DEAD: State.QUEUED}),
    "renew": (lambda w, j: _renew(w, j), {}),
}


async def _reap(world: World) -> None:
    world.clock.advance(61)
    await reap_once(world.kernel)


async def _sweep(world: World) -> None:
    world.clock.advance(1_001)
    await sweep_once(world.kernel)


async def _revive(world: World, job_id: str) -> None:
    async with world.kernel.store.transaction() as tx:
        await jobs.revive(tx, job_id, "run", None, 0, world.kernel.now(), done=None)


async def _renew(world: World, job_id: str) -> None:
    async with world.kernel.store.transaction() as tx:
        assert await leases.renew(tx, {job_id: 7}, world.kernel.now() + 1) == set(), "not under another attempt"


@pytest.mark.spec("K15")
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("state", list(State))
async def test_each_verb_moves_only_the_states_it_names(deploy: Deploy, state: State, verb: str) -> None:
    world = await deploy(app)
    job_id, _ = await brought_to(world, state)
    before = await world.job(job_id)
    act, moves = VERBS[verb]
    if state in TERMINAL and verb == "cancel":
        with pytest.raises(NotAllowed, match=state):
            await act(world, job_id)
    else:
        await act(world, job_id)
    after = await world.job(job_id)
    if state in moves:
        assert after["state"] == moves[state] and (state, moves[state]) in EDGES
    else:
        assert after == before


@pytest.mark.spec("K15")
@pytest.mark.parametrize(
    "forged",
    [
        "state = 'processing'",
        "state = 'succeeded'",
        "state = 'waiting'",
        "state = 'asleep'",
        "lease_until = 1",
        "wait_key = 'k'",
        "finished_at = 1",
        "state = 'succeeded', finished_at = 1, parked = 1",
        "parked = 2",
        "priority = 4",
    ],
)
async def test_the_table_itself_refuses_a_row_that_contradicts_itself(deploy: Deploy, forged: str) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Thing, "x")
    before = await world.job(job_id)
    with pytest.raises(StoreError):
        async with world.kernel.store.transaction() as tx:
            await tx.rows(_statement("forge", {None: f"UPDATE holdfast_jobs SET {forged}"}))
    assert await world.job(job_id) == before
