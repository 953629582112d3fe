"""The public test kit: your jobs on a real store, with a clock you turn, providers you script, and crashes.

async with world(app) as w:
    w.script(mail, accept_then_crash=1)
    job = await w.enqueue(SendDigest, ORDER)
    await w.run_until_idle()
    assert (await w.effects(job)).sent == 1 and await w.state(job) == "succeeded"

A forgotten `await` anywhere in the code under test fails the test. `world(app, database=url)` is on the database of
your own tests and runs what your endpoints enqueued; `strict=True` also fails on a blocked event loop and on exceptions
that nothing recognises.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, Unpack, cast

from holdfast.client import Client
from holdfast.core.family import NEVER_MS
from holdfast.core.given import give_names
from holdfast.core.provider import Provider
from holdfast.engines.worker import Worker
from holdfast.errors import extras_named
from holdfast.kernel import operate, submit
from holdfast.kernel.app import App, Job
from holdfast.kernel.compose.wake import wake_once
from holdfast.kernel.declare.options import Options
from holdfast.kernel.failpoint import NAMES
from holdfast.kernel.hold import hold_once
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.ledger.reconcile import reconcile_once
from holdfast.kernel.observe.watch import LogWatch, Watch
from holdfast.kernel.reap import reap_once, sweep_once
from holdfast.kernel.relay import relay_once
from holdfast.kernel.running.lockstep import Lockstep
from holdfast.kernel.upkeep.schedule import announce_schedules, schedule_once
from holdfast.stores.clock import Clock, SeededDice
from holdfast.stores.seam import Store
from holdfast.stores.sqlite import SqliteStore
from holdfast.tables import cases, effects, events, jobs, results
from holdfast.testing.hand_clock import HandClock
from holdfast.testing.history import History, HistoryReplay, RecordedLedger, load_history, stages_before
from holdfast.testing.notes import TroubleWatch, declared_rows, noticing, watching_loop
from holdfast.testing.script import CallPlan, plan_calls
from holdfast.transports.memory import MemoryTransport

In = TypeVar("In")


@dataclass(frozen=True, slots=True)
class EffectCount:
    """What the ledger knows of a job's effects, and what the scripted provider saw."""

    sent: int
    in_doubt: int
    for_a_person: int
    sends: int


@give_names
class World:
    """One deployment in one test: a store, a clock, and workers that may crash."""

    def __init__(
        self,
        apps: Sequence[App],
        open_store: Callable[[Clock], Store],
        clock: HandClock,
        seed: int,
        *,
        strict: bool = False,
    ) -> None:
        self.clock = clock
        self._began = clock.now_ms()
        self._open_store = open_store
        self._scripts: dict[str, deque[CallPlan]] = {}
        self._crash_at: dict[str, int] = {}
        self._crashed = asyncio.Event()
        self._dead: list[asyncio.Task[Any]] = []
        self.crashes = 0
        self.troubles: list[str] = []
        self._ledger: RecordedLedger | None = None
        self._strict = strict
        watch: Watch = TroubleWatch(self.troubles) if strict else LogWatch()
        self.kernel = Kernel(
            store=open_store(clock),
            registry=Registry(apps),
            transport=MemoryTransport(),
            dice=SeededDice(seed),
            failpoint=self._failpoint,
            call_through=self._reach,
            watch=watch,
            aside=Lockstep(),
        )

    def script(
        self,
        provider: Provider,
        *,
        rate_limited: int = 0,
        retry_after_s: float | None = None,
        server_errors: int = 0,
        timeouts: int = 0,
        timeout_after_effect: int = 0,
        refusals: int = 0,
        accept_then_crash: int = 0,
        crash: int = 0,
    ) -> None:
        """Say how the next calls of a provider go, in this order; later calls reach your own code as usual."""
        plans = plan_calls(
            rate_limited=rate_limited,
            retry_after_s=retry_after_s,
            server_errors=server_errors,
            timeouts=timeouts,
            timeout_after_effect=timeout_after_effect,
            refusals=refusals,
            accept_then_crash=accept_then_crash,
            crash=crash,
        )
        self._scripts.setdefault(provider.name, deque()).extend(plans)

    def crash_at(self, failpoint: str, *, visit: int = 1) -> None:
        """Kill the worker the `visit`-th time it passes a named failpoint (see `holdfast.kernel.failpoint`)."""
        assert failpoint in NAMES, f"'{failpoint}' is not a failpoint"
        self._crash_at[failpoint] = visit

    async def enqueue(
        self, job: type[Job[In]], input: In, *, key: str | None = None, **options: Unpack[Options]
    ) -> str:
        """Accept a job in a commit of its own, with the options of `holdfast.enqueue`; its id."""
        return await submit.submit(self.kernel, job, input, key=key, **options)

    @property
    def client(self) -> Client:
        """What code outside of jobs may do with them, on this world's database: answer, cancel, ask for a result."""
        return Client(self.kernel)

    async def run_until_idle(self, *, turn_s: float = 1.0, limit_s: float = 7 * 86_400) -> None:
        """Run everything that is due, turn the clock to what is due next, and so on until nothing is left to do.

        A worker that crashes is replaced by a new one; its leases expire as the clock is turned."""
        end = self.clock.now_ms() + int(limit_s * 1_000)
        while self.clock.now_ms() <= end:
            await self.tick()
            upcoming = await self._next_moment()
            if upcoming is None:
                return
            self.clock.advance(max(turn_s, (upcoming - self.clock.now_ms()) / 1_000))
        raise AssertionError(f"The world was still busy after {limit_s:.0f} simulated seconds.")

    async def tick(self) -> None:
        """One round of everything a deployment does, at the present time."""
        self.check_troubles()
        for step in (reap_once, sweep_once, wake_once, hold_once, schedule_once, reconcile_once):
            await self._as_a_process(step(self.kernel))
        await self.work()
        while await self._wake():
            await self.work()
        if any(app.queues for app in self.kernel.registry.apps):
            await self._as_a_process(relay_once(self.kernel))
        self.check_troubles()

    async def _wake(self) -> int:
        """How much was woken; after a crash, the next process has to look."""
        woken, before = 0, self.crashes

        async def wake() -> None:
            nonlocal woken
            woken = await wake_once(self.kernel)

        await self._as_a_process(wake())
        return woken + self.crashes - before

    def check_troubles(self) -> None:
        """Raise if something should have been awaited since the world began; in a strict one, also if the event loop
        was blocked, an exception was not recognised or a stage used Holdfast wrongly."""
        if self.troubles:
            raise AssertionError("; ".join(self.troubles))

    async def load(self, history: History, *, at: str | None = None) -> str:
        """Write an exported job, to be run by the code of today: from its first stage, or from the stage `at` with the
        results that the stages before it have in the history."""
        return await load_history(self.kernel, history, at=at)

    async def replay(self, history: History, *, at: str | None = None) -> HistoryReplay:
        """Run an exported job by the code of today until nothing is left to do, and say what came of it. Effects that
        the history has are answered from it and others are only noted: nothing is sent. Calls go to your own code."""
        job_id = await self.load(history, at=at)
        self._ledger = RecordedLedger(history.effects)
        try:
            await self.run_until_idle()
        finally:
            ledger, self._ledger = self._ledger, None
        skipped = stages_before(self.kernel.registry.kind(history.kind), at)
        return ledger.replay(job_id, await self.state(job_id), await self.results(job_id), skipped)

    async def work(self) -> None:
        """A worker runs what is due; if it crashes, it is gone and a new one comes with the next round."""
        with watching_loop(self.kernel) if self._strict else nullcontext():
            await self._as_a_process(Worker(self.kernel, concurrency=20).run_until_idle())

    async def _as_a_process(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run until done or dead. The dead are not cancelled: no `finally` runs, and their connection is cut."""
        self._crashed.clear()
        before = asyncio.all_tasks()
        task = asyncio.ensure_future(work)
        dying = asyncio.ensure_future(self._crashed.wait())
        await asyncio.wait([task, dying], return_when=asyncio.FIRST_COMPLETED)
        if self._crashed.is_set():
            self.crashes += 1
            self._dead += [one for one in asyncio.all_tasks() - before if one is not dying]
            cast(Any, self.kernel.store).abandon()
            self.kernel = replace(self.kernel, store=self._open_store(self.clock))
            return
        dying.cancel()
        await task

    async def _failpoint(self, name: str) -> None:
        if name in self._crash_at:
            self._crash_at[name] -= 1
            if self._crash_at[name] == 0:
                del self._crash_at[name]
                await self._die()

    async def _reach(self, provider: Provider, run: Callable[[], Awaitable[Any]], effect: str | None) -> Any:
        if effect is not None and self._ledger is not None:
            return self._ledger.perform(effect)
        plans = self._scripts.get(provider.name)
        if not plans:
            return await run()
        plan = plans.popleft()
        value = await run() if plan.really else None
        if plan.crash:
            await self._die()
        if plan.error is not None:
            raise plan.error
        return value

    async def _die(self) -> None:
        self._crashed.set()
        await asyncio.get_running_loop().create_future()  # never done: the dead wait forever

    async def close(self) -> None:
        """End the world's processes; `async with world(...)` does it."""
        cast(Any, self.kernel.store).abandon()
        for task in self._dead:
            task.cancel()
        await asyncio.gather(*self._dead, return_exceptions=True)

    async def state(self, job_id: str) -> str:
        """`queued`, `processing`, `waiting`, `succeeded`, `dead` or `cancelled`."""
        return str((await self.job(job_id))["state"])

    async def job(self, job_id: str) -> dict[str, Any]:
        """Everything that is stored of a job, by the names of its columns."""
        async with self.kernel.store.reading() as tx:
            row = await jobs.show(tx, job_id)
        assert row is not None, f"there is no job {job_id}"
        return row._asdict()

    async def events(self, job_id: str) -> list[str]:
        """What happened to a job, oldest first: `created`, `claimed`, `retried`, `succeeded` and so on."""
        async with self.kernel.store.reading() as tx:
            return [row.type for row in await events.of_job(tx, job_id)]

    async def results(self, job_id: str) -> dict[str, str]:
        """What each completed stage returned, as JSON, by the stage's name; `client.result` has the last one typed."""
        async with self.kernel.store.reading() as tx:
            return {row.stage: row.value for row in await results.of_job(tx, job_id)}

    async def effects(self, job_id: str) -> EffectCount:
        """How many effects of a job were sent, are in doubt, or wait for a person, and how many sends were made."""
        async with self.kernel.store.reading() as tx:
            rows = await effects.of_job(tx, job_id)
        return EffectCount(
            sent=sum(row.status == "sent" for row in rows),
            in_doubt=sum(row.status in ("sending", "unknown") for row in rows),
            for_a_person=sum(row.status == "review" for row in rows),
            sends=sum(row.sends for row in rows),
        )

    async def dead_letters(self) -> list[dict[str, Any]]:
        """The dead letters, by the names of its columns."""
        async with self.kernel.store.reading() as tx:
            return [letter._asdict() for letter in await cases.page(tx)]

    async def mend_and_replay(self, case_id: str, *, full: bool = False, actor: str = "tester") -> None:
        """The whole workflow of a dead letter in one call."""
        await operate.triage(self.kernel, case_id, cause="transient", actor=actor)
        await operate.remediate(self.kernel, case_id, evidence="fixed in a test", actor=actor)
        await operate.replay(self.kernel, case_id, actor=actor, full=full)

    async def _next_moment(self) -> int | None:
        async with self.kernel.store.reading() as tx:
            rows = await jobs.page(tx, limit=1_000)
        moments = []
        for row in declared_rows(rows, self.kernel.registry.kinds, since=self._began):
            if row.state == "processing":
                moments.append((row.lease_until or 0) + 1)
            elif row.state in ("queued", "waiting") and row.run_at < NEVER_MS:
                moments.append(row.run_at)
            if row.deadline_at is not None and row.state in ("queued", "processing", "waiting"):
                moments.append(row.deadline_at + 1)
        return min(moments, default=None)


@give_names
@asynccontextmanager
async def world(*apps: App, seed: int = 1, database: str | None = None, strict: bool = False) -> AsyncIterator[World]:
    """A fresh deployment of these apps on a private SQLite database.

    With `database` it is on that one, which is migrated and not emptied, and its clock begins at the time of day: what
    your own code has enqueued there is run. `strict` also fails the test on a loop that is blocked for more than a
    second, and on exceptions that nothing recognises."""
    with tempfile.TemporaryDirectory(prefix="holdfast-world-") as folder:
        url = database or f"sqlite:///{Path(folder) / 'world.db'}"
        clock = HandClock() if database is None else HandClock(int(time.time() * 1_000))
        made = World(apps, lambda clock: _store(url, clock), clock, seed, strict=strict)
        await made.kernel.migrate()
        for app in apps:
            if app.queues:
                assert made.kernel.transport is not None
                await made.kernel.transport.declare(app.queues)
        await announce_schedules(made.kernel)
        try:
            with noticing(made.troubles):
                yield made
            made.check_troubles()
        finally:
            await made.close()


def _store(url: str, clock: Clock) -> Store:
    if url.startswith("sqlite:///"):
        return SqliteStore(url.removeprefix("sqlite:///"), clock=clock, inline=True)
    with extras_named():
        from holdfast.stores.postgres import PostgresStore

    return PostgresStore(url, clock=clock)
