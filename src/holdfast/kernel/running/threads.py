"""Threads for stages that block. A thread that does not stop when its attempt is over is left behind, and counted.

Nobody can end a thread from outside. When an attempt is over (its time, its lease, the worker's grace), `StageStopped`
is raised inside the handler at its next line of Python; a call that blocks in C first has to return. The attempt waits
for that a moment only. Threads are daemons: a process ends without them.
"""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import threading
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from holdfast.core.outcome import Snooze
from holdfast.errors import BadDeclaration
from holdfast.kernel.running.aside import (
    Ask,
    Message,
    Raised,
    Run,
    Speaking,
    StageReturned,
    StageStopped,
    come_of,
    converse,
    facts_of,
    interrupted,
)
from holdfast.kernel.running.sync_context import SyncContext

if TYPE_CHECKING:
    from holdfast.kernel.context import Context

STOP_WAIT_S = 0.5
"""How long an attempt that is over waits for its thread to notice."""
FULL_SNOOZE_S = 1.0
THREADS_MAX = 50

Work = Callable[["ThreadPort"], Any]


RUNS = frozenset({"call", "effect", "paid_call"})
"""What runs functions of the handler's: by one thread at a time, so that each is told what came of its own."""


class ThreadPort:
    """The handler's end of a conversation. `post` brings a message to the other end."""

    def __init__(self, post: Callable[[Message], None]) -> None:
        self._post = post
        self._inbox: SimpleQueue[Message] = SimpleQueue()
        self._speaking = Speaking()
        self._running = threading.RLock()

    def put(self, message: Message) -> None:
        self._inbox.put(message)

    def ask(self, message: Ask) -> Any:
        """Ask, run whatever has to be run here meanwhile, and return the answer."""
        with self._running if message.what in RUNS else nullcontext():
            reply = self._exchange(message)
            while isinstance(reply, Run):
                reply = self._exchange(_run(reply))
        assert isinstance(reply, StageReturned | Raised)
        return come_of(reply)

    def _exchange(self, message: Message) -> Message:
        with self._speaking:
            self._post(message)
            reply = self._inbox.get()
            if isinstance(reply, Raised) and isinstance(reply.error, StageStopped):
                self._inbox.put(reply)  # for the next thread of the handler's that asks
            return reply

    def work(self, function: Callable[[ThreadPort], Any]) -> None:
        """Run the handler to its end and say what came of it."""
        try:
            ended: Message = StageReturned(function(self))
        except KeyboardInterrupt as error:
            ended = interrupted(error)
        except BaseException as error:
            ended = Raised(error)
        with self._running:
            self._speaking.end()
        self._post(ended)


def _run(asked: Run) -> StageReturned | Raised:
    try:
        value = asked.function(*asked.args)
        if inspect.iscoroutine(value):
            value.close()
            name = getattr(asked.function, "__name__", "what was given")
            raise BadDeclaration(
                f"'{name}' gave a coroutine to the ctx of a plain def stage, where nobody awaits it: give a plain "
                "function, or make the stage an async def."
            )
        return StageReturned(value)
    except KeyboardInterrupt as error:
        return interrupted(error)
    except BaseException as error:  # the call that runs it hears of it first, and then the handler
        return Raised(error)


class LoopLink:
    """The loop's end of a conversation with a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._arrived: deque[Message] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self.port = ThreadPort(self._post)

    def _post(self, message: Message) -> None:
        """From the thread. Nobody is there any more once the loop is closed."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._arrive, message)

    def _arrive(self, message: Message) -> None:
        self._arrived.append(message)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def receive(self) -> Message:
        while not self._arrived:
            self._waiting = self._loop.create_future()
            await self._waiting
        return self._arrived.popleft()

    async def send(self, message: Message) -> None:
        self.port.put(message)


class _Thread(threading.Thread):
    """A thread that runs one handler after the other until it is told to end. One that was interrupted ends: the
    interruption may come late, and would hit the next handler."""

    def __init__(self, pool: ThreadPool) -> None:
        super().__init__(name="holdfast stage", daemon=True)
        self._pool = pool
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[tuple[Work, ThreadPort] | None] = SimpleQueue()
        self._current: ThreadPort | None = None
        self._interrupted = False

    def give(self, work: Work, port: ThreadPort) -> None:
        self._current = port
        self._jobs.put((work, port))

    def end(self) -> None:
        self._jobs.put(None)

    def interrupt(self, port: ThreadPort) -> None:
        """Raise `StageStopped` in the handler of this port, if it is still at it."""
        port.put(Raised(StageStopped()))
        with self._lock:
            if self._current is port and self.ident is not None:
                self._interrupted = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(StageStopped))

    def run(self) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                work, port = job
                del job
                port.work(work)
                with self._lock:
                    self._current = None
                    if self._interrupted:
                        return
                self._pool.rest(self)
        except StageStopped:  # it came after the handler had ended
            return
        finally:
            self._pool.gone(self)


class ThreadPool:
    """Starts threads as they are needed, up to a bound, and keeps those that are at rest for the next."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Thread] = []
        self._alive: set[_Thread] = set()
        self.limit = THREADS_MAX

    @property
    def threads(self) -> int:
        return len(self._alive)

    def begin(self, work: Work, port: ThreadPort) -> _Thread | None:
        """Run it in a thread; None if every thread that there may be is busy."""
        with self._lock:
            thread = self._idle.pop() if self._idle else None
            if thread is None:
                if len(self._alive) >= self.limit:
                    return None
                thread = _Thread(self)
                self._alive.add(thread)
                thread.start()
        thread.give(work, port)
        return thread

    def rest(self, thread: _Thread) -> None:
        with self._lock:
            self._idle.append(thread)

    def gone(self, thread: _Thread) -> None:
        with self._lock:
            self._alive.discard(thread)
            if thread in self._idle:
                self._idle.remove(thread)

    def close(self) -> None:
        """End the threads that are at rest."""
        with self._lock:
            idle, self._idle = self._idle, []
        for thread in idle:
            thread.end()


async def run_in_pool(
    pool: ThreadPool, ctx: Context, method: Callable[..., Any], instance: object, arguments: tuple[Any, ...]
) -> Any:
    """Run a handler in a thread. What it returns, or raises."""
    link = LoopLink()
    begin = copy_context().run
    facts, now = facts_of(ctx, in_process=False), ctx.kernel.now

    def work(port: ThreadPort) -> Any:
        return begin(method, instance, SyncContext(facts, port, now, ctx), *arguments)

    thread = pool.begin(work, link.port)
    if thread is None:
        why = f"all {pool.limit} threads of this worker are busy; some belong to stages that did not stop"
        return Snooze(FULL_SNOOZE_S, why)
    try:
        return come_of(await converse(ctx, link))
    except BaseException:
        if not await _stopped(thread, link):
            ctx.kernel.watch.log("thread.left_behind", job_id=ctx.job_id, kind=ctx.kind.name, stage=ctx.stage)
        raise


async def _stopped(thread: _Thread, link: LoopLink) -> bool:
    """Whether the handler has ended, a moment after it was asked to."""
    if thread._current is not link.port:
        return True
    thread.interrupt(link.port)
    try:
        async with asyncio.timeout(STOP_WAIT_S):
            while not isinstance(await link.receive(), StageReturned | Raised):
                pass
    except TimeoutError:
        return False
    return True
