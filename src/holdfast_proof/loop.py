"""The event loop of the simulator: virtual time, seeded order, machines that die.

Time stands still while anything is ready and jumps to the next timer when nothing is. Which ready step runs
next is drawn from a seeded generator: one seed is one history, in every process, under every PYTHONHASHSEED.
There are no sockets and no threads: what would open one raises NotImplementedError.

    with SimLoop(seed=7) as loop:
        worker = loop.host("worker-1")
        loop.on_step = injector                # may kill or stall the host before any of its steps
        loop.run(scenario(loop), until_ms=600_000)
        print(loop.trace_hash)

Read the history and close the database before the loop is closed: closing ends all unfinished coroutines (see
`steps.bury`). The garbage collector is off during `run`, since what it finalises, and when, follows no seed.
Sets of your own objects are still ordered by address: never let their order decide anything.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import random
import sys
import threading
from asyncio import events
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, NoReturn, TypeVar

from holdfast_proof.hosts import Host, waits_of
from holdfast_proof.steps import Deadlock, LoopStep, LoopTrace, OutOfSteps, OutOfTime, StepFailed, bury, silence
from holdfast_proof.virtual import VirtualLoop

T = TypeVar("T")
STEPS_MAX = 20_000_000
EPOCH_MS = 1_767_225_600_000  # 2026-01-01T00:00Z, so that simulated wall clocks show plausible dates


class SimLoop(VirtualLoop):
    """A deterministic event loop over named hosts. One `run` at a time; closed by `close` or `with`."""

    def __init__(
        self, seed: int | str, *, epoch_ms: int = EPOCH_MS, hashing: bool = True, keeping: bool = False
    ) -> None:
        super().__init__()
        self.seed = seed
        self.epoch_ms = epoch_ms
        self.steps = self.kills = self.stalls = 0
        self.on_step: Callable[[Host], object] | None = None
        self.graveyard: list[object] = []
        self.trace = LoopTrace(hashing=hashing, keeping=keeping)
        self._order = self.stream("order")
        self._base_context = copy_context()
        self._all_hosts: list[Host] = []
        self._living: dict[str, Host] = {}
        self.world = self.host("world")

    # Hosts

    def host(self, name: str, *, skew_ms: int = 0) -> Host:
        """The living host of this name, or a new one if there is none or it died."""
        host = self._living.get(name)
        if host is not None and not host.dead:
            return host
        incarnation = host.incarnation + 1 if host else 1
        host = Host(self, name, incarnation, self._base_context.copy(), skew_ms)
        self._living[name] = host
        self._all_hosts.append(host)
        return host

    @property
    def hosts(self) -> list[Host]:
        """The living hosts other than the world, in order of first birth."""
        return [host for host in self._living.values() if not host.dead and host is not self.world]

    async def die(self) -> NoReturn:
        """Kill the current host, here: the caller never continues and none of its `finally` blocks run."""
        self.current.kill()
        await self._rest_in_peace()

    async def doze(self, stall_ms: int) -> None:
        """Stall the current host, here."""
        self.current.stall(stall_ms)
        await asyncio.sleep(0)

    async def gate(self) -> None:
        """Let only the living through. Every seam from a host into the world begins with this."""
        self._check_open()
        if self.current.dead:
            await self._rest_in_peace()

    async def _rest_in_peace(self) -> NoReturn:
        await self.create_future()
        raise AssertionError("A dead host was resumed.")

    def stream(self, name: str) -> random.Random:
        """A generator of its own for `name`: drawing more in one place changes nothing in another."""
        return random.Random(f"{self.seed}/{name}")

    # Running

    def run(self, main: Coroutine[Any, Any, T], *, until_ms: int, steps_max: int = STEPS_MAX) -> T:
        """Run `main` in the world until it is done, and return its result.

        Raises what `main` raises; Deadlock, OutOfTime or OutOfSteps with a list of what every host waits for;
        and StepFailed if any callback raised or any task failed unseen on the way.
        """
        if self._disposed or events._get_running_loop() is not None:
            main.close()
            raise RuntimeError("The simulation is over, or an event loop is running already.")
        try:
            with self._running():
                task = self.world.spawn(main, name="main")
                self._drive(task, until_ms, self.steps + steps_max)
                for host in self._all_hosts:
                    host.prune()
            result = task.result()
        except Exception as error:
            for failure in self.failures:
                error.add_note(f"Before that: {failure}")
            raise
        if self.failures:
            raise StepFailed(self.failures) from self.failures[0].error
        return result

    def _drive(self, main: asyncio.Task[Any], until_ms: int, steps_max: int) -> None:
        ready, draw, done, world = self.ready, self._order.random, main.done, self.world
        traced, note = self.trace.on, self.trace.append
        while not done():
            count = len(ready)
            if count > 1:
                # The last step takes the place of the drawn one: removal in constant time.
                index = int(draw() * count)
                step, ready[index] = ready[index], ready[-1]
                ready.pop()
            elif count:
                step = ready.pop()
            else:
                self._jump(until_ms)
                continue
            if step.off:
                continue
            host = step.host
            if host is not world and (
                host.dead or self.on_step is not None or host.stalled_until_ms > self.now_ms
            ) and not self._may_step(host, step):  # fmt: skip
                continue
            self.steps += 1
            if traced:
                note(f"{self.now_ms} {host.label} {step.label}")
            if self.steps >= steps_max:
                raise OutOfSteps(self._report(f"{self.steps} steps and not done"))
            try:
                step.context.run(step.callback, *step.args)  # type: ignore[arg-type]
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                self._fail(host, f"a step of {step.label} raised", error)

    def _may_step(self, host: Host, step: LoopStep) -> bool:
        if not host.dead and self.on_step is not None and host.stalled_until_ms <= self.now_ms:
            self.on_step(host)
        if host.dead:
            self.graveyard.append(step)  # it may hold the last reference to something with a `finally`
            return False
        if host.stalled_until_ms > self.now_ms:
            host.deferred.append(step)
            return False
        return True

    def _jump(self, until_ms: int) -> None:
        timers = self._timers
        while timers and (timers[0][2].off or timers[0][2].host.dead):
            step = heapq.heappop(timers)[2]
            if step.host.dead:
                self.graveyard.append(step)
        if not timers:
            raise Deadlock(self._report("nothing is ready and no timer is set"))
        due_ms = timers[0][0]
        if due_ms > until_ms:
            self.now_ms = max(self.now_ms, until_ms)
            raise OutOfTime(self._report("out of time"))
        self.now_ms = max(self.now_ms, due_ms)
        while timers and timers[0][0] <= self.now_ms:
            self.ready.append(heapq.heappop(timers)[2])

    def _report(self, headline: str) -> str:
        waits = [line for host in self._all_hosts for line in waits_of(host)]
        return "\n".join([f"At {self.now_ms} ms, seed {self.seed}: {headline}.", *waits])

    @contextmanager
    def _running(self) -> Iterator[None]:
        collected, hooks = gc.isenabled(), sys.get_asyncgen_hooks()
        self._thread = threading.get_ident()
        gc.disable()
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._finalize)
        events._set_running_loop(self)
        try:
            yield
        finally:
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)
            if collected:
                gc.enable()

    def _finalize(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self._disposed and not self.current.dead:
            self.call_soon(self.create_task, generator.aclose())

    # History

    @property
    def trace_hash(self) -> str:
        """The hash of every step so far: its time, its host, its task or callback."""
        return self.trace.hexdigest()

    def record(self, line: str) -> None:
        """Add an event of the world to the trace, and so to its hash."""
        if self.trace.on:
            self.trace.append(f"{self.now_ms} {line}")

    # The end

    def __enter__(self) -> SimLoop:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End everything unfinished, unheard. Idempotent; afterwards the loop takes nothing more."""
        if self._disposed:
            return
        assert not self.is_running()
        self._disposed = True
        buried = [*self.graveyard, *(task for host in self._all_hosts for task in host.tasks)]
        with silence():
            for task in buried:
                if isinstance(task, asyncio.Task):
                    bury(task)
            super().close()
            self.ready.clear()
            self._timers.clear()
            self.graveyard.clear()
            for host in self._all_hosts:
                host.tasks.clear()
                host.deferred.clear()
            del buried
