"""Every filter of every list narrows it, on both databases; and what charts show is counted as it happened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from holdfast.core.job import State
from holdfast.core.text_filter import TextFilter
from holdfast.stores.seam import Row, Tx
from holdfast.tables import (
    audit,
    calls,
    cases,
    depth,
    effects,
    events,
    incidents,
    jobs,
    ops,
    outbox,
    replays,
    rollups,
    schedules,
    search,
)
from holdfast.tables.calls import NewCall
from holdfast.tables.effects import Plan
from holdfast.tables.incidents import Hit
from holdfast.tables.replays import Group, NewReplay
from holdfast.tables.rollups import HOUR_MS, MINUTE_MS, Cell
from holdfast.tables.schedules import NewSchedule
from holdfast.testing import World
from tests.kernel.places import Deploy, rows
from tests.tables.test_fences import Note, app
from tests.tables.test_rare_rows import write

pytestmark = pytest.mark.spec("K17")
T = 1_767_225_600_000
Read = Callable[..., Awaitable[Sequence[Row]]]


async def searched(tx: Tx, **given: Any) -> Sequence[Any]:
    """Each text as it is written, and as a pattern: both find the same here. An error is only looked into."""
    names = [name for name in given if name in ("kind", "queue", "stage", "provider", "owner", "key", "error")]
    exact = {name: given.pop(name) for name in names}
    found = []
    for is_pattern in (True,) if "error" in exact else (False, True):
        texts = {name: TextFilter(f"{text}%" if is_pattern else text, is_pattern) for name, text in exact.items()}
        found.append(await search.jobs_matching(tx, texts=texts, **given))
    assert found[0] == found[-1], exact
    return found[0]


async def by_term(tx: Tx, **given: Any) -> Sequence[Row]:
    return await searched(tx, term=("name", "fails"), is_declared=True, **given)


JOBS = {"state": "dead", "kind": "k1", "queue": "q1", "stage": "s1", "provider": "p1", "owner": "o1"}
LETTERS = {"state": "triaged", "kind": "k1", "stage": "s1", "error_class": "C1", "fingerprint": "f1"}
SEARCHED = {**JOBS, "error": "e1", "key": "key1"}
AGES = {"created_from": T + 10, "created_to": T + 10}
LISTS: dict[str, tuple[Read, dict[str, Any]]] = {
    "jobs": (jobs.page, {name: JOBS[name] for name in ("state", "kind", "owner")}),
    "searched": (searched, SEARCHED),
    "by a term": (by_term, SEARCHED),
    "letters": (cases.page, LETTERS),
}


async def fill(world: World) -> list[str]:
    """Two jobs and their dead letters that differ in all that a filter may ask for; the second is the one that fits."""
    for number in range(2):
        await world.enqueue(Note, {"name": "fails"}, owner=f"o{number}", key=f"key{number}")
    await world.run_until_idle()
    ids = sorted(
        row["id"] for row in await rows(world.kernel.store, "SELECT CAST(id AS TEXT) AS id FROM holdfast_jobs")
    )
    for number, id in enumerate(ids):
        given = {"id": id, "kind": f"k{number}", "stage": f"s{number}"}
        await write(
            world,
            "UPDATE holdfast_jobs SET kind = :kind, stage = :stage, queue = :queue, provider = :provider,"
            " owner = :owner, job_key = :key, error = :error, created_at = :at, state = :state"
            " WHERE id = CAST(:id AS /*id*/)",
            queue=f"q{number}",
            provider=f"p{number}",
            owner=f"o{number}",
            key=f"key{number}",
            error=f"e{number}",
            at=T + 20 * number,
            state=("cancelled", "dead")[number],
            **given,
        )
        await write(
            world,
            "UPDATE holdfast_dead_letters SET kind = :kind, stage = :stage, error_class = :error_class,"
            " fingerprint = :fingerprint, state = :state WHERE job_id = CAST(:id AS /*id*/)",
            error_class=f"C{number}",
            fingerprint=f"f{number}",
            state=("open", "triaged")[number],
            **given,
        )
    return ids


async def test_each_filter_of_each_list_of_jobs_and_letters_narrows_it(deploy: Deploy) -> None:
    world = await deploy(app)
    first, second = await fill(world)
    async with world.kernel.store.reading() as tx:
        for name, (read, filters) in LISTS.items():
            column = "job_id" if name == "letters" else "id"
            assert len(await read(tx, before=None, limit=9)) == 2, name
            for field, value in filters.items():
                found = [getattr(row, column) for row in await read(tx, before=None, limit=9, **{field: value})]
                assert found == [second], f"{name} by {field}"
        for read in (searched, by_term):
            for field, wanted in (("created_from", second), ("created_to", first)):
                found = [row.id for row in await read(tx, before=None, limit=9, **{field: AGES[field]})]
                assert found == [wanted], field
        assert {state for state in State if await jobs.page(tx, before=None, limit=9, state=state)} == {
            "dead",
            "cancelled",
        }


async def test_each_filter_of_the_other_lists_narrows_it(deploy: Deploy) -> None:
    world = await deploy(app)
    kernel = world.kernel
    (job, _) = await fill(world)
    async with kernel.store.transaction() as tx:
        for n in range(2):
            await audit.write(tx, ("kernel", "ann")[n], "a", f"s{n}", None, T)
            await outbox.put(tx, [(kernel.new_uuid4(), f"a{n}", "there", "told", "{}", "{}")], T)
            await effects.plan(tx, [Plan(f"k{n}", f"t{n}", job, "k", "s", f"p{n}", "token", 0, 1, None, None)], T)
            await incidents.open(tx, kernel.new_id(), f"t{n}", "s", "ticket", "It is.", T, Hit(), T)
            new = NewReplay(kernel.new_id(), "k", "s", "C", "ann", "data", None, None, False, None)
            await replays.begin(tx, new, Group(f"f{n}"), 9, T)
    await write(world, "UPDATE holdfast_outbox SET status = 'failed' WHERE aggregate_id = 'a1'")
    await write(world, "UPDATE holdfast_effects SET status = 'unknown' WHERE key = 'k1'")
    await write(world, "UPDATE holdfast_incidents SET state = 'closed', ended_at = 1, closed_at = 1 WHERE topic = 't1'")
    lists: list[tuple[Read, str, str, dict[str, Any]]] = [
        (ops.audit_page, "subject", "s1", {"actor": "ann", "subject": "s1", "people": True}),
        (ops.outbox_page, "aggregate_id", "a1", {"status": "failed"}),
        (ops.effects_page, "key", "k1", {"status": "unknown", "provider": "p1"}),
        (incidents.page, "topic", "t1", {"state": "closed"}),
        (replays.page, "fingerprint", "f1", {"fingerprint": "f1"}),
    ]
    async with kernel.store.reading() as tx:
        for read, column, wanted, filters in lists:
            for field, value in filters.items():
                found = [getattr(row, column) for row in await read(tx, before=None, limit=9, **{field: value})]
                assert found == [wanted], f"{read.__name__} by {field}"


async def test_spending_is_by_day_and_counts_what_failed(deploy: Deploy) -> None:
    world = await deploy(app)
    async with world.kernel.store.transaction() as tx:
        for at, outcome in ((T - 1, "ok"), (T, "ok"), (T, "failed"), (T + 86_400_000, "failed")):
            given = (None, None, None, "p", at, 1, outcome, 200, None, 7, None)
            await calls.put(tx, [NewCall(world.kernel.new_id(), *given)])
        days = await calls.spending(tx, T)
    assert [(row.calls, row.failed, row.cost_micros) for row in days] == [(1, 1, 7), (2, 1, 14)]


async def test_doubts_are_sends_whose_fate_is_open(deploy: Deploy) -> None:
    world = await deploy(app)
    (job, _) = await fill(world)
    stored = [("sending", None), ("unknown", None), ("review", None), ("sent", None), ("sent", "id"), ("planned", None)]
    for n, (status, provider_id) in enumerate(stored):
        async with world.kernel.store.transaction() as tx:
            await effects.plan(tx, [Plan(f"k{n}", f"t{n}", job, "k", "s", "p", "token", 0, 1, None, None)], T)
        await write(
            world,
            "UPDATE holdfast_effects SET status = :status, provider_id = :provider_id WHERE key = :key",
            status=status,
            provider_id=provider_id,
            key=f"k{n}",
        )
    async with world.kernel.store.reading() as tx:
        found = await tx.rows(depth.sql.doubtful, floor=0, limit=99)
    assert sum(row["effects"] for row in found) == 4


async def test_minutes_add_up_and_what_is_looked_at_does_not(deploy: Deploy) -> None:
    world = await deploy(app)
    counted = Cell(T, "job", "k1", "q", "succeeded", 1, 2, 10)
    called = Cell(T, "call", "p", "k1", "ok", 1, 2, 10)
    looked = Cell(T, "depth", "", "oldest", "", 0, 3, 30)
    at = {"span": HOUR_MS, "since": T, "until": T + HOUR_MS, "step": HOUR_MS}
    async with world.kernel.store.transaction() as tx:
        for minute in (0, 0, MINUTE_MS, 59 * MINUTE_MS, HOUR_MS):
            await rollups.add(tx, [cell._replace(at=T + minute) for cell in (counted, called)])
            await rollups.put(tx, [looked._replace(at=T + minute)])
        await rollups.fold_hour(tx, T)
        hour = await rollups.between(tx, **at, series=["job", "call", "depth"])
        assert {cell.series: (cell.number, cell.sum) for cell in hour} == {
            "job": (8, 40),
            "call": (8, 40),
            "depth": (3, 30),
        }
        minutes = await rollups.between(tx, **(at | {"span": MINUTE_MS}), series=["job", "depth"])
        assert {cell.series: cell.number for cell in minutes} == {"job": 8, "depth": 3}
        for kind, number in (("k1", 2), ("p", 0)):
            assert len(await rollups.between(tx, **at, series=["job", "call"], kind=kind)) == number, kind


async def test_a_schedule_in_another_time_zone_takes_effect_at_once(deploy: Deploy) -> None:
    world = await deploy(app)
    noon = NewSchedule("noon", "0 12 * * *", "fences.note", "{}", "UTC", 0, "allow", 0)
    changes = {"timezone": "Asia/Tokyo", "cron": "0 13 * * *"}
    async with world.kernel.store.transaction() as tx:
        await schedules.ensure(tx, noon, T, T)
        await schedules.ensure(tx, noon._replace(jitter_ms=5), T + 1, T)
        assert [row.next_at for row in await schedules.read_every(tx)] == [T], "nothing of its time has changed"
        for number, (field, value) in enumerate(changes.items(), 2):
            noon = noon._replace(**{field: value})
            await schedules.ensure(tx, noon, T + number, T)
            assert [row.next_at for row in await schedules.read_every(tx)] == [T + number], field


async def test_failures_of_a_stage_are_those_since_it_was_entered(deploy: Deploy) -> None:
    world = await deploy(app)
    (job, _) = await fill(world)
    for entered in ("advanced", "went_on", "replayed"):
        async with world.kernel.store.transaction() as tx:
            await events.append(tx, [(job, 1, kind, None) for kind in ("retried", entered, "lost", "retried")], T)
            (row,) = await tx.rows(events.sql.failed_in_stage, job_id=job)
            assert row["n"] == 2, entered
