"""Statements in moments that hardly ever come: what they leave alone is as important as what they write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import App, Context, Job, Provider, Retry, stage
from holdfast.core.breaker import BreakerState, Gate
from holdfast.core.effect import EffectRow, EffectStatus
from holdfast.core.floor import LATER
from holdfast.core.job import PRIORITIES
from holdfast.errors import CallError, LeaseLost, NotAllowed, ProviderHeld
from holdfast.kernel import operate
from holdfast.kernel.call import look_again
from holdfast.kernel.effects import _outcome_of_other
from holdfast.kernel.hands.place import delete
from holdfast.kernel.record import CallPermit
from holdfast.kernel.turn import claim_one, turn
from holdfast.kernel.upkeep.prune import prune_once
from holdfast.stores.statement import _statement
from holdfast.tables import jobs, providers
from holdfast.testing import World
from tests.kernel.places import Deploy, rows

app = App("rare")
api = Provider("rare.api")
DAY_S = 86_400


@dataclass
class Given:
    name: str


@app.job(search=("name",))
class Walk(Job[Given]):
    @stage(retry=Retry(attempts=2, base_s=1, jitter="none"))
    async def first(self, ctx: Context, given: Given) -> None:
        if given.name == "fails":
            raise CallError.from_status(409, "busy", {}, now_ms=0)

    @stage(provider=api)
    async def second(self, ctx: Context, given: Given) -> None: ...


@app.job(fair_by="owner")
class Fair(Job[str]):
    @stage()
    async def run(self, ctx: Context, text: str) -> None: ...


async def row(world: World, job_id: str, *columns: str) -> tuple[Any, ...]:
    text = f"SELECT {', '.join(columns)} FROM holdfast_jobs WHERE CAST(id AS TEXT) = :id"
    (found,) = await rows(world.kernel.store, text, id=job_id)
    return tuple(found[name] for name in columns)


async def write(world: World, text: str, **params: Any) -> None:
    async with world.kernel.store.transaction() as tx:
        await tx.rows(_statement("written", {None: text}), **params)


async def buried(world: World) -> tuple[str, str]:
    """A job that failed for good, and its case."""
    job_id = await world.enqueue(Walk, Given("fails"))
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    return job_id, letter["id"]


@pytest.mark.spec("K8")
async def test_a_replay_begins_with_nothing_spent_and_nothing_failed(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id, case = await buried(world)
    assert (await row(world, job_id, "tally", "first_failure_at"))[1] is not None
    await write(world, """UPDATE holdfast_jobs SET tally = '{"earlier":2}', crashes = 2""")
    await operate.triage(world.kernel, case, cause="code", actor="ann")
    await operate.remediate(world.kernel, case, evidence="fixed", actor="ann")
    await operate.replay(world.kernel, case, actor="ann")
    spent = await row(world, job_id, "tally", "failures", "crashes", "first_failure_at", "error", "finished_at")
    assert spent == (None, 0, 0, None, None, None)


@pytest.mark.spec("K8", "004.13")
async def test_only_a_dead_job_is_given_another_input(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Walk, Given("x"))
    async with world.kernel.store.transaction() as tx:
        assert not await jobs.correct(tx, job_id, "{}", 2, world.kernel.now())
    assert "x" in (await row(world, job_id, "payload"))[0]


@pytest.mark.spec("K2", "K25")
async def test_a_bell_for_a_job_that_waits_for_its_turn_finds_nothing(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Fair, "x", owner="ann")
    assert (await row(world, job_id, "parked", "hold")) == (1, "turn")
    assert await claim_one(world.kernel, "w1", job_id) is None
    later = await world.enqueue(Walk, Given("x"), delay_s=60)
    assert await claim_one(world.kernel, "w1", later) is None, "nor one that is not due"


@pytest.mark.spec("K4", "K9")
async def test_what_is_let_through_is_not_due_before_its_time(deploy: Deploy) -> None:
    world = await deploy(app)
    now = world.kernel.now()
    ids = [await world.enqueue(Walk, Given("x")) for _ in range(3)]
    for number, job_id in enumerate(ids):
        parking = "UPDATE holdfast_jobs SET parked = 1, provider = 'rare.api', run_at = :at, updated_at = :since"
        await write(world, f"{parking} WHERE CAST(id AS TEXT) = :id", at=now + 5_000, since=now - number, id=job_id)
    async with world.kernel.store.transaction() as tx:
        assert (await jobs.unpark(tx, "rare.api", 2, now)).total() == 2
    assert [await row(world, job_id, "parked", "run_at") for job_id in ids] == [
        (1, now + 5_000),
        (0, now + 5_000),
        (0, now + 5_000),
    ], "those that were parked first, and none of them early"


@pytest.mark.spec("K2")
async def test_a_floor_is_where_a_claim_begins_and_not_after_it(deploy: Deploy) -> None:
    world = await deploy(app)
    kernel, now = world.kernel, world.kernel.now()
    for delay_s in (0.0, 1.0):
        await world.enqueue(Walk, Given("x"), delay_s=delay_s)
    world.clock.advance(1.0)
    lanes = {(app.name, priority): now for priority in PRIORITIES} | {(app.name, LATER): now + 1_000}
    claim = jobs.Claim("w1", [app.name], kernel.registry.declared, 5, now + 60_000, lanes)
    async with kernel.store.transaction() as tx:
        taken = await jobs.turn(tx, [], claim, kernel.now())
    assert len(taken.leased) == 2


@pytest.mark.spec("K18")
async def test_nothing_of_a_forgotten_job_can_be_searched_for(deploy: Deploy) -> None:
    world = await deploy(app)
    await world.enqueue(Walk, Given("wanted"))
    await world.run_until_idle()
    assert await rows(world.kernel.store, "SELECT value FROM holdfast_search") == [{"value": "wanted"}]
    world.clock.advance(31 * DAY_S)
    assert await prune_once(world.kernel) == 1
    assert await rows(world.kernel.store, "SELECT value FROM holdfast_search") == []


@pytest.mark.spec("K9")
async def test_a_trial_that_stood_still_is_still_a_trial(deploy: Deploy) -> None:
    """Its own half-open gate does not turn it away; one that has opened since does."""
    world = await deploy(app)
    kernel, now = world.kernel, world.kernel.now()
    half_open = BreakerState(gate=Gate.HALF_OPEN, generation=4)
    async with kernel.store.transaction() as tx:
        found = await providers.lock(tx, api.name, now)
        await providers.swap(tx, api.name, found.state, half_open, now)
    await look_again(kernel, api, CallPermit("t", 4), None)
    with pytest.raises(ProviderHeld):
        await look_again(kernel, api, CallPermit("t", 3), None)


@pytest.mark.spec("K8")
async def test_what_another_job_has_started_is_not_deleted_although_it_ended_well(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Walk, Given("x"))
    await world.run_until_idle()
    await write(world, "UPDATE holdfast_jobs SET join_id = 'theirs'")
    with pytest.raises(NotAllowed, match="Another job has started it"):
        await delete(world.kernel, job_id, actor="ann")
    await write(world, "UPDATE holdfast_jobs SET join_id = NULL")
    await delete(world.kernel, job_id, actor="ann")
    assert await rows(world.kernel.store, "SELECT id FROM holdfast_jobs") == []


@pytest.mark.spec("K12")
async def test_an_entry_that_is_gone_was_not_ours_to_mark(deploy: Deploy) -> None:
    """Forgotten between the send and the mark: as lost as one that another attempt took over."""
    world = await deploy(app)
    await world.enqueue(Walk, Given("x"))
    (taken,), _ = await turn(world.kernel, "w1", [app.name], [], 1)
    gone = EffectRow("rare:gone", "token", EffectStatus.SENDING, api.name, None, 0, 1, None, None, None, None)
    with pytest.raises(LeaseLost):
        await _outcome_of_other(world.kernel, taken.job, gone)
