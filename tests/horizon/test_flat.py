"""While a snapshot is held, what a great many jobs leave behind makes no statement dearer: by name, from EXPLAIN."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import App, Breaker, Context, Job, Provider, stage
from holdfast.core.floor import BOTTOM
from holdfast.core.outcome import Done, Next
from holdfast.engines.doorbell import RungRecently
from holdfast.engines.presence import expire_the_dead
from holdfast.kernel.compose.wake import wake_once
from holdfast.kernel.hold import hold_once
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.ledger.reconcile import reconcile_once
from holdfast.kernel.reap import reap_once, sweep_once
from holdfast.kernel.relay import relay_once
from holdfast.kernel.settle import Ending
from holdfast.kernel.submit import submit_many
from holdfast.kernel.turn import turn
from holdfast.kernel.upkeep.prune import prune_once
from holdfast.kernel.upkeep.relocate import relocate_once
from holdfast.operator.attention import Topic
from holdfast.operator.depth import ready_floors
from holdfast.operator.incident_watch import join_jobs
from holdfast.operator.rollup import roll_up_once
from holdfast.operator.snapshot import snapshot
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.seam import Tx
from holdfast.tables import cases, incidents, jobs, keepers, lanes, leases, ops, pauses, providers, search, workers
from holdfast.testing import HandClock
from holdfast.transports.memory import MemoryTransport
from holdfast.transports.seam import Message
from tests.horizon.explaining import ExplainingStore
from tests.horizon.statements import MEASURED, PAGE, PAGES, VERSIONS_MAX

JOBS = 5_000
DAY_MS, HOUR_MS = 86_400_000, 3_600_000
MORE, A_FEW = 1.5, 8
"""How much dearer a statement may get: half as much again, and a few buffers for an index's depth and the last jobs."""
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


@pytest.mark.slow
@pytest.mark.spec("K21")
async def test_no_repeated_statement_costs_more_behind_a_held_snapshot(postgres_url: str) -> None:
    clock = HandClock()
    async with explained(postgres_url, clock) as (kernel, store):
        leave_behind(postgres_url, JOBS, clock.now_ms())
        vacuum(postgres_url)
        clean = await measured(kernel, store, clock)
        assert MEASURED - set(clean) == set(), "never run here"
        clock.advance(5)
        store.forget()
        await relay_once(kernel)
        assert set(store.buffers) == {"outbox.first_pending"}, "an idle relay asks once, and claims nothing"
        with held_snapshot(postgres_url):
            leave_behind(postgres_url, JOBS, clock.now_ms(), after=JOBS)
            behind = await measured(kernel, store, clock)
            store.forget()
            await keep(Kernel(store, kernel.registry, kernel.transport))
            walked = dict(store.buffers)
    dearer = {name: (clean[name], behind[name]) for name in MEASURED if behind[name] > MORE * clean[name] + A_FEW}

    assert dearer == {}
    assert {name: behind[name] for name in PAGES if behind[name] > PAGE * VERSIONS_MAX} == {}
    assert walked["jobs.turn"] > 10 * behind["jobs.turn"] and walked["outbox.first_pending"] > JOBS, (
        "there is nothing to walk over here: the measurement shows nothing"
    )


@asynccontextmanager
async def explained(url: str, clock: HandClock) -> AsyncIterator[tuple[Kernel, ExplainingStore]]:
    store = ExplainingStore(url, clock=clock)
    kernel = Kernel(store, Registry([app]), Anywhere())
    await kernel.migrate()
    async with PostgresStore.transaction(store) as tx:
        await tx.connection.execute("INSERT INTO holdfast_breakers (name, updated_at) VALUES ('api', 0)")
        await tx.connection.execute("INSERT INTO holdfast_pauses VALUES ('kind', 'flat.call', 0, 0, 'olga', 'is over')")
        await tx.connection.execute("INSERT INTO holdfast_pauses VALUES ('kind', 'Other', 1, 0, 'olga', 'is paused')")
        await incidents.open(tx, jobs.NIL, Topic.PROVIDER, "api", "page", "is down", 0, incidents.Hit(), 0)
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
    again, _ = await turn(kernel, "w", ["flat"], [Ending(one.job, Next(1), "1") for one in taken], 20)
    again += (await turn(kernel, "w", ["flat"], [], 20))[0]
    assert len(again) == 20, "a worker finds at once what it puts back for the next stage"
    done = [Ending(one.job, Done(None), None, messages=[_message(kernel, one.job.id)]) for one in again]
    await turn(kernel, "w", ["flat"], done, 0)
    while await relay_once(kernel):
        pass


def _message(kernel: Kernel, job_id: str) -> tuple[str, str, str, str, str, str]:
    return (kernel.new_uuid4(), job_id, "nowhere", "told", "{}", "{}")


async def keep(kernel: Kernel) -> None:
    """Every step that a process repeats, with nothing to do."""
    await relay_once(kernel)
    await turn(kernel, "w", ["flat"], [], 200)
    steps = (reap_once, sweep_once, relocate_once, hold_once, wake_once, reconcile_once, prune_once)
    steps += (expire_the_dead, roll_up_once)
    for step in steps:
        await step(kernel)
    await snapshot(kernel)
    await look_at_lists(kernel)
    now, bells = kernel.now(), RungRecently("flat")
    async with kernel.store.transaction() as tx:
        with kernel.floors.claims.claim(kernel.now) as claiming:
            declared = kernel.registry.declared
            _, claiming.reached = await lanes.due_ids(tx, "flat", declared, now, bells.window, claiming.floors)
        await leases.held_by(tx, "w", leases.since(now, 60.0))
        await leases.renew_owned(tx, "w", leases.since(now, 60.0), now + 60_000)
        await jobs.unpark(tx, "api", 10, now, kernel.floors.parked_since("api"))
        await incidents.held_for(tx, "api", kernel.floors.parked_since("api"))
        await incidents.due_in(tx, "flat", ready_floors(kernel, "flat"))
        await incidents.last_answer(tx, "api", now - HOUR_MS)
        await incidents.join_held(tx, jobs.NIL, "api", kernel.floors.parked_since("api"), now)
        (incident,) = await incidents.live(tx, 0)
        await join_jobs(kernel, tx, incident, now)
        await ops.mark(tx)
        await call_provider(tx, now)
        await keepers.look(tx, "flat")
        assert await keepers.take(tx, "flat", "w", now, now)
        await workers.seen(tx, "w", "flat", 0, now)
        await workers.company(tx, "flat", kernel.registry.declared, now - HOUR_MS)
        await pauses.held(tx, "flat.call", kernel.floors.times("paused", "flat.call").at or BOTTOM)


async def call_provider(tx: Tx, now: int) -> None:
    """What a call of a provider with a breaker and limits reads and writes."""
    await providers.read(tx, "api")
    await providers.read_with_lease(tx, "api", jobs.NIL, 1)
    row = await providers.lock(tx, "api", now)
    await providers.spend(tx, "api", row.usage)
    await providers.set_places(tx, "api", {})
    await providers.swap(tx, "api", row.state, replace(row.state, window=row.state.window + "1"), now)
    await providers.set_ramp(tx, "api", 1, now)


async def look_at_lists(kernel: Kernel) -> None:
    """The first page of every list of the console, and its charts."""
    since = kernel.now() - HOUR_MS
    async with kernel.store.reading() as tx:
        for page in (ops.outbox_page, ops.effects_page, ops.audit_page):
            await page(tx, before=None, limit=PAGE)
        await search.jobs_matching(tx, before=None, limit=PAGE, texts={})
        await cases.page(tx, limit=PAGE)
        await ops.gates_since(tx, "api", since)


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
