"""What a statement expects before it writes, and what it leaves alone: a first answer, the row of another, a queue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import pytest

from holdfast import App, Context, Job, stage
from holdfast.core.case import CaseState
from holdfast.core.job import Claimed, State
from holdfast.core.turns import MINUTE_MS, STARTING_MS
from holdfast.errors import CallError
from holdfast.kernel import operate
from holdfast.stores.seam import Tx
from holdfast.tables import (
    answers,
    audit,
    callbacks,
    cases,
    effects,
    incidents,
    jobs,
    keepers,
    leases,
    ops,
    outbox,
    results,
    schedules,
    search,
    turns,
    workers,
)
from holdfast.tables.answers import KeptAnswer, NewAnswer, RunId
from holdfast.tables.effects import Plan
from holdfast.tables.incidents import Hit
from holdfast.tables.schedules import NewSchedule
from holdfast.testing import World
from tests.kernel.places import Deploy, rows, take
from tests.tables.test_rare_rows import write

app = App("fences")
PUT_INTO_STATE = """UPDATE holdfast_jobs SET state = CAST(:state AS TEXT), run_at = :at,
  lease_until = CASE CAST(:state AS TEXT) WHEN 'processing' THEN CAST(:at AS BIGINT) END,
  wait_key = CASE CAST(:state AS TEXT) WHEN 'waiting' THEN 'k' END,
  finished_at = CASE WHEN CAST(:state AS TEXT) IN ('succeeded', 'dead', 'cancelled') THEN CAST(:at AS BIGINT) END"""


@app.job(search=("name",))
class Note(Job[dict[str, str]]):
    @stage()
    async def run(self, ctx: Context, given: dict[str, str]) -> None:
        if given["name"] == "fails":
            raise CallError.from_status(400, "no", {}, now_ms=0)


async def running(world: World) -> Claimed:
    await world.enqueue(Note, {"name": "x"})
    (job,) = await take(world.kernel)
    return job


async def message(world: World, tx: Tx, token: str) -> outbox.ClaimedMessage:
    """A message that was put and claimed under `token`."""
    now = world.kernel.now()
    await outbox.put(tx, [(world.kernel.new_uuid4(), "a", "there", "told", "{}", "{}")], now)
    (row,) = await outbox.claim(tx, token, now, now + 1_000, 1)
    return row


@pytest.mark.spec("K16")
async def test_a_message_that_is_requeued_has_all_its_tries_again(deploy: Deploy) -> None:
    world = await deploy(app)
    async with world.kernel.store.transaction() as tx:
        row = await message(world, tx, "ours")
        assert await outbox.refused(tx, "ours", row.seq, "no", world.kernel.now(), 1) == "failed"
        assert await outbox.requeue(tx, row.id, world.kernel.now())
    (stored,) = await rows(world.kernel.store, "SELECT status, retry_count FROM holdfast_outbox")
    assert stored == {"status": "pending", "retry_count": 0}


@pytest.mark.spec("K16")
async def test_whoever_lost_its_claim_of_a_message_says_nothing_of_it(deploy: Deploy) -> None:
    world = await deploy(app)
    async with world.kernel.store.transaction() as tx:
        row = await message(world, tx, "theirs")
        assert await outbox.published(tx, "ours", [row.seq], world.kernel.now()) == 0
        assert await outbox.refused(tx, "ours", row.seq, "no", world.kernel.now(), 1) is None
        await outbox.release(tx, "ours", [row.seq], "down")
    (stored,) = await rows(world.kernel.store, "SELECT status, lease_token, error_message FROM holdfast_outbox")
    assert stored == {"status": "pending", "lease_token": "theirs", "error_message": None}


@pytest.mark.spec("K8")
async def test_a_case_is_moved_only_from_where_it_was_read(deploy: Deploy) -> None:
    world = await deploy(app)
    await world.enqueue(Note, {"name": "fails"})
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    await operate.triage(world.kernel, letter["id"], cause="code", actor="ann")
    now, state = world.kernel.now(), CaseState(letter["state"])
    async with world.kernel.store.transaction() as tx:
        assert not await cases.step(tx, letter["id"], state, CaseState.TRIAGED, now, cause="data")
        assert not await cases.correct(tx, letter["id"], state, state, now, evidence="e", replay_stage="run")
        shown = await cases.show(tx, letter["id"])
    assert shown is not None
    assert (shown.state, shown.cause, shown.evidence) == ("triaged", "code", None)


@pytest.mark.spec("K13")
async def test_the_first_answer_of_a_run_stands_and_tries_only_grow(deploy: Deploy) -> None:
    world = await deploy(app)
    job = await running(world)
    run = RunId(job.id, job.stage, job.epoch, "ask")
    async with world.kernel.store.transaction() as tx:
        for tries, value in [(2, None), (1, '"first"'), (0, '"second"')]:
            await answers.put(tx, [NewAnswer(run, tries, value)], world.kernel.now())
        assert await answers.of_stage(tx, job.id, job.stage, job.epoch) == {"ask": KeptAnswer(2, '"first"')}


@pytest.mark.spec("K13")
async def test_answers_are_those_of_the_jobs_present_epoch(deploy: Deploy) -> None:
    world = await deploy(app)
    job = await running(world)
    earlier = RunId(job.id, job.stage, job.epoch, "ask")
    async with world.kernel.store.transaction() as tx:
        await answers.put(tx, [NewAnswer(earlier, 0, '"earlier"')], world.kernel.now())
    await write(world, "UPDATE holdfast_jobs SET epoch = epoch + 1")
    async with world.kernel.store.transaction() as tx:
        late = earlier._replace(run="ask again")
        await answers.put(tx, [NewAnswer(late, 0, '"late"')], world.kernel.now())
        assert await answers.of_stage(tx, job.id, job.stage, job.epoch + 1) == {}
        assert await answers.of_job(tx, job.id) == []
        assert set(await answers.of_stage(tx, job.id, job.stage, job.epoch)) == {"ask"}, "and none comes after it"


@pytest.mark.spec("K17")
async def test_the_first_answer_of_a_callback_stands(deploy: Deploy) -> None:
    world = await deploy(app)
    async with world.kernel.store.transaction() as tx:
        assert await callbacks.put(tx, "key", "first", world.kernel.now())
        assert not await callbacks.put(tx, "key", "second", world.kernel.now())
        assert await callbacks.take(tx, "key") == "first"


@pytest.mark.spec("K3", "K14")
async def test_a_sweep_takes_jobs_of_its_own_queues_alone(deploy: Deploy) -> None:
    world = await deploy(app)
    await running(world)
    now = world.kernel.now()
    await write(world, "UPDATE holdfast_jobs SET lease_until = :past, deadline_at = :past", past=now - 1)
    async with world.kernel.store.transaction() as tx:
        for sweep in (leases.expired, leases.overdue):
            assert await sweep(tx, ["another"], now, 10) == [] and len(await sweep(tx, [app.name], now, 10)) == 1
    await write(world, PUT_INTO_STATE, state="waiting", at=now - 1)
    async with world.kernel.store.transaction() as tx:
        assert await leases.unanswered(tx, ["another"], now, 10) == []
        assert len(await leases.unanswered(tx, [app.name], now, 10)) == 1


@pytest.mark.spec("K23")
async def test_company_is_whoever_has_the_same_queues_and_code_and_reported_lately(deploy: Deploy) -> None:
    world = await deploy(app)
    now = world.kernel.now()
    reports: dict[str, dict[str, Any]] = {
        "same": {},
        "other code": {"declared": "{}"},
        "other queues": {"queues": "b"},
        "deaf": {"heeds": False},
        "silent": {"now": now - 10},
    }
    async with world.kernel.store.transaction() as tx:
        for name, given in reports.items():
            report = {"queues": "a", "in_flight": 0, "now": now, "declared": '{"x":1}', "heeds": True, "release": "1"}
            await workers.seen(tx, name, **report | given)
        assert await workers.company(tx, "a", '{"x":1}', now) == ["same"]


@pytest.mark.spec("K18")
async def test_a_schedule_is_advanced_once_from_each_tick(deploy: Deploy) -> None:
    world = await deploy(app)
    now = world.kernel.now()
    async with world.kernel.store.transaction() as tx:
        await schedules.ensure(tx, NewSchedule("s", "* * * * *", "fences.note", "{}", "UTC", 0, "skip", 1), now, now)
        assert await schedules.advance(tx, "s", now, now + 60_000, now)
        assert not await schedules.advance(tx, "s", now, now + 120_000, now)
        (row,) = await schedules.read_every(tx)
    assert (row.next_at, row.last_at) == (now + 60_000, now)


@pytest.mark.spec("K18")
async def test_a_job_overlaps_until_it_has_ended(deploy: Deploy) -> None:
    world = await deploy(app)
    await world.enqueue(Note, {"name": "x"}, key="tick")
    live = set()
    for state in State:
        await write(world, PUT_INTO_STATE, state=state, at=world.kernel.now())
        async with world.kernel.store.transaction() as tx:
            live |= {state} if await schedules.is_live(tx, "fences.note", "tick") else set()
    assert live == {State.QUEUED, State.PROCESSING, State.WAITING}


@pytest.mark.spec("K25")
async def test_a_start_counts_for_its_whole_period_and_not_at_its_end(deploy: Deploy) -> None:
    world = await deploy(app)
    await world.enqueue(Note, {"name": "x"})
    await write(world, "UPDATE holdfast_jobs SET fair_key = 'ann', turn_at = :at, last_attempt_at = :at", at=1_000)
    async with world.kernel.store.transaction() as tx:
        minute = [MINUTE_MS + STARTING_MS + since for since in (999, 1_000, 1_001)]
        lately = [(await turns.begun(tx, ["ann"], {}, now))["ann"].lately for now in minute]
    assert lately == [1, 0, 0]


@pytest.mark.spec("K25")
async def test_what_a_process_has_counted_does_not_grow_for_ever(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "COUNTS_MAX", 3)
    world = await deploy(app)
    counts: turns.Counts = {}
    async with world.kernel.store.transaction() as tx:
        for keys, kept in ((["a", "b"], {"a", "b"}), (["c"], {"a", "b", "c"}), (["d"], {"d"})):
            await turns.begun(tx, keys, counts, world.kernel.now())
            assert set(counts) == kept


@pytest.mark.spec("K21")
async def test_a_keepers_lease_is_let_go_by_its_owner_alone(deploy: Deploy) -> None:
    world = await deploy(app)
    async with world.kernel.store.transaction() as tx:
        assert await keepers.take(tx, "sweeps", "ours", 9_000, 1_000)
        await keepers.release(tx, "sweeps", "theirs")
        assert not await keepers.take(tx, "sweeps", "theirs", 9_000, 1_000)
        await keepers.release(tx, "sweeps", "ours")
        assert await keepers.take(tx, "sweeps", "theirs", 9_000, 1_000)


@pytest.mark.spec("K13")
async def test_an_answer_is_kept_while_its_job_has_not_ended(deploy: Deploy) -> None:
    world = await deploy(app)
    job = await running(world)
    for state in State:
        await write(world, PUT_INTO_STATE, state=state, at=world.kernel.now())
        async with world.kernel.store.transaction() as tx:
            run = RunId(job.id, job.stage, job.epoch, state)
            await answers.put(tx, [NewAnswer(run, 0, '"paid"')], world.kernel.now())
    async with world.kernel.store.reading() as tx:
        kept = await answers.of_stage(tx, job.id, job.stage, job.epoch)
    assert set(kept) == {State.QUEUED, State.PROCESSING, State.WAITING}


@pytest.mark.spec("K6")
async def test_late_results_stay_when_those_of_a_run_are_cleared(deploy: Deploy) -> None:
    world = await deploy(app)
    job = await running(world)
    values = [(job.id, name, 1, is_late, f'"{name}"') for name in ("run", "other") for is_late in (0, 1)]

    async def kept() -> set[tuple[str, int]]:
        found = await rows(world.kernel.store, "SELECT stage, is_late FROM holdfast_results")
        return {(row["stage"], row["is_late"]) for row in found}

    async with world.kernel.store.transaction() as tx:
        await results.put(tx, values, world.kernel.now())
        await results.clear_stages(tx, job.id, ["run"])
    assert await kept() == {("other", 0), ("other", 1), ("run", 1)}
    async with world.kernel.store.transaction() as tx:
        await results.clear(tx, job.id)
    assert await kept() == {("other", 1), ("run", 1)}


Page = Callable[[Tx, Any, int], Awaitable[Sequence[NamedTuple]]]
PAGES: dict[str, tuple[str, Page]] = {
    "jobs": ("id", lambda tx, before, limit: jobs.page(tx, before=before, limit=limit)),
    "found": ("id", lambda tx, before, limit: ops.jobs_found(tx, wanted="fails", before=before, limit=limit)),
    "matching": ("id", lambda tx, before, limit: search.jobs_matching(tx, before=before, limit=limit, texts={})),
    "term": (
        "id",
        lambda tx, before, limit: search.jobs_matching(
            tx, before=before, limit=limit, texts={}, term=("name", "fails"), is_declared=True
        ),
    ),
    "outbox": ("seq", lambda tx, before, limit: ops.outbox_page(tx, before=before, limit=limit)),
    "effects": ("key", lambda tx, before, limit: ops.effects_page(tx, before=before, limit=limit)),
    "audit": ("seq", lambda tx, before, limit: ops.audit_page(tx, before=before, limit=limit, actor="ann")),
    "cases": ("id", lambda tx, before, limit: cases.page(tx, before=before, limit=limit)),
    "incidents": ("id", lambda tx, before, limit: incidents.page(tx, before=before, limit=limit)),
}


@pytest.mark.spec("K19")
async def test_no_row_is_on_two_pages_and_none_is_left_out(deploy: Deploy) -> None:
    world = await deploy(app)
    kernel, now = world.kernel, world.kernel.now()
    for number in range(3):
        await world.enqueue(Note, {"name": "fails"}, owner="ann", key=f"k{number}")
        world.clock.advance(1)
    await world.run_until_idle()
    (job, *_) = await rows(kernel.store, "SELECT CAST(id AS TEXT) AS id FROM holdfast_jobs")
    plan = Plan("k", "t", job["id"], "fences.note", "run", "p", "token", 0, 1, None, None)
    async with kernel.store.transaction() as tx:
        for number in range(3):
            await outbox.put(tx, [(kernel.new_uuid4(), "a", "there", "told", "{}", "{}")], now)
            await audit.write(tx, "ann", "looked", "job:1", None, now)
            await effects.plan(tx, [plan._replace(key=f"k{number}", token=f"t{number}")], now)
            assert await incidents.open(tx, kernel.new_id(), f"t{number}", "s", "page", "It is.", now, Hit(), now)
    async with kernel.store.reading() as tx:
        for name, (column, page) in PAGES.items():
            first = [getattr(row, column) for row in await page(tx, None, 2)]
            rest = [getattr(row, column) for row in await page(tx, first[-1], 2)]
            assert (len(first), len(rest)) == (2, 1) and not {*first} & {*rest}, name
