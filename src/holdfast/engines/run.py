"""Runs everything one process does for a kernel: workers, relay, consumers, and the steps that keep promises.

Any number of processes may run any of it: every step claims or locks what it works on. The sweeps are done by one of
them for all (`keeper`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import holdfast
from holdfast.engines.keeper import Keeper, Step
from holdfast.engines.presence import expire_dead_in, expire_the_dead
from holdfast.engines.worker import Worker
from holdfast.errors import StoreReadOnly, StoreStarting, StoreUnavailable, TransportError
from holdfast.kernel.app import Consumer
from holdfast.kernel.compose.wake import wake_once
from holdfast.kernel.hold import hold_once
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.ledger.reconcile import reconcile_once
from holdfast.kernel.ledger.verify import checkable, verify_once
from holdfast.kernel.loop import AWAITED, RUNNING, Every, pause, repeat, unless_stopped
from holdfast.kernel.observe.trace import HEADER, span
from holdfast.kernel.reap import reap_once, sweep_once
from holdfast.kernel.record import write_late
from holdfast.kernel.relay import relay
from holdfast.kernel.upkeep.prune import prune_once
from holdfast.kernel.upkeep.relocate import relocate_once
from holdfast.kernel.upkeep.schedule import CHANNEL as SCHEDULES
from holdfast.kernel.upkeep.schedule import announce_schedules, schedule_once, until_tick_s
from holdfast.kernel.upkeep.schema import bring_forward, check_schema
from holdfast.operator.incident_news import IncidentApp
from holdfast.transports.seam import Delivery, Lookable, Transport

CONNECT_TRIES = 10
STARTING_TRIES = 600
"""A server that recovers from a crash says so, and is waited for: that takes as long as its log takes to read."""
CONNECT_WAIT_S = 1.0
DECLARE_WAIT_S, DECLARE_WAIT_CAP_S = 0.5, 5.0
BROKER, RELAY, CONSUME, SHOW = "broker", "relay", "consume", "show only"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Duties:
    """What this process does. A web process does none of it; `holdfast up` does all."""

    work: bool = True
    relay: bool = True
    consume: bool = True
    keep: bool = True
    concurrency: int = 50
    grace_s: float = 20.0
    queues: Mapping[str, int] = field(default_factory=dict)
    """Only these queues are worked on, each with so many jobs at once; none: all of them, with `concurrency`."""

    def any(self) -> bool:
        """Whether it does anything at all; a process that only shows does not."""
        return self.work or self.relay or self.consume or self.keep


RunWorker = Callable[[Worker, asyncio.Event], Coroutine[Any, Any, None]]


async def run(
    kernel: Kernel,
    duties: Duties,
    stop: asyncio.Event,
    *,
    engine: str = "asyncio",
    run_worker: RunWorker = Worker.run,
) -> None:
    """Do the duties until `stop`. The store is left open: the caller closes it after the last write."""
    announce(kernel, duties, engine)
    async with asyncio.TaskGroup() as group:
        workers = _workers(kernel, duties)
        if kernel.transport is not None and (duties.consume or duties.relay):
            _exchange(kernel, kernel.transport, duties, workers, group, stop)
        for worker in workers:
            kernel.duties["work"] = RUNNING
            group.create_task(run_worker(worker, stop))
        if duties.keep:
            _keep(kernel, workers, group, stop)
        if duties.keep and not workers:
            _tell(kernel, duties, group, stop)


def _workers(kernel: Kernel, duties: Duties) -> list[Worker]:
    """One for everything, or one for each queue that has a number of its own."""
    if not duties.work or not kernel.registry.kinds:
        return []
    if not duties.queues:
        return [Worker(kernel, concurrency=duties.concurrency, grace_s=duties.grace_s)]
    served = {queue: number for queue, number in duties.queues.items() if queue in kernel.registry.queues}
    workers = [Worker(kernel, concurrency=n, grace_s=duties.grace_s, queues=[queue]) for queue, n in served.items()]
    kernel.aside.allow(sum(served.values()))
    return workers


def announce(kernel: Kernel, duties: Duties, engine: str) -> None:
    """One line at the start: what runs here, from where, with how much."""
    kernel.watch.log(
        "worker.started" if duties.work or engine != "asyncio" else "duties.started",
        version=holdfast.__version__,
        apps=[app.name for app in kernel.registry.apps],
        queues=list(kernel.registry.queues),
        kinds=sorted(kernel.registry.kinds),
        database=kernel.store.place(),
        transport=kernel.transport.place() if kernel.transport is not None else None,
        engine=engine,
        concurrency=duties.concurrency,
        lease_s=kernel.tuning.lease_s,
        grace_s=duties.grace_s,
        duties=[name for name in ("work", "relay", "consume", "keep") if getattr(duties, name)],
    )


def _exchange(
    kernel: Kernel,
    transport: Transport,
    duties: Duties,
    workers: Sequence[Worker],
    group: asyncio.TaskGroup,
    stop: asyncio.Event,
) -> None:
    """Send and receive messages. A broker that is away holds up nothing else, and is waited for."""
    declaration = _Declaration()
    group.create_task(_declare(kernel, transport, declaration, stop))
    if duties.consume:
        for consumer in _consumers(kernel):
            group.create_task(_consume(kernel, transport, consumer, declaration, stop))
    if duties.relay:
        group.create_task(_relay(kernel, declaration, workers, stop))


def _tell(kernel: Kernel, duties: Duties, group: asyncio.TaskGroup, stop: asyncio.Event) -> None:
    """Run the jobs that tell people of incidents where nobody works: that nobody does is one of the things to tell."""
    news = [app for app in kernel.registry.apps if isinstance(app, IncidentApp) and app.kinds]
    if news:
        group.create_task(Worker(replace(kernel, registry=Registry(news)), grace_s=duties.grace_s).run(stop))


def _keep(kernel: Kernel, workers: Sequence[Worker], group: asyncio.TaskGroup, stop: asyncio.Event) -> None:
    """The steps that keep promises whether or not anybody works: leases, deadlines, breakers, doubts, retention. One
    process does them for all; only what it has not written down yet is each one's own."""
    tuning = kernel.tuning
    keeper = Keeper(kernel, stop)
    group.create_task(keeper.run())
    group.create_task(repeat(kernel, "records", _steady(write_late), tuning.breaker_s, stop))

    def keep(name: str, step: Step, every_s: Every, channel: str | None = None, everywhere: bool = False) -> None:
        run_step = step if everywhere else keeper.only(step)
        group.create_task(repeat(kernel, name, run_step, every_s, stop, channel))

    keep("reap", partial(_reap, workers=workers), tuning.reap_s)
    keep("sweep", sweep_once, tuning.sweep_s)
    keep("relocate", relocate_once, tuning.sweep_s)
    keep("wake", wake_once, tuning.wake_s, "wakes")
    keep("breakers", _steady(hold_once), tuning.breaker_s, "breakers")
    keep("reconcile", _steady(reconcile_once), tuning.reconcile_s)
    if checkable(kernel):
        keep("verify", _steady(verify_once), tuning.verify_s)
    keep("prune", prune_once, tuning.prune_s)
    keep("schedule", schedule_once, partial(until_tick_s, kernel), SCHEDULES)
    for app in kernel.registry.apps:
        for step in app.steps:
            keep(step.name, step.run, step.every_s, step.channel, step.everywhere)


async def _reap(kernel: Kernel, workers: Sequence[Worker]) -> int:
    """Reap, what the proven dead held too, but never this process's own: after its loop was paused, it renews before it
    looks at who is late."""
    for worker in workers:
        if worker.is_late_to_renew():
            await worker.renew()
    return await reap_once(kernel, partial(expire_dead_in, kernel))


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


class _Declaration:
    """How far the declaring of the queues is: `tried` once, whatever came of it; `done` when the broker has them."""

    def __init__(self) -> None:
        self.tried = asyncio.Event()
        self.done = asyncio.Event()


async def _declare(kernel: Kernel, transport: Transport, declaration: _Declaration, stop: asyncio.Event) -> None:
    """Declare the apps' queues, however long the broker is away."""
    queues = [queue for app in kernel.registry.apps for queue in app.queues]
    backoff_s = 0.0
    while queues and not stop.is_set():
        try:
            await unless_stopped(stop, transport.declare(queues))
            break
        except TransportError as error:
            backoff_s = min(DECLARE_WAIT_CAP_S, max(DECLARE_WAIT_S, backoff_s * 2))
            kernel.duties[BROKER] = f"waits for the broker: {error}"
            kernel.watch.log("transport.unreachable", error=str(error), wait_s=backoff_s)
            declaration.tried.set()
            await pause(stop, backoff_s * (0.5 + kernel.dice.draw() / 2))
    if queues and not stop.is_set():
        kernel.duties[BROKER] = RUNNING
    declaration.tried.set()
    declaration.done.set()


async def _relay(kernel: Kernel, declaration: _Declaration, workers: Sequence[Worker], stop: asyncio.Event) -> None:
    """Publish the outbox. It begins when declaring was tried once: a queue that is not there yet must not count
    against its messages, and a broker that is away must not keep old messages from being warned about. Processes that
    work together take turns, at a ring and by the clock; one that does not work answers every ring."""
    tuning = kernel.tuning
    wakeups = workers[0].wakeups if workers else None
    every_s = partial(wakeups.until_poll_s, tuning.relay_poll_s) if wakeups else tuning.relay_poll_s
    heed = wakeups.heed_outbox if wakeups else None
    kernel.duties[RELAY] = "waits for the broker"
    await unless_stopped(stop, declaration.tried.wait())
    await repeat(kernel, RELAY, relay, every_s, stop, "outbox", tuning.relay_backoff_cap_s, heed)


async def _handle(kernel: Kernel, consumer: Consumer, delivery: Delivery) -> None:
    if not (delivery.genuine or consumer.unsigned):
        kernel.watch.log("message.unsigned", queue=delivery.queue, message_id=delivery.message_id)
        return
    with span(f"consume {delivery.queue}", delivery.headers.get(HEADER)):
        await consumer.handle(kernel, delivery)


async def _consume(
    kernel: Kernel, transport: Transport, consumer: Consumer, declaration: _Declaration, stop: asyncio.Event
) -> None:
    duty = f"{CONSUME} {consumer.queue.name}"
    kernel.duties[duty] = "waits for the broker"
    await unless_stopped(stop, declaration.done.wait())
    if stop.is_set():
        return
    kernel.duties[duty] = RUNNING
    work = asyncio.ensure_future(
        transport.consume(consumer.queue.name, partial(_handle, kernel, consumer), prefetch=consumer.prefetch)
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

    async def begin() -> list[str]:
        applied = await bring_forward(kernel)
        await announce_schedules(kernel)
        await expire_the_dead(kernel)
        return applied

    return await _patiently(kernel, begin)


async def await_schema(kernel: Kernel) -> None:
    """Wait for the database, with a message, and check its schema. Writes nothing."""
    kernel.duties[SHOW] = AWAITED
    await _patiently(kernel, partial(check_schema, kernel))
    kernel.duties[SHOW] = RUNNING


async def _patiently(kernel: Kernel, begin: Callable[[], Awaitable[T]]) -> T:
    """Begin as soon as the database lets us. One that starts or recovers is waited for longer than one that is away,
    each with tries of its own: after a long recovery a single lost connection is no reason to give up."""
    attempts: Counter[int] = Counter()
    while True:
        try:
            return await begin()
        except (StoreUnavailable, StoreReadOnly) as error:  # a standby may be promoted any moment
            tries = STARTING_TRIES if isinstance(error, StoreStarting) else CONNECT_TRIES
            attempts[tries] += 1
            kernel.watch.log("store.unreachable", error=str(error), attempt=attempts[tries], of=tries)
            if attempts[tries] >= tries:
                raise
            await pause(asyncio.Event(), CONNECT_WAIT_S)
