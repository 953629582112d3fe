"""The small parts of `SimLoop`: steps, tasks and futures without addresses, the trace, what can go wrong.

Determinism rests on two things here. Tasks and futures are hashed by serial number, because asyncio keeps
them in sets and cancels in their order, and an address differs from process to process. And every name that
enters the trace is made of serial numbers and names in the code.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sys
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from holdfast_proof.hosts import Host

T = TypeVar("T")
TRACE_LINES_PER_HASH = 1024
# A `finally` that awaits answers a close with a RuntimeError and waits again; after this many it is let be.
CLOSES_MAX = 32


class SimError(Exception):
    """The simulation itself could not go on."""


class Deadlock(SimError):
    """Nothing is ready and no timer is set, and the main coroutine is not done."""


class OutOfTime(SimError):
    """The main coroutine was not done at `until_ms`."""


class OutOfSteps(SimError):
    """The main coroutine was not done after `steps_max` steps: something spins without sleeping."""


class StepFailed(SimError):
    """A callback raised, or a task failed and nobody looked. `failures` has all of them."""

    def __init__(self, failures: list[StepFailure]) -> None:
        super().__init__("\n".join(str(failure) for failure in failures))
        self.failures = failures


@dataclass(frozen=True, slots=True)
class StepFailure:
    """One exception that no code of the simulation received."""

    at_ms: int
    host: str
    message: str
    error: BaseException | None

    def __str__(self) -> str:
        return f"{self.at_ms} ms, {self.host}: {self.message}: {self.error!r}"


class LoopStep(asyncio.TimerHandle):
    """One callback that waits for its turn, and the host it belongs to.

    Skips its parents' constructors, which prepare debugging aids that nothing here uses.
    """

    __slots__ = ("args", "callback", "context", "due_ms", "host", "off")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context, host: Host) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context
        self.host = host
        self.off = False
        self.due_ms = 0

    def cancel(self) -> None:
        self.off = True
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.off

    def when(self) -> float:
        return self.due_ms / 1000

    def __repr__(self) -> str:
        return f"<Step of {self.host.label}: {self.label}>"

    @property
    def label(self) -> str:
        """The task this step drives, or the function it calls. The same in every process."""
        owner = getattr(self.callback, "__self__", None)
        if isinstance(owner, asyncio.Task):
            return owner.get_name()
        return getattr(self.callback, "__qualname__", None) or type(self.callback).__name__


class SimTask(asyncio.Task[T]):
    """A task hashed by its serial number."""

    __slots__ = ("serial",)

    def __init__(
        self,
        serial: int,
        coro: Coroutine[Any, Any, T],
        *,
        loop: asyncio.AbstractEventLoop,
        name: str,
        context: Context | None,
    ) -> None:
        self.serial = serial  # first: the parent's constructor already puts the task into a set
        super().__init__(coro, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.serial


class SimFuture(asyncio.Future[T]):
    """A future hashed by its serial number."""

    __slots__ = ("serial",)

    def __init__(self, serial: int, *, loop: asyncio.AbstractEventLoop) -> None:
        self.serial = serial
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.serial


class LoopTrace:
    """The history of a run: a rolling hash of all lines, and the lines themselves if asked for."""

    def __init__(self, *, hashing: bool, keeping: bool) -> None:
        self.on = hashing or keeping
        self.lines: list[str] | None = [] if keeping else None
        self._hash = hashlib.blake2b(digest_size=16)
        self._unhashed: list[str] = []

    def append(self, line: str) -> None:
        self._unhashed.append(line)
        if self.lines is not None:
            self.lines.append(line)
        if len(self._unhashed) >= TRACE_LINES_PER_HASH:
            self.hexdigest()

    def hexdigest(self) -> str:
        if self._unhashed:
            self._hash.update(("\n".join(self._unhashed) + "\n").encode())
            self._unhashed.clear()
        return self._hash.hexdigest()


def bury(task: asyncio.Task[Any]) -> None:
    """End a task that may never run again, without the loop and without a word.

    Closing is the only way Python offers to free a suspended coroutine, and it runs `finally` blocks. So it
    happens after the simulation: the loop is closed, no loop is running (every asyncio call in such a block
    raises), the seams refuse, and whatever the block raises is dropped here.
    """
    if task.done():
        task._log_traceback = False
        return
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coro = task.get_coro()
    for _ in range(CLOSES_MAX):
        try:
            if coro is not None:
                coro.close()
            return
        except (Exception, asyncio.CancelledError):  # its own clean-up, cut short: a dead process does none
            continue


@contextmanager
def silence() -> Iterator[None]:
    """No logging, no warnings, no complaints from finalisers: for burials only."""
    disabled, hook = logging.root.manager.disable, sys.unraisablehook
    logging.disable(logging.CRITICAL)
    sys.unraisablehook = lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.unraisablehook = hook
        logging.disable(disabled)
