"""Statements take as many as they were told to, of what is in the right state, and forget what no longer holds."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.effect import EffectStatus
from holdfast.core.job import State
from holdfast.tables import callbacks, depth, effects, events, incidents, joins, pauses, schedules, search
from holdfast.tables.effects import Begin, Mark, Refusal
from holdfast.tables.pauses import Pause
from holdfast.tables.schedules import NewSchedule
from holdfast.tables.search import JobOrder
from tests.kernel.places import Deploy, rows, take
from tests.tables.test_fences import PUT_INTO_STATE, Note, app, running
from tests.tables.test_rare_effects import KEY, begun
from tests.tables.test_rare_effects import app as ledger
from tests.tables.test_rare_effects import running as sending
from tests.tables.test_rare_rows import write

pytestmark = pytest.mark.spec("K17")
T = 1_767_225_600_000


async def test_a_pause_is_as_old_as_what_was_last_said_of_it(deploy: Deploy) -> None:
    world = await deploy(app)
    said = [Pause("queue", "q", True, T, "ann", "wrong"), Pause("queue", "q", False, T + 5, "bob", "right")]
    async with world.kernel.store.transaction() as tx:
        for each in said:
            await pauses.put(tx, each)
            assert await pauses.read_every(tx) == [each]


@pytest.mark.spec("K12")
async def test_what_went_wrong_before_is_not_said_of_the_next_send(deploy: Deploy) -> None:
    world = await deploy(ledger)
    (job,) = await sending(world)
    refusal = Refusal(KEY, job.id, job.attempt, 1, EffectStatus.UNKNOWN, "X", "silence")

    async def errors() -> tuple[str | None, str | None]:
        row = await effects.lock(tx, KEY)
        assert row is not None
        return row.error_class, row.error

    async with world.kernel.store.transaction() as tx:
        await begun(world, tx, job)
        assert await effects.refuse(tx, [refusal], T) == {KEY} and await errors() == ("X", "silence")
        assert await effects.begin(tx, [Begin(KEY, job.id, job.attempt, 0, sends=1)], T) == {KEY: 2}
        assert await errors() == (None, None)
        assert await effects.refuse(tx, [refusal._replace(sends=2)], T) == {KEY}
        assert set(await effects.mark(tx, [Mark(KEY, job.id, job.attempt, "id-1")], T)) == {KEY}
        assert await errors() == (None, None)


@pytest.mark.spec("K12")
async def test_an_effect_is_held_while_the_attempt_that_sends_it_has_its_job(deploy: Deploy) -> None:
    world = await deploy(ledger)
    (job,) = await sending(world)
    async with world.kernel.store.transaction() as tx:
        await begun(world, tx, job)
    held = set()
    for state in State:
        await write(world, PUT_INTO_STATE, state=state, at=T)
        async with world.kernel.store.transaction() as tx:
            row = await effects.lock(tx, KEY)
            held |= {state} if row is not None and row.is_held else set()
    assert held == {State.PROCESSING}


@pytest.mark.spec("K12")
async def test_only_what_is_marked_as_sent_is_looked_up_to_verify_it(deploy: Deploy) -> None:
    world = await deploy(ledger)
    (job,) = await sending(world)
    found = set()
    async with world.kernel.store.transaction() as tx:
        await begun(world, tx, job)
    for status in EffectStatus:
        await write(world, "UPDATE holdfast_effects SET status = :status, provider_id = 'id-1'", status=status)
        async with world.kernel.store.reading() as tx:
            found |= {status} if await effects.page(tx, "ledger.post", "", 9) else set()
    assert found == {EffectStatus.SENT}


async def test_a_search_by_a_state_finds_jobs_in_it_alone(deploy: Deploy) -> None:
    world = await deploy(app)
    await running(world)
    for state in State:
        await write(world, PUT_INTO_STATE, state=state, at=T)
        async with world.kernel.store.reading() as tx:
            found = {
                each for each in State if await search.jobs_matching(tx, before=None, limit=9, texts={}, state=each)
            }
        assert found == {state}


async def test_a_search_by_failures_goes_down_page_by_page(deploy: Deploy) -> None:
    world = await deploy(app)
    ids = []
    for failures in (9, 2, 5, 5, 1):
        ids.append(await world.enqueue(Note, {"name": "x"}))
        world.clock.advance(1)
        text = "UPDATE holdfast_jobs SET failures = :failures WHERE id = CAST(:id AS /*id*/)"
        await write(world, text, id=ids[-1], failures=failures)
    seen: list[str] = []
    before = None
    async with world.kernel.store.reading() as tx:
        for _ in ids:
            (line,) = await search.jobs_matching(tx, before=before, limit=1, order=JobOrder.FAILURES, texts={})
            seen.append(line.id)
            before = (line.failures, line.id)
        assert await search.jobs_matching(tx, before=before, limit=1, order=JobOrder.FAILURES, texts={}) == []
    assert seen == [ids[0], ids[3], ids[2], ids[1], ids[4]]


async def test_who_waits_in_a_queue_is_counted_in_each_priority_but_for_what_is_held(deploy: Deploy) -> None:
    world = await deploy(app)
    for priority in range(4):
        for parked in (0, 1):
            job_id = await world.enqueue(Note, {"name": "x"}, owner=f"o{priority}")
            text = "UPDATE holdfast_jobs SET priority = :priority, parked = :parked, is_due = 1, queue = :queue"
            text += " WHERE id = CAST(:id AS /*id*/)"
            await write(world, text, id=job_id, priority=priority, parked=parked, queue=f"q{priority}")
    async with world.kernel.store.reading() as tx:
        found = [await incidents.due_in(tx, f"q{priority}", (0, 0, 0, 0)) for priority in range(4)]
    assert [(each.jobs, each.owners) for each in found] == [(1, 1)] * 4


@pytest.mark.spec("K24")
async def test_a_join_is_sealed_while_it_is_spawning_and_left_while_it_is_open(deploy: Deploy) -> None:
    world = await deploy(app)
    job = await running(world)
    sealed, left = set(), set()
    async with world.kernel.store.transaction() as tx:
        await joins.begin(tx, "j", job, "all", "gather", "spawning", T)
    for state in ("spawning", "sealed", "loose", "joined", "left", "gone"):
        await write(world, "UPDATE holdfast_joins SET state = :state", state=state)
        async with world.kernel.store.transaction() as tx:
            sealed |= {state} if await joins.seal(tx, "j", 0, T) else set()
        await write(world, "UPDATE holdfast_joins SET state = :state", state=state)
        async with world.kernel.store.transaction() as tx:
            left |= {state} if await joins.leave(tx, [job.id], T) else set()
    assert (sealed, left) == ({"spawning"}, {"spawning", "sealed", "loose"})


@pytest.mark.spec("K24")
async def test_children_that_end_at_once_are_all_counted_and_the_last_one_is_seen(deploy: Deploy) -> None:
    """One of them by the statement of before step 35, which knows no time of the last end."""
    world = await deploy(app)
    job = await running(world)
    before = "UPDATE holdfast_joins SET unended = unended - 1, updated_at = :now WHERE id = 'j'"
    async with world.kernel.store.transaction() as tx:
        await joins.begin(tx, "j", job, "all", "gather", "spawning", T)
        assert await joins.grow(tx, "j", 0, 9, T) and await joins.seal(tx, "j", 9, T)

    async def end(number: int) -> bool:
        async with world.kernel.store.transaction() as tx:
            return await joins.count_down(tx, {"j": 2}, T + number)

    assert sorted(await asyncio.gather(*map(end, range(4)))) == [False] * 4
    async with world.kernel.store.reading() as tx:
        assert await joins.ready(tx, 9, T) == [] and (await joins.of_stage(tx, job))["all"].unended == 1
    await write(world, before, now=T + 9)
    async with world.kernel.store.reading() as tx:
        assert await joins.ready(tx, 9, T + 9) == [("j", T + 9)]


@pytest.mark.spec("K24")
async def test_the_line_of_a_childs_parents_is_counted_to_its_beginning(deploy: Deploy) -> None:
    world = await deploy(app)
    for _ in range(4):
        await world.enqueue(Note, {"name": "x"})
    line = sorted(await take(world.kernel), key=lambda job: job.id)
    async with world.kernel.store.transaction() as tx:
        for number, job in enumerate(line):
            await joins.begin(tx, f"j{number}", job, "all", "gather", "spawning", T)
    for number, job in enumerate(line[1:]):
        text = "UPDATE holdfast_jobs SET join_id = :join_id WHERE id = CAST(:id AS /*id*/)"
        await write(world, text, id=job.id, join_id=f"j{number}")
    async with world.kernel.store.reading() as tx:
        assert [await joins.generations(tx, f"j{number}", 9) for number in range(4)] == [1, 2, 3, 4]
        assert await joins.generations(tx, "j3", 2) == 2, "no further than was asked for"


@pytest.mark.spec("K18")
async def test_schedules_are_taken_up_to_the_limit_and_their_runs_are_their_own(deploy: Deploy) -> None:
    world = await deploy(app)
    async with world.kernel.store.transaction() as tx:
        for n in range(3):
            new = NewSchedule(f"s{n}", "* * * * *", "fences.note", "{}", "UTC", 0, "skip", 1)
            await schedules.ensure(tx, new, T + n, T)
        assert [each.name for each in await schedules.upcoming(tx, ["fences.note"], [], 2)] == ["s0", "s1"]
    ids = []
    for key in ("s0:1", "s1:1", "s0:2", "s0_:1"):
        ids.append(await world.enqueue(Note, {"name": "x"}, key=key))
        world.clock.advance(1)
    async with world.kernel.store.reading() as tx:
        assert [run.id for run in await schedules.runs(tx, "fences.note", "s0:", 9)] == [ids[2], ids[0]]


async def test_no_more_rows_are_read_or_forgotten_than_were_asked_for(deploy: Deploy) -> None:
    world = await deploy(app)
    job = await running(world)
    async with world.kernel.store.transaction() as tx:
        for n in range(3):
            assert await callbacks.put(tx, f"k{n}", "{}", T + n)
        assert await callbacks.prune(tx, 0, T + 9, 2) == [T, T + 1]
    assert [row["key"] for row in await rows(world.kernel.store, "SELECT key FROM holdfast_callbacks")] == ["k2"]
    async with world.kernel.store.reading() as tx:
        assert [step.type for step in await events.of_job(tx, job.id)] == ["created", "claimed"]
        assert [step.type for step in await events.of_job(tx, job.id, limit=1)] == ["created"]


@pytest.mark.spec("K12")
async def test_no_more_doubts_are_counted_than_were_asked_for(deploy: Deploy) -> None:
    world = await deploy(ledger)
    (job,) = await sending(world)
    async with world.kernel.store.transaction() as tx:
        await begun(world, tx, job)
        for limit, counted in ((1, 1), (0, 0)):
            found = await tx.rows(depth.sql.doubtful, floor=0, limit=limit)
            assert sum(row["effects"] for row in found) == counted
