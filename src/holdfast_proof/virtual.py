"""The side of the simulator's loop that asyncio sees: virtual time, owned steps, no sockets, no threads.

Everything scheduled belongs to the host in whose context it will run. `loop.SimLoop` decides what runs when.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import threading
from asyncio import events
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, NoReturn, TypeVar

from holdfast_proof.hosts import HOST, Host
from holdfast_proof.steps import LoopStep, SimFuture, SimTask, StepFailure

T = TypeVar("T")


class VirtualLoop(asyncio.BaseEventLoop):
    """Takes callbacks, timers, tasks and futures as any event loop does, and keeps them for their owner."""

    world: Host

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.ready: list[LoopStep] = []
        self.failures: list[StepFailure] = []
        self._timers: list[tuple[int, int, LoopStep]] = []
        self._serial = itertools.count(1)
        self._disposed = False
        self._thread = threading.get_ident()

    @property
    def current(self) -> Host:
        """The host whose step this is."""
        return HOST.get(self.world)

    def time(self) -> float:
        return self.now_ms / 1000

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return events._get_running_loop() is self

    def _check_open(self) -> None:
        if self._disposed:
            raise RuntimeError("The simulation is over.")

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> LoopStep:
        if context is None:
            context = copy_context()
        step = LoopStep(callback, args, context, context.get(HOST, self.world))
        if not self._disposed:
            self.ready.append(step)
        return step

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> LoopStep:
        if threading.get_ident() != self._thread:
            raise RuntimeError("Another thread called into the simulation, which has none.")
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> LoopStep:
        return self._call_at_ms(self.now_ms + _ceil_ms(delay), callback, args, context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> LoopStep:
        return self._call_at_ms(_ceil_ms(when), callback, args, context)

    def _call_at_ms(
        self, due_ms: int, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> LoopStep:
        if context is None:
            context = copy_context()
        step = LoopStep(callback, args, context, context.get(HOST, self.world))
        step.due_ms = due_ms
        if not self._disposed:
            heapq.heappush(self._timers, (due_ms, next(self._serial), step))
        return step

    def create_future(self) -> asyncio.Future[Any]:
        self._check_open()
        return SimFuture(next(self._serial), loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **_: Any,
    ) -> asyncio.Task[T]:
        if self._disposed:
            coro.close()
            self._check_open()
        host = self.current if context is None else context.get(HOST, self.world)
        serial = next(self._serial)
        if name is None:
            # asyncio's own default counts the tasks of the whole process, other simulations included.
            name = f"{getattr(coro, '__qualname__', 'task')}-{serial}"
        task = SimTask(serial, coro, loop=self, name=name, context=context)
        host.adopt(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run `func` inline, as a step of its own: the host may die before it, or before its answer."""
        future: asyncio.Future[T] = self.create_future()
        self.call_soon(_answer, future, func, args)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what asyncio would log, for the end of the run. The dead complain to nobody."""
        if self._disposed or self.current.dead:
            return
        task = context.get("future") or context.get("task")
        name = f" ({task.get_name()})" if isinstance(task, asyncio.Task) else ""
        self._fail(self.current, f"{context.get('message')}{name}", context.get("exception"))

    def _fail(self, host: Host, message: str, error: BaseException | None) -> None:
        self.failures.append(StepFailure(self.now_ms, host.label, message, error))

    def run_forever(self) -> NoReturn:
        raise NotImplementedError("Use SimLoop.run: a simulation needs an end.")

    def run_until_complete(self, future: object) -> NoReturn:
        raise NotImplementedError("Use SimLoop.run: a simulation needs an end.")

    async def _no_world(self, *args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError("The simulation has no sockets and no processes: use the seam above.")

    create_connection = create_server = create_datagram_endpoint = _no_world
    getaddrinfo = getnameinfo = subprocess_exec = subprocess_shell = _no_world


def _ceil_ms(seconds: float) -> int:
    # A thousandth of a millisecond is float noise, not a reason to fire one millisecond later.
    return math.ceil(seconds * 1000 - 0.001)


def _answer(future: asyncio.Future[T], func: Callable[..., T], args: tuple[Any, ...]) -> None:
    if future.cancelled():
        return
    try:
        future.set_result(func(*args))
    except Exception as error:
        future.set_exception(error)
