"""The simulated machines of `SimLoop`: who a step belongs to, how it dies, how it stalls.

    alive --kill--> dead                  every task stops forever at its present await
    alive --stall--> stalled --> alive    its callbacks and timers run late, as after SIGSTOP and SIGCONT

A task belongs to the host whose context it was created in, and so do its children. `SimLoop.world` is the
host of everything that is no process of ours: the test, the broker, the providers. It cannot be killed.

A kill is not a cancellation. Nothing of the host runs again: no `finally`, no `except`, no callback. The dead
tasks stay referenced in the loop's graveyard, because Python closes a coroutine it collects, and that would
run its `finally` in the middle of somebody else's step.

Two limits. A host that is killed synchronously inside its own step (`host.kill()`) runs on to its next await;
`await loop.die()` has no such rest, so failpoints are awaited. And an asyncio primitive (Lock, Queue) must
not be shared between hosts: a dead waiter would swallow a wake-up, which no real machine can do to another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast_proof.steps import LoopStep

if TYPE_CHECKING:
    from holdfast_proof.loop import SimLoop

T = TypeVar("T")
HOST: ContextVar[Host] = ContextVar("holdfast_sim_host")
# Finished tasks are dropped from a host's list whenever it has doubled, so that creating a task stays O(1).
TASKS_KEPT_MIN = 64


class Host:
    """One process of the simulation. Made by `SimLoop.host`; a name that died is reborn as a new `Host`."""

    def __init__(self, loop: SimLoop, name: str, incarnation: int, context: Context, skew_ms: int) -> None:
        self.loop = loop
        self.name = name
        self.incarnation = incarnation
        self.label = f"{name}#{incarnation}"
        self.skew_ms = skew_ms
        self.dead = False
        self.stalled_until_ms = 0
        self.deferred: list[LoopStep] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.context = context
        self._mourners: list[Callable[[Host], object]] = []
        self._tasks_until_prune = TASKS_KEPT_MIN
        context.run(HOST.set, self)

    def __repr__(self) -> str:
        return f"<Host {self.label}{' dead' if self.dead else ''}>"

    @property
    def wall_ms(self) -> int:
        """What this host's clock shows: the simulation's time, plus its skew."""
        return self.loop.epoch_ms + self.loop.now_ms + self.skew_ms

    def spawn(self, coro: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Run `coro` as a task of this host, whichever host asks."""
        return self.loop.create_task(coro, name=name, context=self.context.copy())

    def after_ms(self, delay_ms: int, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """Call back in this host, whatever becomes of the host that asks."""
        return self.loop.call_later(delay_ms / 1000, callback, *args, context=self.context)

    def at_death(self, callback: Callable[[Host], object]) -> None:
        """Tell the world that this host died, at once and synchronously. Not for code of the host itself."""
        self._mourners.append(callback)

    def kill(self) -> None:
        """Stop every task forever at its present await, as SIGKILL does. Idempotent."""
        if self.dead:
            return
        assert self is not self.loop.world, "The world cannot be killed."
        self.dead = True
        self.loop.kills += 1
        self.loop.graveyard += [*self.tasks, *self.deferred]
        self.tasks.clear()
        self.deferred.clear()
        for tell in self._mourners:
            tell(self)

    def stall(self, stall_ms: int) -> None:
        """Run nothing until now + `stall_ms`. A longer stall under way wins."""
        until_ms = self.loop.now_ms + stall_ms
        if self.dead or until_ms <= max(self.stalled_until_ms, self.loop.now_ms):
            return
        assert self is not self.loop.world, "The world cannot be stalled."
        self.stalled_until_ms = until_ms
        self.loop.stalls += 1
        self.loop.world.after_ms(stall_ms, self._resume)

    def _resume(self) -> None:
        if self.dead or self.stalled_until_ms > self.loop.now_ms:
            return
        self.loop.ready += self.deferred
        self.deferred.clear()

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Keep `task` referenced until it is done."""
        if self.dead:
            self.loop.graveyard.append(task)
            return
        self.tasks.append(task)
        self._tasks_until_prune -= 1
        if self._tasks_until_prune < 0:
            self.prune()

    def prune(self) -> None:
        """Let go of finished tasks. One whose failure nobody looked at reports itself as it goes."""
        self.tasks = [task for task in self.tasks if not task.done()]
        self._tasks_until_prune = max(TASKS_KEPT_MIN, len(self.tasks))


def waits_of(host: Host) -> list[str]:
    """One line per unfinished task: its name, and where its innermost await stands."""
    lines = [f"  {task.get_name()}: {_innermost_await(task)}" for task in host.tasks if not task.done()]
    if host.dead:
        return [f"{host.label}: dead"]
    if host.stalled_until_ms > host.loop.now_ms:
        return [f"{host.label}: stalled until {host.stalled_until_ms} ms", *lines]
    return [f"{host.label}:", *lines] if lines else []


def _innermost_await(task: asyncio.Task[Any]) -> str:
    place, awaited = "not started", task.get_coro()
    while awaited is not None:
        frame = _attribute(awaited, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None:
            file = frame.f_code.co_filename.rpartition("/")[2]
            place = f"{frame.f_code.co_qualname} ({file}:{frame.f_lineno})"
        awaited = _attribute(awaited, "cr_await", "gi_yieldfrom", "ag_await")
    waiter = getattr(task, "_fut_waiter", None)
    if isinstance(waiter, asyncio.Task):
        return f"{place}, waits for task {waiter.get_name()}"
    return place if waiter is None else f"{place}, waits for a {type(waiter).__name__}"


def _attribute(thing: object, *names: str) -> Any:
    return next((getattr(thing, name) for name in names if hasattr(thing, name)), None)
