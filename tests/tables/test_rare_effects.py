"""The ledger's statements in moments that hardly ever come: evidence after doubt, two senders, an old answer."""

from __future__ import annotations

import pytest

from holdfast import App, Context, Job, Provider, stage
from holdfast.core.effect import EffectStatus
from holdfast.core.job import Claimed
from holdfast.stores.seam import Tx
from holdfast.stores.statement import _statement
from holdfast.tables import effects
from holdfast.tables.effects import Begin, Mark, Plan, Refusal
from holdfast.testing import World
from tests.kernel.places import Deploy, rows, take

app = App("ledger")
post = Provider("ledger.post", effects="token")
KEY = "post:/letter/ann"


@app.job()
class Write(Job[str]):
    @stage()
    async def write(self, ctx: Context, text: str) -> None: ...


async def running(world: World, count: int = 1) -> list[Claimed]:
    for number in range(count):
        await world.enqueue(Write, f"{number}")
    return await take(world.kernel)


def plan(world: World, job: Claimed, ticket: str | None) -> Plan:
    return Plan(KEY, "t", job.id, job.kind, job.stage, post.name, "token", 0, job.attempt, None, ticket)


async def begun(world: World, tx: Tx, job: Claimed) -> str:
    """A send of this job under way; what it is known by."""
    ticket = world.kernel.new_id()
    assert await effects.begin_new(tx, [plan(world, job, ticket)], world.kernel.now()) == {KEY}
    return ticket


async def status(world: World) -> tuple[str, str | None]:
    (row,) = await rows(world.kernel.store, "SELECT status, provider_id FROM holdfast_effects")
    return row["status"], row["provider_id"]


@pytest.mark.spec("K12", "R6")
async def test_evidence_of_a_send_that_was_thought_unsent_marks_it(deploy: Deploy) -> None:
    world = await deploy(app)
    (job,) = await running(world)
    async with world.kernel.store.transaction() as tx:
        await begun(world, tx, job)
        assert await effects.unsent(tx, KEY, 1, world.kernel.now())
        assert set(await effects.mark(tx, [Mark(KEY, job.id, job.attempt, "id-1")], world.kernel.now())) == {KEY}
    assert await status(world) == ("sent", "id-1")


@pytest.mark.spec("K12", "K18")
async def test_what_a_lookup_found_tells_of_no_call(deploy: Deploy) -> None:
    world = await deploy(app)
    (job,) = await running(world)
    async with world.kernel.store.transaction() as tx:
        await begun(world, tx, job)
        assert await effects.backfill(tx, KEY, "id-1", world.kernel.now())
    assert await status(world) == ("sent", "id-1")
    assert await rows(world.kernel.store, "SELECT provider FROM holdfast_every_call") == []


@pytest.mark.spec("K12")
async def test_an_old_refusal_does_not_speak_for_the_send_that_is_under_way(deploy: Deploy) -> None:
    world = await deploy(app)
    (job,) = await running(world)
    now, attempt = world.kernel.now(), job.attempt
    refusal = Refusal(KEY, job.id, attempt, 1, EffectStatus.PLANNED, "X", "refused")
    async with world.kernel.store.transaction() as tx:
        await begun(world, tx, job)
        assert await effects.begin(tx, [Begin(KEY, job.id, attempt, 0, sends=1)], now) == {KEY: 2}
        assert await effects.refuse(tx, [refusal], now) == set()
        assert await effects.refuse(tx, [refusal._replace(sends=2)], now) == {KEY}
    assert await status(world) == ("planned", None)


@pytest.mark.spec("K12")
async def test_an_effect_is_in_nobodys_hands_only_if_neither_its_planner_nor_its_sender_lives(deploy: Deploy) -> None:
    world = await deploy(app)
    planner, sender = await running(world, 2)
    now = world.kernel.now()
    async with world.kernel.store.transaction() as tx:
        await begun(world, tx, planner)
        assert await effects.begin(tx, [Begin(KEY, sender.id, sender.attempt, 0, sends=1)], now) == {KEY: 2}
    for state, doubtful in ((("succeeded", "queued"), 0), (("queued", "dead"), 0), (("succeeded", "dead"), 1)):
        async with world.kernel.store.transaction() as tx:
            for job, each in zip((planner, sender), state, strict=True):
                await set_state(tx, job.id, each)
            assert len(await effects.in_doubt(tx, now, 10)) == doubtful, state


async def set_state(tx: Tx, job_id: str, state: str) -> None:
    text = """
    UPDATE holdfast_jobs SET state = :state, lease_owner = NULL, lease_until = NULL,
           finished_at = CASE WHEN :state = 'queued' THEN NULL ELSE created_at END
     WHERE CAST(id AS TEXT) = :id
    """
    await tx.rows(_statement("written", {None: text}), state=state, id=job_id)


@pytest.mark.spec("K12", "004.28")
async def test_only_what_was_not_sent_is_handed_over(deploy: Deploy) -> None:
    world = await deploy(app)
    first, second = await running(world, 2)
    async with world.kernel.store.transaction() as tx:
        await begun(world, tx, first)
        await effects.hand_over(tx, first.id, second.id, world.kernel.now())
        (row,) = await effects.of_job(tx, first.id)
        assert row.status == "sending"
        assert await effects.unsent(tx, KEY, 1, world.kernel.now())
        await effects.hand_over(tx, first.id, second.id, world.kernel.now())
        assert [each.key for each in await effects.of_job(tx, second.id)] == [KEY]
