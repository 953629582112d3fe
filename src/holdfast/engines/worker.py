"""The embedded engine: asyncio workers that claim many, run them side by side, and settle in groups.

    stream: settle what is finished and claim what is due, in ONE commit -> run the jobs -> again
    beside: one batched renewal of all leases; reaping; the deadline sweep; breakers; reconciliation; pruning

Two streams on PostgreSQL, so that Python runs while a commit is waited for; SQLite has one writer, and one stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace

from holdfast.core.classify import classify
from holdfast.core.job import Claimed
from holdfast.core.outcome import Failed, Released
from holdfast.core.redact import redact_stack
from holdfast.engines.newcomers import Newcomers, kept_places
from holdfast.engines.presence import name_here
from holdfast.engines.renewal import LATE, Renewal
from holdfast.engines.wakeups import Wakeups
from holdfast.errors import StoreError
from holdfast.kernel.attempt import run_attempt
from holdfast.kernel.compose.awaited import listen_for_waits
from holdfast.kernel.go_on import Look, may_go_on, next_look
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.loop import pause
from holdfast.kernel.observe.attempt_log import keep_logs
from holdfast.kernel.running.eager import STOP, first_step, resume
from holdfast.kernel.settle import Ending, LeasedJob
from holdfast.kernel.turn import turn
from holdfast.tables import leases

STORE_BACKOFF_S = 0.5
STORE_BACKOFF_CAP_S = 10.0
GIVE_BACK_S = 2.0
"""How long after the grace time the last endings may take. Then the leases are left to expire."""


@dataclass(slots=True)
class Running:
    """A job that is leased and not finished. It has a task once it waits for something."""

    job: Claimed
    task: asyncio.Task[None] | None = None


class Worker:
    """Runs jobs of the loaded apps' queues, or of some of them, until told to stop."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        concurrency: int = 50,
        streams: int | None = None,
        grace_s: float = 20.0,
        queues: Sequence[str] | None = None,
    ) -> None:
        self.kernel = kernel
        # A name of its own at every start: a reused one would hide the leases of the process before.
        self.name = name_here(kernel.new_uuid4()[:8])
        self.queues: Sequence[str] = kernel.registry.queues if queues is None else queues
        self.concurrency = concurrency
        kernel.aside.allow(concurrency)
        self.streams = streams or (1 if kernel.store.has_one_writer else 2)
        self.grace_s = grace_s
        self.completed = 0
        # By job and attempt: after a lost lease the same job may run here twice for a moment.
        self._running: dict[tuple[str, int], Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._finished: list[Ending] = []
        self._reserved = 0
        self._wake = asyncio.Event()
        self._rings = 0
        self._idle = False
        self._look: Look | None = None
        self._more = True  # as far as anybody knows; while it is not, one stream at a time looks for work
        self._stop = asyncio.Event()
        self._draining = False
        self._end_at = 0.0
        self._doubt = asyncio.Event()
        self._stepping = 0
        self._disowning = asyncio.Lock()
        self._renewed_at: float | None = None
        self._renewal: Renewal | None = None
        self.wakeups = Wakeups(kernel, self.name, self.queues, self._room, self._look_again)
        self._kept = kept_places(kernel, self.queues, concurrency)
        self._resting = 0
        hooks = (self._spare, lambda: [running.job for running in self._running.values()], self._start, self._doubt.set)
        self._newcomers = Newcomers(kernel, self.name, self.queues, *hooks)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`, then finish what is in flight within the grace time and give back the rest."""
        self._stop = stop
        keep_logs()
        async with asyncio.TaskGroup() as group:
            helpers = [*self.wakeups.start(group), group.create_task(self._renew_for_ever())]
            helpers += [group.create_task(self._newcomers.look_for_ever())] if self._kept else []
            waits = listen_for_waits(self.kernel)
            self._stand_by()
            streams = [group.create_task(self._stream()) for _ in range(self.streams)]
            await stop.wait()
            await self._drain()
            await self._until_given_back(streams)
            for helper in helpers:
                helper.cancel()
            waits.close()
        if self._renewal is not None:
            self._renewal.stop()
        await self.kernel.aside.close()
        await self.wakeups.sign_off()

    async def run_until_idle(self) -> int:
        """Run what is due until nothing is; for tests. Returns how many attempts ended."""
        before = self.completed
        while True:
            taken, parked = await self._step(self.concurrency)
            self._start(taken)
            await self._until_none_runs(None)
            if not taken and not parked and not self._finished:
                return self.completed - before

    async def _stream(self) -> None:
        backoff_s = 0.0
        while not (self._draining and not (self._running or self._finished or self._newcomers.is_looking)):
            # Draining begins a turn of the loop after the stop: nothing is claimed in between either.
            room = min(self.kernel.tuning.claim_batch, self._room())
            if not self._finished and (room <= 0 or self._idle or (self._reserved and not self._more)):
                await self._rest()
                continue
            if self._doubt.is_set() and (self._stepping or self._newcomers.is_looking):
                await self._rest()  # the other stream's answer must be known before we say what is not ours
                continue
            self._reserved += room
            rings = self._rings
            try:
                if self._doubt.is_set():
                    await self._disown()
                taken, parked = await self._step(room)
                backoff_s = 0.0
            except StoreError as error:
                self._doubt.set()
                cap_s = STORE_BACKOFF_S if self._draining else STORE_BACKOFF_CAP_S
                backoff_s = min(cap_s, max(STORE_BACKOFF_S, backoff_s * 2))
                self.kernel.watch.log("worker.store_failed", error=str(error), wait_s=backoff_s)
                if self._draining and asyncio.get_running_loop().time() > self._end_at:
                    return  # the leases are left to expire
                await asyncio.sleep(backoff_s * (0.5 + self.kernel.dice.draw() / 2))
                continue
            finally:
                self._reserved -= room
            if room > 0:
                self._more = sum(not leased.went_on for leased in taken) >= room
                if self._more:
                    self.wakeups.note_surplus()
                # Less than there was room for is all there was. What comes later rings, or the poll finds it.
                self._idle = not self._more and not parked and rings == self._rings
            if self._more:
                self._wake.set()
            self._start(taken)

    def _room(self) -> int:
        return max(0, self._free() - self._kept)

    def _free(self) -> int:
        if self._draining or self._stop.is_set() or self.wakeups.is_drained:
            return 0
        return self.concurrency - len(self._running) - self._reserved - self._going_on()

    def _spare(self) -> int:
        """How many newcomers may be started now, beside the turns under way; none while nobody is in their way."""
        if not self._running or self._doubt.is_set() or (self._resting and self._room() > 0):
            return 0
        return max(0, min(self._kept, self._free()))

    def _going_on(self) -> int:
        """How many of the finished may keep their places."""
        now = self.kernel.now()
        return sum(may_go_on(ending, now, self._look) for ending in self._finished if ending.taken is not None)

    async def _step(self, room: int) -> tuple[list[LeasedJob], int]:
        kept = self._going_on()
        finished, self._finished = self._finished, []
        goes_on = not (self._draining or self._stop.is_set() or self.wakeups.is_drained)
        self._stepping += 1
        self._reserved += kept
        began = self.kernel.now()
        try:
            endings = [ending for ending in finished if not ending.is_written]
            done = await turn(self.kernel, self.name, self.queues, endings, room, goes_on=goes_on, look=self._look)
        except BaseException:
            self._finished = finished + self._finished  # fenced: settling again after a lost answer is harmless
            raise
        finally:
            self._stepping -= 1
            self._reserved -= kept
        self._look, self.completed = next_look(self._look, room, began, *done), self.completed + len(finished)
        return done

    def _start(self, taken: Sequence[LeasedJob]) -> None:
        if self._draining:
            self._finished += [Ending(leased.job, Released()) for leased in taken]
            return
        for leased in taken:
            self._running[leased.job.id, leased.job.attempt] = Running(leased.job)
        if taken:
            if self._renewal is not None:
                self._renewal.begin()
            self._spawn(iter(taken))

    def _spawn(self, taken: Iterator[LeasedJob]) -> None:
        task = asyncio.get_running_loop().create_task(self._run_some(taken))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_some(self, taken: Iterator[LeasedJob]) -> None:
        """Run attempts one after the other until one of them waits: then this task is that one's, and another task
        takes the rest. Each attempt has a context of its own, as if it had always had a task of its own."""
        for leased in taken:
            running = self._running.get((leased.job.id, leased.job.attempt))
            if running is None:
                continue  # lost or given back before it began
            attempt, run = run_attempt(self.kernel, leased), copy_context().run
            try:
                ended, got = first_step(attempt, run)
                if not ended:
                    running.task = asyncio.current_task()
                    self._spawn(taken)
                    got = await resume(attempt, got, run)
            except asyncio.CancelledError:
                self._ended(leased.job, Ending(leased.job, Released()) if self._draining else None)
            except BaseException as error:
                # `run_attempt` catches what a handler raises; what comes out of it is a defect of ours, or of a type.
                self._ended(leased.job, Ending(leased.job, Failed(replace(classify(error), stack=redact_stack(error)))))
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise
            else:
                self._ended(leased.job, got)
            if running.task is not None:
                return

    def _ended(self, job: Claimed, ending: Ending | None) -> None:
        del self._running[job.id, job.attempt]
        if ending is not None:
            self._finished.append(ending)
        self._wake.set()

    def _abandon(self, running: Running) -> None:
        """Stop an attempt. What has not begun is simply forgotten."""
        if running.task is not None:
            running.task.cancel(STOP)
        else:
            self._ended(running.job, Ending(running.job, Released()) if self._draining else None)

    async def _until_none_runs(self, limit_s: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self._running:
                    self._wake.clear()
                    await self._wake.wait()

    async def _rest(self) -> None:
        """Nothing to settle and nothing to claim: wait for an attempt to end, a ring, or the poll."""
        self._wake.clear()
        self._resting += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(self.kernel.tuning.poll_s):
                await self._wake.wait()
        self._resting -= 1

    def _look_again(self) -> None:
        self._rings += 1
        self._idle = False
        self._wake.set()
        self._newcomers.rung.set()

    async def _renew_for_ever(self) -> None:
        while True:  # the first round only says that the worker is there
            self.wakeups.company_changed.clear()  # who comes while the look is under way is looked for again
            try:
                await self.renew()
            except StoreError as error:
                self.kernel.watch.log("worker.renewal_failed", error=str(error))
            await pause(self.wakeups.company_changed, self.kernel.tuning.renew_s)

    async def renew(self) -> None:
        """Extend every lease in one statement; what does not come back is not ours any more."""
        held = dict(sorted(self._running))  # the latest attempt of each job
        attempts = [self._running[each].job for each in held.items()]
        now, began = self.kernel.now(), asyncio.get_running_loop().time()
        async with self.kernel.store.transaction() as tx:
            await self.wakeups.report(tx, len(held), now)
            kept = await leases.keep(tx, attempts, now, int(self.kernel.tuning.lease_s * 1_000))
        self._renewed_at = began
        if self._renewal is not None:
            self._renewal.renewed(asyncio.get_running_loop().time() - began)
        for (job_id, attempt), running in list(self._running.items()):
            if job_id in held and (attempt < held[job_id] or (job_id not in kept and attempt == held[job_id])):
                self.kernel.watch.log("lease.lost", job_id=job_id, attempt=attempt)
                self._abandon(running)

    def is_late_to_renew(self) -> bool:
        """Whether the leases here should have been renewed by now: the loop, or the database, was paused."""
        if self._renewed_at is None or not self._running:
            return False
        return asyncio.get_running_loop().time() - self._renewed_at > LATE * self.kernel.tuning.renew_s

    def _stand_by(self) -> None:
        """Have a thread that renews while this loop cannot, unless the store is one of a single loop."""
        if self.kernel.store.spare() is not None:
            self._renewal = Renewal(self.kernel, self.name, self._is_holding)
            self._renewal.start()

    def _is_holding(self) -> bool:
        return bool(self._running or self._finished or self._stepping)

    async def _disown(self) -> None:
        """After a lost answer we may hold jobs that we do not know of: give those back."""
        async with self._disowning:
            if not self._doubt.is_set():
                return
            async with self.kernel.store.reading() as tx:
                held = await leases.held_by(tx, self.name, leases.since(self.kernel.now(), self.kernel.tuning.lease_s))
            known = set(self._running) | {(ending.job.id, ending.job.attempt) for ending in self._finished}
            lost = [Ending(job, Released(), provider=p) for job, p in held if (job.id, job.attempt) not in known]
            if lost:
                await turn(self.kernel, self.name, self.queues, lost, 0)
            self._doubt.clear()

    async def _drain(self) -> None:
        self._draining = True
        self._end_at = asyncio.get_running_loop().time() + self.grace_s
        self._wake.set()
        await self._until_none_runs(self.grace_s)
        for running in list(self._running.values()):
            self._abandon(running)
        self._wake.set()

    async def _until_given_back(self, streams: Sequence[asyncio.Task[None]]) -> None:
        """Wait for the last endings, but not for a database that does not answer."""
        left_s = max(0.0, self._end_at - asyncio.get_running_loop().time())
        _, waiting = await asyncio.wait(streams, timeout=left_s + GIVE_BACK_S)
        for stream in waiting:
            stream.cancel()
        if waiting or self._finished:
            self.kernel.watch.log("worker.leases_left", worker=self.name, jobs=len(self._finished))
