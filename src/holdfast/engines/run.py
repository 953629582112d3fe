"""Runs everything one process does for a kernel: workers, relay, consumers, and the steps that keep promises.

Any number of processes may run any of it: every step claims or locks what it works on.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from holdfast.engines.presence import expire_the_dead
from holdfast.engines.worker import Worker
from holdfast.errors import StoreUnavailable, TransportError
from holdfast.kernel.app import Consumer
from holdfast.kernel.hold import hold_once
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.loop import pause, repeat
from holdfast.kernel.prune import prune_once
from holdfast.kernel.reap import reap_once, sweep_once
from holdfast.kernel.reconcile import reconcile_once
from holdfast.kernel.relay import relay
from holdfast.kernel.schedule import announce_schedules, schedule_once
from holdfast.kernel.schema import bring_forward
from holdfast.kernel.trace import HEADER, span
from holdfast.transports.seam import Delivery, Lookable

CONNECT_TRIES = 10
CONNECT_WAIT_S = 1.0
SCHEDULE_S = 1.0


@dataclass(frozen=True, slots=True)
class Duties:
    """What this process does. A web process does none of it; `holdfast up` does all."""

    work: bool = True
    relay: bool = True
    consume: bool = True
    keep: bool = True
    concurrency: int = 50
    grace_s: float = 20.0


async def run(kernel: Kernel, duties: Duties, stop: asyncio.Event) -> None:
    """Do the duties until `stop`. The store is left open: the caller closes it after the last write."""
    async with asyncio.TaskGroup() as group:
        if kernel.transport is not None:
            await _declare(kernel)
        if duties.consume and kernel.transport is not None:
            for consumer in _consumers(kernel):
                group.create_task(_consume(kernel, consumer, stop))
        if duties.relay and kernel.transport is not None:
            tuning = kernel.tuning
            group.create_task(
                repeat(kernel, "relay", relay, tuning.relay_poll_s, stop, "outbox", tuning.relay_backoff_cap_s)
            )
        if duties.keep:
            _keep(kernel, group, stop)
        if duties.work and kernel.registry.kinds:
            worker = Worker(kernel, concurrency=duties.concurrency, grace_s=duties.grace_s)
            group.create_task(worker.run(stop))


def _keep(kernel: Kernel, group: asyncio.TaskGroup, stop: asyncio.Event) -> None:
    """The steps that keep promises whether or not anybody works: leases, deadlines, breakers, doubts, retention."""
    tuning = kernel.tuning
    group.create_task(repeat(kernel, "reap", reap_once, tuning.reap_s, stop))
    group.create_task(repeat(kernel, "sweep", sweep_once, tuning.sweep_s, stop))
    group.create_task(repeat(kernel, "breakers", _steady(hold_once), tuning.breaker_s, stop, "breakers"))
    group.create_task(repeat(kernel, "reconcile", _steady(reconcile_once), tuning.reconcile_s, stop))
    group.create_task(repeat(kernel, "prune", prune_once, tuning.prune_s, stop))
    if any(app.schedules for app in kernel.registry.apps):
        group.create_task(repeat(kernel, "schedule", schedule_once, SCHEDULE_S, stop))
    for app in kernel.registry.apps:
        for step in app.steps:
            group.create_task(repeat(kernel, step.name, step.run, step.every_s, stop, step.channel))


def _steady(step: Callable[[Kernel], Awaitable[int]]) -> Callable[[Kernel], Awaitable[int]]:
    """A step whose work shows only later: it keeps its rhythm instead of running again at once."""

    async def calm(kernel: Kernel) -> int:
        await step(kernel)
        return 0

    return calm


def _consumers(kernel: Kernel) -> list[Consumer]:
    """What this process consumes. A sink is left to people where the transport lets them look into it."""
    is_kept = isinstance(kernel.transport, Lookable)
    declared = [consumer for app in kernel.registry.apps for consumer in app.consumers]
    return [consumer for consumer in declared if not (is_kept and consumer.queue.sink)]


async def _declare(kernel: Kernel) -> None:
    assert kernel.transport is not None
    queues = [queue for app in kernel.registry.apps for queue in app.queues]
    while queues:
        try:
            await kernel.transport.declare(queues)
            return
        except TransportError as error:
            kernel.watch.log("transport.unreachable", error=str(error))
            await asyncio.sleep(CONNECT_WAIT_S)


async def _handle(kernel: Kernel, consumer: Consumer, delivery: Delivery) -> None:
    with span(f"consume {delivery.queue}", delivery.headers.get(HEADER)):
        await consumer.handle(kernel, delivery)


async def _consume(kernel: Kernel, consumer: Consumer, stop: asyncio.Event) -> None:
    assert kernel.transport is not None
    work = asyncio.ensure_future(
        kernel.transport.consume(consumer.queue.name, partial(_handle, kernel, consumer), prefetch=consumer.prefetch)
    )
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([work, stopping], return_when=asyncio.FIRST_COMPLETED)
        if work.done() and not stop.is_set():
            work.result()
    finally:
        for task in (work, stopping):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def prepare(kernel: Kernel) -> list[str]:
    """Wait for the database, with a message, bring its schema forward if this process may, and take back what this
    machine's dead processes held. Gives up with `StoreUnavailable`; `SchemaMismatch` says what must be done first."""
    for attempt in range(1, CONNECT_TRIES + 1):
        try:
            applied = await bring_forward(kernel)
            await announce_schedules(kernel)
            await expire_the_dead(kernel)
            return applied
        except StoreUnavailable as error:
            kernel.watch.log("store.unreachable", error=str(error), attempt=attempt, of=CONNECT_TRIES)
            if attempt == CONNECT_TRIES:
                raise
            await pause(asyncio.Event(), CONNECT_WAIT_S)
    raise AssertionError("unreachable")


def stop_on_signals(stop: asyncio.Event) -> None:
    """The first SIGTERM or SIGINT asks to stop; the second ends at once (leases expire, nothing is lost)."""
    loop = asyncio.get_running_loop()

    def asked(number: signal.Signals) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked, number)
