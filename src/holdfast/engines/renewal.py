"""Keeps a worker's leases while its event loop cannot, and says what holds the loop up.

    resting --a job begins--> watching --the loop renews too late--> standing in --it renews again--> watching

A handler that computes or sleeps without awaiting holds up everything in its process, the renewal of leases included.
So a thread of its own asks the loop for a sign of life, and while none comes it renews what is leased in the worker's
name, on a connection of its own that is open only then. It does so for `blocked_max_s` at most: a loop that never comes
back must not keep its jobs. What is leased is asked from the database: a claim may be under way that the loop has not
heard of.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from holdfast.core.job import Claimed
from holdfast.core.redact import redact_frame
from holdfast.errors import StoreError
from holdfast.kernel.attempt import run_attempt
from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import IDLE_S, Store
from holdfast.tables import leases, workers

LATE = 1.5
"""Renewals that are later than so many of their intervals are done here."""
JOIN_S = 0.5


@dataclass(frozen=True, slots=True)
class Blockage:
    """The loop does not run, since a moment of the monotonic clock, because of this job if it is one's."""

    since: float
    job: Claimed | None

    @property
    def where(self) -> str:
        return "code that belongs to no attempt" if self.job is None else f"{self.job.kind}/{self.job.stage}"

    def fields(self) -> dict[str, Any]:
        return {} if self.job is None else {"job_id": self.job.id, "kind": self.job.kind, "stage": self.job.stage}


class Renewal(threading.Thread):
    """The thread of one worker. Made on its event loop; `is_busy` says whether it holds anything."""

    def __init__(self, kernel: Kernel, name: str, is_busy: Callable[[], bool]) -> None:
        super().__init__(name="holdfast renewal", daemon=True)
        tuning = kernel.tuning
        self._kernel = kernel
        self._worker_name = name
        self._is_busy = is_busy
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._tick_s = min(tuning.blocked_say_s, tuning.renew_s) / 4
        self._begun = threading.Event()
        self._over = threading.Event()
        self._asked_at: float | None = None
        self._renewed_at = time.monotonic()
        self._blockage: Blockage | None = None
        self._spare: Store | None = None
        self._own_loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """A job begins."""
        if not self._begun.is_set():
            self._begun.set()

    def renewed(self, took_s: float = 0.0) -> None:
        """The loop has renewed the leases by itself. They last from when it began to: a slow commit took of them."""
        self._renewed_at = time.monotonic() - took_s

    def stop(self) -> None:
        """Nothing is leased any more, or it shall expire."""
        self._over.set()
        self._begun.set()
        self.join(JOIN_S)

    def run(self) -> None:
        while self._begun.wait() and not self._over.is_set():
            self._ask_for_a_sign()
            looked_at = time.monotonic()
            self._over.wait(self._tick_s)
            self._look(time.monotonic(), time.monotonic() - looked_at)
            if not self._is_busy() and self._asked_at is None:
                self._begun.clear()
                if self._is_busy() or self._over.is_set():  # it began, or the worker ended, in between
                    self._begun.set()
        self._close()

    def _ask_for_a_sign(self) -> None:
        if self._asked_at is not None:
            return
        self._asked_at = time.monotonic()
        try:
            self._loop.call_soon_threadsafe(self._show_sign)
        except RuntimeError:  # the loop is closed
            self._over.set()

    def _show_sign(self) -> None:
        """On the loop."""
        self._asked_at = None

    def _look(self, now: float, waited_s: float) -> None:
        tuning = self._kernel.tuning
        asked_at = self._asked_at
        if asked_at is not None and waited_s > self._tick_s + tuning.blocked_say_s:
            # This thread was paused as well: the whole process was, and the loop is not to blame.
            asked_at = self._asked_at = now
        blocked_s = 0.0 if asked_at is None else now - asked_at
        if asked_at is None and self._blockage is not None:
            self._say_over(self._blockage, now)
        if asked_at is not None and blocked_s > tuning.blocked_say_s and self._blockage is None:
            self._say_blocked(asked_at, blocked_s)
        if blocked_s > IDLE_S:
            self._kernel.store.let_go()
        if now - self._renewed_at > LATE * tuning.renew_s and blocked_s <= tuning.blocked_max_s:
            self._stand_in()
        elif self._own_loop is not None:
            self._close()

    def _say_blocked(self, since: float, blocked_s: float) -> None:
        """Once for each time, and while the culprit is still at it."""
        frame = sys._current_frames().get(self._loop_thread)
        job = attempt_in(frame)
        blockage = self._blockage = Blockage(since, job)
        self._kernel.watch.count("loop_blocked", kind=job.kind if job is not None else "")
        self._kernel.watch.log(
            "loop.blocked",
            message=f"the event loop has been blocked for {blocked_s:.1f} s in {blockage.where}",
            blocked_s=round(blocked_s, 1),
            stack=redact_frame(frame) if frame is not None else None,
            **blockage.fields(),
        )

    def _say_over(self, blockage: Blockage, now: float) -> None:
        blocked_s, self._blockage = now - blockage.since, None
        self._kernel.watch.log(
            "loop.unblocked",
            message=f"the event loop was blocked for {blocked_s:.1f} s in {blockage.where}",
            blocked_s=round(blocked_s, 1),
            **blockage.fields(),
        )

    def _stand_in(self) -> None:
        began = time.monotonic()
        try:
            if self._own_loop is None:
                self._own_loop = asyncio.new_event_loop()
            kept = self._own_loop.run_until_complete(self._renew())
        except (StoreError, TimeoutError) as error:
            self._kernel.watch.log("worker.renewal_failed", error=str(error) or type(error).__name__)
            self._over.wait(self._kernel.tuning.renew_s / 2)
            return
        self._renewed_at = began
        self._kernel.watch.log("worker.leases_kept", worker=self._worker_name, jobs=kept)

    async def _renew(self) -> int:
        tuning = self._kernel.tuning
        if self._spare is None:
            self._spare = self._kernel.store.spare()
        assert self._spare is not None, "a worker whose store has no spare has no such thread"
        patience_s = tuning.lease_s - LATE * tuning.renew_s  # what the leases last: to begin again gains nothing
        async with asyncio.timeout(patience_s), self._spare.transaction() as tx:
            until = self._kernel.now() + int(tuning.lease_s * 1_000)
            since = leases.since(self._kernel.now(), tuning.lease_s)
            await workers.hold(tx, self._worker_name, until)
            return await leases.renew_owned(tx, self._worker_name, since, until)

    def _close(self) -> None:
        spare, self._spare = self._spare, None
        own, self._own_loop = self._own_loop, None
        if own is not None:
            if spare is not None:
                own.run_until_complete(spare.close())
            own.close()


def attempt_in(frame: FrameType | None) -> Claimed | None:
    """The job whose attempt runs in this frame or in one of its callers."""
    while frame is not None:
        if frame.f_code is run_attempt.__code__:
            job: Claimed = frame.f_locals["taken"].job
            return job
        frame = frame.f_back
    return None
