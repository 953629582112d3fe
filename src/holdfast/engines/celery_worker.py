"""Inside a Celery worker process: an event loop in a thread of its own, and one job at a time on it.

    holdfast.run(job_id, queue) -> claim by id -> attempt, the lease renewed meanwhile -> settle

The very same verbs as the embedded worker's. Celery is told nothing of what came of the job: the row says it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress

from holdfast.core.outcome import Released
from holdfast.engines.children import end_with_parent
from holdfast.engines.presence import name_here
from holdfast.engines.renewal import Renewal
from holdfast.errors import StoreError
from holdfast.kernel.attempt import run_attempt
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.loop import pause
from holdfast.kernel.settle import Ending, LeasedJob
from holdfast.kernel.turn import claim_one, turn
from holdfast.tables import leases, workers

KernelFactory = Callable[[], Awaitable[Sequence[Kernel]]]
SETTLE_BACKOFF_S = 0.2
STOP_S = 2.5
SIGN_OFF_S = 1.0


class Home:
    """A worker process's event loop, in a thread, and the kernels that live on it."""

    def __init__(self, kernel_factory: KernelFactory) -> None:
        self._factory = kernel_factory
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runners: dict[str, Runner] = {}
        self._running: Future[bool] | None = None
        self._parent: int | None = None

    def note_parent(self, **_: object) -> None:
        """In Celery's main process, before it forks the others."""
        self._parent = os.getpid()

    def start(self, **_: object) -> None:
        """After the fork: a loop of this process's own. Nothing is connected before the first job."""
        end_with_parent(self._parent or os.getppid())
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="holdfast", daemon=True).start()
        kernels = asyncio.run_coroutine_threadsafe(_made(self._factory), self._loop).result()
        self._runners = {queue: Runner(kernel) for kernel in kernels for queue in kernel.registry.queues}

    def run(self, job_id: str, queue: str) -> bool:
        """The task. False: nothing to do, the bell was early, late or repeated."""
        assert self._loop is not None, "the process was initialised by Celery"
        runner = self._runners.get(queue)
        if runner is None:
            return False
        self._running = asyncio.run_coroutine_threadsafe(runner.run(job_id), self._loop)
        try:
            return self._running.result()
        except BaseException:
            self._running.cancel()  # a time limit or a cold shutdown: the attempt must not go on unseen
            raise

    def stop(self, **_: object) -> None:
        """Give back what is in flight, then close the databases. Bounded: the leases cover the rest."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._leave(), loop).result(STOP_S)
        loop.call_soon_threadsafe(loop.stop)

    async def _leave(self) -> None:
        for runner in self._runners.values():
            await runner.idle.wait()
        for kernel in {id(runner.kernel): runner.kernel for runner in self._runners.values()}.values():
            await kernel.store.close()


async def report_for_ever(kernel: Kernel, stop: asyncio.Event) -> None:
    """Say, until the stop, that a fleet is there and what its code declares: an idle process of it says nothing."""
    name, queues = name_here(kernel.new_uuid4()[:8]), ",".join(kernel.registry.queues)
    while not stop.is_set():
        with suppress(StoreError):  # a database without tables yet, or away
            async with kernel.store.transaction() as tx:
                await workers.seen(tx, name, queues, 0, kernel.now(), kernel.registry.declared)
        await pause(stop, kernel.tuning.renew_s)
    with suppress(StoreError, TimeoutError):
        async with asyncio.timeout(SIGN_OFF_S), kernel.store.transaction() as tx:
            await workers.gone(tx, name, kernel.now() - 3_600_000)


async def _made(factory: KernelFactory) -> Sequence[Kernel]:
    return await factory()


class Runner:
    """Runs one job at a time on one kernel: claim by id, attempt, settle; the lease is renewed meanwhile."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.name = name_here(kernel.new_uuid4()[:8])
        self.idle = asyncio.Event()
        self.idle.set()
        self._doubt = False
        self._renewal: Renewal | None = None

    async def run(self, job_id: str) -> bool:
        self.idle.clear()
        if self._renewal is None:
            self._renewal = Renewal(self.kernel, self.name, lambda: not self.idle.is_set())
            self._renewal.start()
        self._renewal.renewed()
        self._renewal.begin()
        try:
            taken = await self._claim(job_id)
            if taken is None:
                return False
            await self._settle(await self._attempt(taken), taken)
            return True
        finally:
            self.idle.set()

    async def _claim(self, job_id: str) -> LeasedJob | None:
        try:
            if self._doubt:
                await self._disown()
            return await claim_one(self.kernel, self.name, job_id)
        except StoreError as error:
            self._doubt = True
            self.kernel.watch.log("worker.store_failed", job_id=job_id, error=str(error))
            return None  # the job is still due, or its lease expires: either way it is rung for again

    async def _disown(self) -> None:
        """After a lost answer we may hold a job that we do not know of: give it back."""
        async with self.kernel.store.reading() as tx:
            held = await leases.held_by(tx, self.name, leases.since(self.kernel.now(), self.kernel.tuning.lease_s))
        lost = [Ending(job, Released(), provider=provider) for job, provider in held]
        await turn(self.kernel, self.name, [], lost, 0)
        self._doubt = False

    async def _attempt(self, taken: LeasedJob) -> Ending | None:
        attempt = asyncio.ensure_future(run_attempt(self.kernel, taken))
        renewal = asyncio.ensure_future(self._renew(taken, attempt))
        try:
            return await attempt
        except asyncio.CancelledError:
            if renewal.done():
                return None  # the lease was lost: another attempt owns the job
            attempt.cancel()
            await asyncio.wait([attempt])
            return Ending(taken.job, Released())
        finally:
            renewal.cancel()
            await asyncio.wait([renewal])

    async def _renew(self, taken: LeasedJob, attempt: asyncio.Future[Ending | None]) -> None:
        """Extend the lease until it is lost; then stop the attempt."""
        tuning = self.kernel.tuning
        while True:
            await asyncio.sleep(tuning.renew_s)
            now = self.kernel.now()
            try:
                async with self.kernel.store.transaction() as tx:
                    lease_ms = int(tuning.lease_s * 1_000)
                    report = (self.name, taken.job.queue, 1, now, self.kernel.registry.declared)
                    await workers.seen(tx, *report, holds_until=now + lease_ms)
                    kept = await leases.keep(tx, [taken.job], now, lease_ms)
            except StoreError as error:
                self.kernel.watch.log("worker.renewal_failed", job_id=taken.job.id, error=str(error))
                continue
            if self._renewal is not None:
                self._renewal.renewed()
            if not kept:
                self.kernel.watch.log("lease.lost", job_id=taken.job.id, attempt=taken.job.attempt)
                attempt.cancel()
                return

    async def _settle(self, ending: Ending | None, taken: LeasedJob) -> None:
        """Through the same door as everybody. Fenced, so that settling again after a lost answer is harmless."""
        if ending is None or ending.is_written:
            return
        give_up_at = self.kernel.now() + int(self.kernel.tuning.lease_s * 1_000)
        backoff_s = SETTLE_BACKOFF_S
        while True:
            try:
                await turn(self.kernel, self.name, [], [ending], 0)
                return
            except StoreError as error:
                self.kernel.watch.log("worker.store_failed", job_id=taken.job.id, error=str(error), wait_s=backoff_s)
                if self.kernel.now() > give_up_at:
                    return  # the lease is over and the reaper has the job
                await asyncio.sleep(backoff_s)
                backoff_s = min(5.0, backoff_s * 2)
