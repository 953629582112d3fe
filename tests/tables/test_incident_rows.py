"""Incidents and replays of groups, row by row: who may move one from where, and whose jobs and letters are in it."""

from __future__ import annotations

import pytest

from holdfast.core.case import CaseState
from holdfast.kernel import operate
from holdfast.stores.seam import Tx
from holdfast.tables import audit, calls, cases, depth, incidents, ops, outbox, providers, replays, results
from holdfast.tables.calls import NewCall
from holdfast.tables.incidents import Hit, Incident
from holdfast.tables.replays import Group, NewReplay
from holdfast.testing import World
from tests.kernel.places import Deploy, rows
from tests.tables.test_fences import Note, app, message
from tests.tables.test_rare_rows import write

pytestmark = pytest.mark.spec("K17")
T = 1_767_225_600_000


async def opened(world: World, tx: Tx, subject: str = "s", severity: str = "page") -> Incident:
    id = world.kernel.new_id()
    assert await incidents.open(tx, id, "topic", subject, severity, "It is.", T, Hit(), T)
    row = await incidents.show(tx, id)
    assert row is not None
    return Incident(*row)


async def buried(world: World, number: int) -> list[str]:
    """The dead letters of so many jobs, the oldest first."""
    for _ in range(number):
        await world.enqueue(Note, {"name": "fails"}, owner="ann")
        world.clock.advance(1)
    await world.run_until_idle()
    found = await rows(world.kernel.store, "SELECT CAST(id AS TEXT) AS id FROM holdfast_dead_letters")
    return sorted(row["id"] for row in found)


async def test_of_two_who_follow_an_incident_one_has_seen_the_other(deploy: Deploy) -> None:
    world = await deploy(app)
    async with world.kernel.store.transaction() as tx:
        known = await opened(world, tx)
        assert await incidents.follow(tx, known, "ticket", "It is less.", Hit(3, 2))
        assert not await incidents.follow(tx, known, "page", "It is.", Hit()), "it was read before"
        row = await incidents.show(tx, known.id)
        assert row is not None and (row.severity, row.jobs_max, row.owners_max) == ("ticket", 3, 2)


async def test_an_incident_is_reopened_unless_another_of_its_subject_is_open(deploy: Deploy) -> None:
    world = await deploy(app)
    async with world.kernel.store.transaction() as tx:
        first = await opened(world, tx)
        assert await incidents.over(tx, first.id, T + 10) == "over"
        assert [each.id for each in await incidents.live(tx, T + 10)] == [first.id]
        assert await incidents.live(tx, T + 11) == [], "it ended before"
        second = await opened(world, tx)
        assert not await incidents.reopen(tx, first.id, "page", "It is again.")
        assert await incidents.over(tx, second.id, T + 20)
        assert await incidents.reopen(tx, first.id, "page", "It is again.")
        assert not await incidents.reopen(tx, first.id, "page", "It is again."), "it is open"


async def test_who_took_an_incident_first_has_it_and_its_assignee_stays(deploy: Deploy) -> None:
    world = await deploy(app)
    async with world.kernel.store.transaction() as tx:
        known = await opened(world, tx)
        assert await incidents.assign(tx, known.id, "ben")
        assert await incidents.acknowledge(tx, known.id, "ann", T)
        assert not await incidents.acknowledge(tx, known.id, "eve", T)
        row = await incidents.show(tx, known.id)
        assert row is not None and (row.acknowledged_by, row.assignee) == ("ann", "ben")
        assert await incidents.over(tx, known.id, T) == "over"
        quiet = await opened(world, tx, "quiet", "ticket")
        assert await incidents.over(tx, quiet.id, T) == "closed", "it woke nobody"


async def test_what_an_incident_tells_is_of_its_own_time(deploy: Deploy) -> None:
    world = await deploy(app)
    kernel = world.kernel
    async with kernel.store.transaction() as tx:
        for at in (T - 1, T, T + 9, T + 10):
            await audit.write(tx, "ann", f"at {at - T}", "breaker:p", None, at)
        acts = await incidents.acts_between(tx, "breaker:p", T, T + 10)
        assert [row.action for row in acts] == ["at 0", "at 9"]
        for outcome, status in (("ok", 200), ("failed", 503)):
            given = (None, None, None, "p", T, 1, outcome, status, None, 0, None)
            await calls.put(tx, [NewCall(kernel.new_id(), *given)])
        assert await incidents.last_answer(tx, "p", T) is not None
        assert await incidents.last_answer(tx, "p", T + 1) is None, "it failed before the outage"
        assert await incidents.last_answer(tx, "q", T) is None
        for gate, at in (("open", T - 1), ("closed", T), ("open", T + 10)):
            await tx.rows(providers.sql.log, name="p", gate=gate, now=at, reason="")
        assert [row.at for row in await ops.gate_changes(tx, T, T + 10, 9)] == [T]
        assert [row.at for row in await ops.gates_since(tx, "p", T)] == [T - 1, T, T + 10]


async def test_a_letter_joins_an_incident_anew_when_its_job_dies_again(deploy: Deploy) -> None:
    world = await deploy(app)
    await buried(world, 1)
    async with world.kernel.store.transaction() as tx:
        known = await opened(world, tx)
        await incidents.join_dead(tx, known.id, 0, category="validation")
        (first,) = await incidents.jobs_hit(tx, known.id)
    await write(world, "UPDATE holdfast_dead_letters SET last_failure_at = last_failure_at + 5000")
    async with world.kernel.store.transaction() as tx:
        await incidents.join_dead(tx, known.id, 0, category="validation")
        (again,) = await incidents.jobs_hit(tx, known.id)
        assert again.at == first.at + 5_000
    await write(world, "UPDATE holdfast_dead_letters SET failure_reason = 'deadline'")
    async with world.kernel.store.transaction() as tx:
        late = await opened(world, tx, "late")
        await incidents.join_dead(tx, late.id, 0, category="validation")
        assert await incidents.jobs_hit(tx, late.id) == [], "it died of waiting, not of its category"


async def test_what_jobs_die_of_is_told_of_letters_nobody_has_looked_at(deploy: Deploy) -> None:
    world = await deploy(app)
    first, *_ = await buried(world, 4)

    async def dying() -> int:
        async with world.kernel.store.reading() as tx:
            found = await tx.rows(depth.sql.dying, since=0, limit=99)
        return sum(row["letters"] for row in found)

    assert await dying() == 4
    await operate.triage(world.kernel, first, cause="data", actor="ann")
    assert await dying() == 3
    for reason in ("deadline", "no_time"):
        await write(
            world,
            "UPDATE holdfast_dead_letters SET failure_reason = :reason WHERE id = (SELECT d.id"
            " FROM holdfast_dead_letters AS d WHERE d.state = 'open'"
            " AND d.failure_reason NOT IN ('deadline', 'no_time') ORDER BY d.id"
            " LIMIT 1)",
            reason=reason,
        )
    assert await dying() == 1, "those that came too late are told by what held them up"


async def test_who_waits_is_counted_in_each_priority_from_its_own_floor(deploy: Deploy) -> None:
    world = await deploy(app)
    for priority in range(4):
        await world.enqueue(Note, {"name": "x"}, priority=priority, owner="ann")
    await write(world, "UPDATE holdfast_jobs SET created_at = 100 + 10 * priority")
    async with world.kernel.store.reading() as tx:
        for priority in range(4):
            floors = [0, 0, 0, 0]
            floors[priority] = 101 + 10 * priority
            assert (await incidents.due_in(tx, "fences", floors)).jobs == 3, priority
            floors[priority] -= 1
            assert (await incidents.due_in(tx, "fences", floors)).jobs == 4, priority


async def test_deadlines_at_risk_are_those_with_a_quarter_of_their_time_left(deploy: Deploy) -> None:
    world = await deploy(app)
    for _ in range(3):
        await world.enqueue(Note, {"name": "x"})
    ids = await rows(world.kernel.store, "SELECT CAST(id AS TEXT) AS id FROM holdfast_jobs")
    for row, left in zip(ids, (24_999, 25_000, 49_000), strict=True):
        await write(
            world,
            "UPDATE holdfast_jobs SET created_at = :created, deadline_at = :late WHERE id = CAST(:id AS /*id*/)",
            id=row["id"],
            created=T + left - 100_000,
            late=T + left,
        )
    async with world.kernel.store.reading() as tx:
        assert await ops.at_risk(tx, T) == (1, T + 24_999)
        swept = T + 24_999 + ops.UNSWEPT_MS
        assert await ops.at_risk(tx, swept) == (3, T + 24_999), "what has missed it and was not swept yet counts"
        assert (await ops.at_risk(tx, swept + 1))[0] == 2


async def test_messages_set_aside_are_those_that_failed(deploy: Deploy) -> None:
    world = await deploy(app)
    async with world.kernel.store.transaction() as tx:
        row = await message(world, tx, "ours")
        assert await ops.messages_aside(tx) == 0, "it is pending"
        assert await outbox.refused(tx, "ours", row.seq, "no", T, 1) == "failed"
        assert await ops.messages_aside(tx) == 1
        assert await outbox.requeue(tx, row.id, 0)
        (again,) = await outbox.claim(tx, "ours", T, T + 1, 1)
        assert not await outbox.claim(tx, "theirs", T, T + 1, 1), "it is leased"
        assert await outbox.published(tx, "ours", [again.seq], T) == 1
        assert not await outbox.requeue(tx, row.id, T), "what is out is not sent again"


async def test_a_replay_takes_its_own_letters_when_it_is_due_and_ends_once(deploy: Deploy) -> None:
    world = await deploy(app)
    first, second, third = await buried(world, 3)
    await write(world, "UPDATE holdfast_dead_letters SET state = 'resolved' WHERE id = CAST(:id AS /*id*/)", id=third)
    (row,) = await rows(world.kernel.store, "SELECT DISTINCT fingerprint FROM holdfast_dead_letters")
    group = Group(row["fingerprint"])
    new = NewReplay(world.kernel.new_id(), "k", "run", "C", "ann", "transient", None, None, False, 60.0)
    async with world.kernel.store.transaction() as tx:
        assert await replays.begin(tx, new, group, 9, T) == 2, "what is resolved is not replayed"
        assert await replays.due(tx, T - 1) is None
        assert [each.id for each in await replays.upcoming(tx, new.id, 9)] == [first, second]
        await replays.mark(tx, new.id, first, None, T)
        assert [each.id for each in await replays.upcoming(tx, new.id, 9)] == [second]
        await replays.advance(tx, new.id, T + 1_000, T)
        assert await replays.due(tx, T + 999) is None
        assert await replays.due(tx, T + 1_000) is not None
        assert await replays.pause(tx, new.id)
        assert await replays.due(tx, T + 1_000) is None
        assert await replays.resume(tx, new.id, T + 5_000)
        assert await replays.due(tx, T + 4_999) is None, "what the pause missed is not sent at once"
        assert await replays.pause(tx, new.id)
        assert await replays.stop(tx, new.id, T + 6_000), "a paused one can be stopped"
        await replays.mark(tx, new.id, second, None, T)
        await replays.advance(tx, new.id, T, T + 7_000)
        shown = await replays.show(tx, new.id)
        assert shown is not None and (shown.state, shown.ended_at) == ("stopped", T + 6_000)


async def test_results_that_came_late_are_nothing_a_replay_would_keep(deploy: Deploy) -> None:
    world = await deploy(app)
    await buried(world, 1)
    (row,) = await rows(
        world.kernel.store, "SELECT fingerprint, CAST(job_id AS TEXT) AS job_id FROM holdfast_dead_letters"
    )
    async with world.kernel.store.transaction() as tx:
        await results.put(tx, [(row["job_id"], "run", 1, 1, '"late"'), (row["job_id"], "pack", 1, 0, '"kept"')], T)
        assert (await replays.facts_of(tx, Group(row["fingerprint"]))).results == {"pack": 1}


async def test_groups_of_letters_say_when_and_the_largest_comes_first(deploy: Deploy) -> None:
    world = await deploy(app)
    letters = await buried(world, 3)
    await write(
        world, "UPDATE holdfast_dead_letters SET fingerprint = '!' WHERE id = CAST(:id AS /*id*/)", id=letters[0]
    )
    await write(
        world, "UPDATE holdfast_dead_letters SET first_failure_at = :at, last_failure_at = :last", at=T, last=T + 50
    )
    async with world.kernel.store.transaction() as tx:
        found = await cases.groups(tx)
        assert [row.letters for row in found] == [2, 1]
        assert {(row.first_at, row.last_at) for row in found} == {(T, T + 50)}


async def test_a_correction_keeps_the_cause_that_a_person_named(deploy: Deploy) -> None:
    world = await deploy(app)
    named, unnamed = await buried(world, 2)
    await operate.triage(world.kernel, named, cause="code", actor="ann")
    async with world.kernel.store.transaction() as tx:
        for case_id, state in ((named, CaseState.TRIAGED), (unnamed, CaseState.OPEN)):
            given = {"state": "remediated", "expected": state, "evidence": "e", "replay_stage": "run", "now": T}
            await tx.rows(cases.sql.correct, id=case_id, **given)
        causes = [getattr(await cases.show(tx, each), "cause", None) for each in (named, unnamed)]
    assert causes == ["code", "data"]
