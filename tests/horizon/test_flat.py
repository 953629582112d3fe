"""While a snapshot is held, what a great many jobs leave behind makes no statement dearer: by name, from EXPLAIN."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import App, Breaker, Context, Job, Provider, stage
from holdfast.core.outcome import Done, Next
from holdfast.engines.doorbell import Bells
from holdfast.engines.presence import expire_the_dead
from holdfast.kernel.hold import hold_once
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.prune import prune_once
from holdfast.kernel.reap import reap_once, sweep_once
from holdfast.kernel.reconcile import reconcile_once
from holdfast.kernel.relay import relay_once
from holdfast.kernel.settle import Settlement
from holdfast.kernel.submit import submit_many
from holdfast.kernel.turn import turn
from holdfast.kernel.wake import wake_once
from holdfast.operator.snapshot import snapshot
from holdfast.stores.postgres import PostgresStore
from holdfast.tables import jobs, lanes, leases, ops
from holdfast.testing import HandClock
from holdfast.transports.memory import MemoryTransport
from holdfast.transports.seam import Message
from tests.horizon.explaining import ExplainingStore, every_statement

JOBS = 5_000
DAY_MS = 86_400_000
MORE, A_FEW = 1.5, 50
"""How much dearer a statement may get: half as much again, and a few buffers for what was done just now."""
HISTORY = (Path(__file__).parent / "history.sql").read_text()

app = App("flat")
api = Provider("api", breaker=Breaker())


@app.job()
class Call(Job[int]):
    @stage(provider=api)
    async def ask(self, ctx: Context, number: int) -> int:
        return number

    @stage()
    async def keep(self, ctx: Context, number: int, ask: int) -> None: ...


class Anywhere(MemoryTransport):
    """Takes every message."""

    async def publish(self, message: Message) -> None: ...


MEASURED = {
    "jobs.turn", "lanes.promote", "lanes.due_ids", "leases.expired", "leases.held_by",
    "leases.renew_owned", "leases.overdue", "leases.unanswered", "jobs.unpark", "jobs.prune", "breakers.attention",
    "breakers.every", "breakers.names", "outbox.claim", "outbox.first_pending", "outbox.published", "outbox.lag",
    "outbox.oldest", "outbox.prune", "inbox.prune", "idempotency.prune", "calls.prune", "answers.prune",
    "effects.in_doubt", "depth.ready", "depth.later", "depth.processing", "depth.waiting", "depth.parked",
    "depth.doubtful", "workers.known", "workers.every", "workers.declaring",
    "ops.mark", "results.of_jobs", "joins.ready", "joins.left", "callbacks.awaited", "callbacks.prune",
}  # fmt: skip
"""Everything that a worker, a keeper, a relay or a metric repeats and that looks for rows."""
EXCUSED = {
    "goes by a key: as dear as that row's own past": {
        "jobs.claim_one", "answers.parked", "callbacks.take", "joins.of_stage", "joins.grow", "joins.seal",
        "joins.count_down", "joins.move", "joins.leave", "joins.unended", "joins.outcomes", "joins.outcome_of",
        "joins.of_parent", "joins.forget", "schedules.pause", "schedules.remove", "schedules.is_live",
        "jobs.take_back", "effects.stage_of", "cases.begin_at",
        "leases.renew", "lanes.park", "jobs.lock_one", "jobs.lock_waiting", "jobs.revive",
        "jobs.correct", "jobs.show",
        "new_jobs.by_key", "events.of_job", "events.failed_in_stage", "events.forget", "results.forget",
        "answers.of_stage", "answers.forget", "cases.lock_of_job", "cases.context", "cases.refer", "cases.step",
        "cases.correct", "cases.corrections", "cases.show", "cases.lock", "cases.forget", "cases.forget_corrections",
        "effects.lock", "effects.begin", "effects.mark", "effects.backfill", "effects.refuse", "effects.ask",
        "effects.answer", "effects.unsent", "effects.hand_over", "effects.of_job", "calls.of_job", "outbox.refused",
        "outbox.release", "idempotency.read", "idempotency.answer",
        "tickets.redeem", "workers.seen", "workers.probe_put", "workers.probe_take", "ops.case_of_job",
        "schedules.advance", "users.lock", "results.of_job", "results.clear", "results.clear_stages",
    },
    "only inserts": {
        "callbacks.put", "joins.begin", "effects.begin_new", "new_jobs.insert", "new_jobs.insert_one",
        "events.append", "events.append_once", "results.put",
        "answers.put", "cases.open", "cases.keep_correction", "effects.plan", "calls.put", "outbox.put", "inbox.accept",
        "idempotency.reserve", "tickets.put", "audit.write", "breakers.ensure", "breakers.log", "schedules.ensure",
    },
    "a table of a few rows": {
        "keepers.take", "keepers.look", "keepers.release", "keepers.owners", "keepers.release_owned", "keepers.forget",
        "workers.company",
        "breakers.read", "breakers.asked", "breakers.lock", "breakers.swap", "breakers.gate_until", "breakers.spend",
        "breakers.set_places", "breakers.set_ramp", "workers.gone", "schedules.due", "schedules.every",
    },
    "the look from the bottom itself: a twentieth of the time": {"lanes.below", "lanes.below_later"},
    "the newest ten thousand events, and their jobs": {"depth.finished_since"},
    "deadlines that are still to come": {"ops.at_risk"},
    "leases that have not run out: as many as there were in a minute": {"workers.expire"},
    "PostgreSQL's own statistics": {"horizon.holder", "horizon.dead_versions"},
    "asked for by a person, or by a command": {
        "jobs.page", "jobs.forget", "depth.standing", "breakers.history", "cases.page",
        "cases.groups", "effects.by_status", "effects.count", "effects.page", "effects.sample", "calls.latencies",
        "calls.spending", "outbox.stuck", "outbox.requeue",
        "outbox.of_aggregate", "ops.jobs_page", "ops.jobs_found", "ops.outbox_page", "ops.effects_page",
        "ops.audit_page", "ops.ends_by_minute", "ops.calls_since", "ops.gates_since", "audit.of_subject",
        "audit.recent",
        "ops.messages_aside",
    },
    "as many dead letters as people work through": {"depth.letters", "tickets.prune"},
}  # fmt: skip


def test_every_statement_is_measured_or_excused() -> None:
    known = set(every_statement().values())
    listed = [MEASURED, *EXCUSED.values()]
    assert known - set().union(*listed) == set(), "measure it, or say why it needs no measuring"
    assert set().union(*listed) - known == set(), "there is no such statement any more"
    assert sum(map(len, listed)) == len(set().union(*listed))


@pytest.mark.slow
@pytest.mark.spec("K21")
async def test_no_repeated_statement_costs_more_behind_a_held_snapshot(postgres_url: str) -> None:
    clock = HandClock()
    async with explained(postgres_url, clock) as (kernel, store):
        leave_behind(postgres_url, JOBS, clock.now_ms())
        vacuum(postgres_url)
        clean = await measured(kernel, store, clock)
        assert MEASURED - set(clean) == set(), "never run here"
        with held_snapshot(postgres_url):
            leave_behind(postgres_url, JOBS, clock.now_ms(), after=JOBS)
            behind = await measured(kernel, store, clock)
            store.forget()
            await keep(Kernel(store, kernel.registry, kernel.transport))
            walked = dict(store.buffers)
    dearer = {name: (clean[name], behind[name]) for name in MEASURED if behind[name] > MORE * clean[name] + A_FEW}

    assert dearer == {}
    assert walked["jobs.turn"] > 10 * behind["jobs.turn"] and walked["outbox.claim"] > 10 * behind["outbox.claim"], (
        "there is nothing to walk over here: the measurement shows nothing"
    )


@asynccontextmanager
async def explained(url: str, clock: HandClock) -> AsyncIterator[tuple[Kernel, ExplainingStore]]:
    store = ExplainingStore(url, clock=clock)
    kernel = Kernel(store, Registry([app]), Anywhere())
    await kernel.migrate()
    async with PostgresStore.transaction(store) as tx:
        await tx.connection.execute("INSERT INTO holdfast_breakers (name, updated_at) VALUES ('api', 0)")
    yield kernel, store
    await store.close()


async def measured(kernel: Kernel, store: ExplainingStore, clock: HandClock) -> dict[str, int]:
    """What each statement costs at the most, with nothing to do and with a little, once its floor is remembered."""
    clock.advance(7_200)
    await keep(kernel)  # the look from the bottom
    await work(kernel)
    clock.advance(0.6)
    await keep(kernel)  # the floors move over what was done just now
    store.forget()
    await keep(kernel)
    await work(kernel)
    return dict(store.buffers)


async def work(kernel: Kernel) -> None:
    """Twenty jobs of two stages, and a message from each."""
    await submit_many(kernel, Call, range(20))
    taken, _ = await turn(kernel, "w", ["flat"], [], 20)
    held = {one.job.id: one.job.attempt for one in taken}
    async with kernel.store.transaction() as tx:
        assert len(await leases.renew(tx, held, kernel.now() + 60_000)) == 20
    again, _ = await turn(kernel, "w", ["flat"], [Settlement(one.job, Next(1), "1") for one in taken], 20)
    again += (await turn(kernel, "w", ["flat"], [], 20))[0]
    assert len(again) == 20, "a worker finds at once what it puts back for the next stage"
    done = [Settlement(one.job, Done(None), None, messages=[_message(kernel, one.job.id)]) for one in again]
    await turn(kernel, "w", ["flat"], done, 0)
    while await relay_once(kernel):
        pass


def _message(kernel: Kernel, job_id: str) -> tuple[str, str, str, str, str, str]:
    return (kernel.new_uuid4(), job_id, "nowhere", "told", "{}", "{}")


async def keep(kernel: Kernel) -> None:
    """Every step that a process repeats, with nothing to do."""
    await relay_once(kernel)
    await turn(kernel, "w", ["flat"], [], 200)
    for step in (reap_once, sweep_once, hold_once, wake_once, reconcile_once, prune_once, expire_the_dead):
        await step(kernel)
    await snapshot(kernel)
    now, bells = kernel.now(), Bells("flat")
    async with kernel.store.transaction() as tx:
        claiming = kernel.floors.claims.begin(now)
        _, reached = await lanes.due_ids(tx, "flat", kernel.registry.declared, now, bells.window, claiming.floors)
        kernel.floors.claims.end(claiming, reached, {}, now)
        await leases.held_by(tx, "w", leases.since(now, 60.0))
        await leases.renew_owned(tx, "w", leases.since(now, 60.0), now + 60_000)
        await jobs.unpark(tx, "api", None, 10, now, kernel.floors.parked_since("api"))
        await ops.mark(tx)


@contextmanager
def held_snapshot(url: str) -> Any:
    with psycopg.connect(url, application_name="yearly-report") as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1 FROM holdfast_jobs LIMIT 1")
        yield


def leave_behind(url: str, many: int, now: int, after: int = 0) -> None:
    """What so many jobs leave behind, the odd ones of yesterday, the even ones older than anything is kept."""
    given = {"n": many, "first": after, "even": now - 120 * DAY_MS, "odd": now - DAY_MS}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        for text in re.sub(r":(n|first|even|odd)\b", lambda m: str(given[m.group(1)]), HISTORY).split(";\n"):
            connection.execute(text.encode())
        connection.execute("ANALYZE")


def vacuum(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM")
