"""What a person may move, and what stands in the way: a wait that was asked for, a parent, a young doubt."""

from __future__ import annotations

import pytest

from holdfast.tables import cases, effects, pauses, places
from holdfast.tables.effects import Mark, Plan
from tests.kernel.places import Deploy, rows, take
from tests.tables.test_fences import Note, app, running
from tests.tables.test_rare_rows import write

T = 1_767_225_600_000


@pytest.mark.spec("K15")
async def test_a_job_is_not_run_before_the_time_its_provider_asked_for(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Note, {"name": "x"}, delay_s=600)
    now = world.kernel.now()
    for not_before, runs in ((now + 1, False), (now, True)):
        await write(world, "UPDATE holdfast_jobs SET not_before = :at", at=not_before)
        async with world.kernel.store.transaction() as tx:
            assert bool(await tx.rows(places.sql.run_now, id=job_id, now=now)) is runs


@pytest.mark.spec("K18")
async def test_a_child_is_not_deleted_under_its_parent(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Note, {"name": "x"})
    await world.run_until_idle()
    for join_id, goes in (("'j'", False), ("NULL", True)):
        await write(world, f"UPDATE holdfast_jobs SET join_id = {join_id}")
        async with world.kernel.store.transaction() as tx:
            assert bool(await tx.rows(places.sql.remove, id=job_id)) is goes


@pytest.mark.spec("K4")
async def test_a_job_with_another_priority_is_seen_by_every_claim(deploy: Deploy) -> None:
    """It comes back as what has come due does: its new lane's floor may lie behind it."""
    world = await deploy(app)
    job_id = await world.enqueue(Note, {"name": "x"})
    now = world.kernel.now() + 5
    async with world.kernel.store.transaction() as tx:
        assert await tx.rows(places.sql.set_priority, id=job_id, priority=0, now=now)
    (row,) = await rows(world.kernel.store, "SELECT is_due, run_at, priority FROM holdfast_jobs")
    assert row == {"is_due": 0, "run_at": now, "priority": 0}


@pytest.mark.spec("K4")
async def test_what_a_pause_held_comes_back_at_its_own_time_and_not_while_it_lasts(deploy: Deploy) -> None:
    world = await deploy(app)
    for delay_s in (0, 600):
        await world.enqueue(Note, {"name": "x"}, delay_s=delay_s)
    now = world.kernel.now()
    kind = {"sort": "kind", "name": "fences.note", "actor": "ann", "reason": "r", "now": now}
    await write(world, "UPDATE holdfast_jobs SET parked = 1, hold = 'pause', is_due = 1")
    freed = {"kind": "fences.note", "floor": 0, "now": now + 9, "limit": 9, "stages": '{"run": ["p"]}'}
    async with world.kernel.store.transaction() as tx:
        await tx.rows(pauses.sql.put, is_paused=1, **kind)
        assert await tx.rows(pauses.sql.release, **freed) == []
        await tx.rows(pauses.sql.put, is_paused=0, **kind)
        assert len(await tx.rows(pauses.sql.release, **freed)) == 2
    found = await rows(world.kernel.store, "SELECT run_at, hold, parked, provider FROM holdfast_jobs ORDER BY run_at")
    free = {"hold": None, "parked": 0, "provider": "p"}
    assert found == [{"run_at": now + 9, **free}, {"run_at": now + 600_000, **free}]


@pytest.mark.spec("K4")
async def test_a_job_waits_for_the_pauses_of_its_own_kind_and_queue(deploy: Deploy) -> None:
    world = await deploy(app)
    async with world.kernel.store.transaction() as tx:
        for sort, name in (("kind", "k"), ("queue", "q"), ("queue", "k"), ("kind", "q")):
            await tx.rows(pauses.sql.put, sort=sort, name=name, is_paused=1, actor="ann", reason="r", now=T)
        found = await tx.rows(pauses.sql.of_job, kind="k", queue="q")
    assert [(row["sort"], row["name"]) for row in found] == [("kind", "k"), ("queue", "q")]


@pytest.mark.spec("K12")
async def test_a_doubt_is_left_to_its_sender_for_a_while(deploy: Deploy) -> None:
    world = await deploy(app)
    job = await running(world)
    plan = Plan("k", "t", job.id, job.kind, job.stage, "p", "token", 0, job.attempt, None, "ticket")
    async with world.kernel.store.transaction() as tx:
        assert await effects.begin_new(tx, [plan], T)
    await write(
        world, "UPDATE holdfast_jobs SET state = 'succeeded', lease_owner = NULL, lease_until = NULL, finished_at = 1"
    )
    async with world.kernel.store.transaction() as tx:
        for before, number in ((T - 1, 0), (T, 1)):
            assert len(await tx.rows(effects.sql.in_doubt, floor=0, before=before, limit=9)) == number


@pytest.mark.spec("K12")
async def test_the_ticket_of_a_send_is_its_own_jobs(deploy: Deploy) -> None:
    """Who planned an effect has its call's row in the history of the job that sent it, and of no other."""
    world = await deploy(app)
    for _ in range(2):
        await world.enqueue(Note, {"name": "x"})
    first, second = await take(world.kernel)
    plan = Plan("k", "t", first.id, first.kind, first.stage, "p", "token", 0, first.attempt, None, "ticket")
    async with world.kernel.store.transaction() as tx:
        assert await effects.begin_new(tx, [plan], T)
        assert await effects.mark(tx, [Mark("k", first.id, first.attempt, "id")], T) == {"k": "ticket"}
    await write(
        world,
        "UPDATE holdfast_effects SET status = 'sending', provider_id = NULL, marked_at = NULL,"
        " sender = CAST(:id AS /*id*/), attempt = :attempt",
        id=second.id,
        attempt=second.attempt,
    )
    async with world.kernel.store.transaction() as tx:
        assert await effects.mark(tx, [Mark("k", second.id, second.attempt, "id")], T) == {"k": None}


@pytest.mark.spec("K12")
async def test_what_was_sent_stays_with_the_job_that_sent_it(deploy: Deploy) -> None:
    world = await deploy(app)
    for _ in range(2):
        await world.enqueue(Note, {"name": "x"})
    first, second = await take(world.kernel)
    for status, stays in (("sent", True), ("unknown", True), ("planned", False)):
        async with world.kernel.store.transaction() as tx:
            plan = Plan(status, status, first.id, first.kind, first.stage, "p", "token", 0, 1, None, None)
            await effects.plan(tx, [plan], T)
        await write(world, "UPDATE holdfast_effects SET status = :status WHERE key = :status", status=status)
        async with world.kernel.store.transaction() as tx:
            await effects.hand_over(tx, first.id, second.id, T)
            assert bool([row for row in await effects.of_job(tx, first.id) if row.key == status]) is stays, status


@pytest.mark.spec("K8")
async def test_a_second_death_begins_its_replay_where_it_died(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Note, {"name": "fails"})
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    stored = dict((await rows(world.kernel.store, "SELECT * FROM holdfast_dead_letters"))[0])
    async with world.kernel.store.transaction() as tx:
        await cases.begin_at(tx, job_id, "earlier")
        named = {name: value for name, value in stored.items() if f":{name}" in cases.sql.open.sqlite}
        (row,) = await tx.rows(cases.sql.open, **named | {"id": letter["id"], "job_id": job_id, "now": T})
        assert row["deaths"] == 2
        shown = await cases.show(tx, letter["id"])
        assert shown is not None and shown.replay_stage is None
