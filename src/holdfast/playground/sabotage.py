"""Faults at a person's command, in the process that `holdfast up` runs: a provider that is down, slow, busy or silent
after it acted, and workers that die in the middle of their work.

A fault stands between the kernel and the provider (`kernel.call_through`): breaker, retries, ledger and leases meet it
as they meet the world. Nothing of it is stored: a restart ends every fault.

Why so: docs/decisions/0037-broken-on-purpose.md
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from holdfast.core.failure import Category
from holdfast.core.provider import Probe, Provider
from holdfast.engines.killing import kill_worker, successor_of
from holdfast.engines.worker import Worker
from holdfast.errors import CallError, NotFound
from holdfast.kernel.kernel import CallThrough
from holdfast.playground.book import Book
from holdfast.system import OpenSystem

SLOW_S = 5.0
BUSY_S = 10.0
RESTART_S = 2.0
"""How long after its death a worker is started again, as a supervisor would."""


Alive = tuple[Worker, asyncio.Task[None]]


class Fault(StrEnum):
    """What is wrong with a provider; `none`: it works."""

    NONE = "none"
    DOWN = "down"
    SLOW = "slow"
    BUSY = "busy"
    LOST = "lost"


@dataclass(slots=True)
class Sabotage:
    """The faults of one process, by system and provider, and the workers that may be killed."""

    book: Book
    own_books: frozenset[str] = frozenset()
    """Systems whose providers write into the book themselves."""
    faults: dict[tuple[str, str], Fault] = field(default_factory=dict)
    _workers: dict[str, list[Alive]] = field(default_factory=dict)
    killed: dict[str, int] = field(default_factory=dict)

    def attach(self, systems: Sequence[OpenSystem]) -> None:
        """Stand between these systems and their providers."""
        for each in systems:
            each.kernel.call_through = self._reach(each.name)
            declared = each.kernel.registry.providers
            for name, provider in list(declared.items()):
                if provider.probe is not None:
                    declared[name] = replace(provider, probe=self._probe(each.name, name, provider.probe))

    def switch(self, systems: Sequence[OpenSystem], system: str, provider: str, fault: Fault) -> None:
        """Let a provider have this fault from now on. Raises `NotFound`."""
        if (system, provider) not in {(each.name, name) for each in systems for name in each.kernel.registry.providers}:
            raise NotFound(f"No system '{system}' with a provider '{provider}' runs here.")
        self.faults[system, provider] = fault

    def kill(self, system: str) -> list[str]:
        """Kill the workers of a system: no drain, nothing given back, not a word to the database. Their jobs come back
        when their leases end. Returns their names. Raises `NotFound`."""
        running = self._workers.pop(system, [])
        if not running:
            raise NotFound(f"No worker of '{system}' runs in this process at the moment.")
        for worker, task in running:
            kill_worker(worker, task)
        self.killed[system] = self.killed.get(system, 0) + len(running)
        return [worker.name for worker, _ in running]

    def workers_of(self, system: str) -> int:
        return len(self._workers.get(system, ()))

    async def run_worker(self, system: str, worker: Worker, stop: asyncio.Event) -> None:
        """Run a worker until `stop`; in the place of one that is killed, a new one starts after a while."""
        while True:
            alive = self._workers.setdefault(system, [])
            running = asyncio.create_task(worker.run(stop))
            alive.append((worker, running))
            try:
                await asyncio.wait([running])
            finally:
                running.cancel()
                with suppress(ValueError):  # who was killed is not there any more
                    alive.remove((worker, running))
            if not running.cancelled():
                running.result()
                return
            await _wait(stop, RESTART_S)
            if stop.is_set():
                return
            worker = successor_of(worker)

    def _reach(self, system: str) -> CallThrough:
        async def reach(provider: Provider, run: Callable[[], Awaitable[Any]], effect: str | None) -> Any:
            return await self._call(system, provider, run, effect)

        return reach

    async def _call(
        self, system: str, provider: Provider, run: Callable[[], Awaitable[Any]], effect: str | None
    ) -> Any:
        fault = self.faults.get((system, provider.name), Fault.NONE)
        if fault is Fault.DOWN:
            raise _unavailable(provider)
        if fault is Fault.BUSY:
            raise _too_many(provider)
        if fault is Fault.SLOW:
            await asyncio.sleep(SLOW_S)
        answer = await run()
        if effect is not None and isinstance(answer, str) and system not in self.own_books:
            await asyncio.to_thread(self.book.deliver, f"{system}/{effect}", answer)
        if fault is Fault.LOST:
            raise _lost(provider)
        return answer

    def _probe(self, system: str, name: str, probe: Probe) -> Probe:
        async def look() -> bool:
            is_down = self.faults.get((system, name)) in (Fault.DOWN, Fault.BUSY)
            return not is_down and await probe()

        return look


def _unavailable(provider: Provider) -> CallError:
    message = f"'{provider.name}' answers 503: it was switched off on the front page."
    return CallError.of(Category.UPSTREAM, "UPSTREAM_UNAVAILABLE", message, faults=True, status=503)


def _too_many(provider: Provider) -> CallError:
    message = f"'{provider.name}' answers 429: it was switched to busy on the front page."
    wait_ms = int(BUSY_S * 1_000)
    return CallError.of(Category.RATE_LIMIT, "RATE_LIMITED", message, retry_after_ms=wait_ms, status=429)


def _lost(provider: Provider) -> CallError:
    message = f"'{provider.name}' did its work and its answer was lost, as was asked for on the front page."
    return CallError.of(Category.NETWORK, "NETWORK_TIMEOUT", message, ambiguous=True, faults=True)


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
