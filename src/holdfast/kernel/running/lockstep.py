"""Runs stages that block so that nothing else runs meanwhile: for tests and the simulator.

The handler has a thread, because its context's methods block; but the loop and the thread take turns and never run
at the same time. So one seed is one history, and virtual time stands still while a handler computes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from holdfast.kernel.running.aside import (
    Message,
    Raised,
    StageAddress,
    StageReturned,
    StageStopped,
    come_of,
    converse,
    facts_of,
)
from holdfast.kernel.running.sync_context import SyncContext
from holdfast.kernel.running.threads import ThreadPort

if TYPE_CHECKING:
    from holdfast.kernel.context import Context

JOIN_S = 5.0


class LockstepLink:
    """The loop's end. It stands still while the thread has the word."""

    def __init__(self) -> None:
        self._outbox: SimpleQueue[Message] = SimpleQueue()
        self.port = ThreadPort(self._outbox.put)

    async def receive(self) -> Message:
        return self._outbox.get()

    async def send(self, message: Message) -> None:
        self.port.put(message)


class Lockstep:
    """Stages in threads and in processes alike, one at a time, in this process."""

    def allow(self, threads: int) -> None:
        """There is never more than one that runs."""

    async def in_process(
        self,
        ctx: Context,
        where: StageAddress,
        method: Callable[..., Any],
        instance: object,
        arguments: tuple[Any, ...],
    ) -> Any:
        return await self._run(ctx, method, instance, arguments, in_process=True)

    async def in_thread(
        self, ctx: Context, method: Callable[..., Any], instance: object, arguments: tuple[Any, ...]
    ) -> Any:
        return await self._run(ctx, method, instance, arguments, in_process=False)

    async def _run(
        self,
        ctx: Context,
        method: Callable[..., Any],
        instance: object,
        arguments: tuple[Any, ...],
        *,
        in_process: bool,
    ) -> Any:
        link = LockstepLink()
        begin = copy_context().run
        context = SyncContext(facts_of(ctx, in_process=in_process), link.port, ctx.kernel.now, ctx)
        work = (lambda port: begin(method, instance, context, *arguments),)
        thread = Thread(target=link.port.work, args=work, name="holdfast stage", daemon=True)
        thread.start()
        last: StageReturned | Raised | None = None
        try:
            last = await converse(ctx, link)
        finally:
            if last is None:  # the attempt is over before its handler is
                link.port.put(Raised(StageStopped()))
            thread.join(JOIN_S)
        return come_of(last)

    async def close(self) -> None:
        """Every thread has ended with its stage."""
