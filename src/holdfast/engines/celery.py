"""The Celery engine: the same jobs on a fleet of Celery workers over RabbitMQ.

    row due -> dispatcher rings (doorbell.py) -> Celery carries the bell -> worker process (celery_worker.py)

Celery carries ids and keeps processes; it decides nothing. Its own retries, delays, results and late acks are off: the
bell is acked before the work, and a worker that dies loses a lease, not a job. Foreign queues are never Celery's.

A stage's own timeout ends before the soft limit, and that before the hard one. The lease is renewed while the process
lives, so that a killed one is noticed after `WORKER_LEASE_TTL_SEC`, however long its stage may take.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from celery import Celery, signals
from kombu.entity import Exchange, Queue

from holdfast.engines.celery_worker import Home, KernelFactory, report_for_ever
from holdfast.engines.children import end_with_parent
from holdfast.engines.doorbell import RUN, doorbell, ring_for_ever
from holdfast.engines.run import Duties, prepare, run
from holdfast.engines.stopping import stop_on_signals
from holdfast.errors import SettingsError
from holdfast.kernel.app import App
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.loop import pause, unless_stopped
from holdfast.main import close_systems, load_app, open_systems, start_logging
from holdfast.settings import Settings, read
from holdfast.settings.celery import CelerySettings
from holdfast.system import OpenSystem
from holdfast.transports.addresses import split_addresses

SOFT_MARGIN_S, HARD_MARGIN_S = 10, 20
# After the grace time: what is in flight is given back, then the fleet is killed. In all less than a process's last
# five seconds, see `stopping`.
GIVE_BACK_S, KILL_S = 3.0, 0.5


def make_celery(
    settings: Settings,
    own: CelerySettings,
    kernel_factory: KernelFactory,
    queues: Sequence[str],
    longest_stage_s: float = 60.0,
) -> Celery:
    """A Celery app with one task. `kernel_factory` is called in every worker process, on its event loop."""
    brokers = ";".join(split_addresses(settings.rabbitmq_url or ""))
    app = Celery("holdfast", broker=brokers, set_as_current=False)
    app.conf.update(
        task_queues=[_doorbell(queue, own, settings.rabbitmq_queue_type) for queue in queues],
        task_default_queue=doorbell(queues[0]),
        task_create_missing_queues=False,
        task_acks_late=False,
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        result_backend=None,
        task_serializer="json",
        accept_content=["json"],
        task_publish_retry=True,
        task_publish_retry_policy={"max_retries": 3},
        task_soft_time_limit=longest_stage_s + SOFT_MARGIN_S,
        task_time_limit=longest_stage_s + HARD_MARGIN_S,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_soft_shutdown_timeout=0.0,
        broker_transport_options={"confirm_publish": True},
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_channel_error_retry=True,
        broker_heartbeat=30,
    )
    home = Home(kernel_factory)
    signals.worker_init.connect(home.note_parent, weak=False)
    signals.worker_process_init.connect(home.start, weak=False)
    signals.worker_process_shutdown.connect(home.stop, weak=False)
    app.task(home.run, name=RUN, ignore_result=True, acks_late=False)
    return app


def _doorbell(queue: str, own: CelerySettings, queue_type: str) -> Queue:
    """Durable, since RabbitMQ 4.3 refuses transient ones; its messages are transient."""
    name = doorbell(queue)
    limits: dict[str, int | str] = {"x-message-ttl": int(own.again_s * 1_000), "x-max-length": own.bells_max}
    if queue_type != "classic":
        limits["x-queue-type"] = queue_type
    exchange = Exchange("")  # type: ignore[no-untyped-call]
    return Queue(name, exchange, routing_key=name, durable=True, queue_arguments=limits)  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Fleet:
    """Which systems and apps the processes load, and from which settings."""

    settings: Settings
    own: CelerySettings
    systems: Sequence[str] | None
    apps: Sequence[App]

    async def kernels(self) -> list[Kernel]:
        return [system.kernel for system in await open_systems(self.settings, os.environ, self.systems, self.apps)]

    def celery(self) -> Celery:
        kernels = asyncio.run(self.kernels())  # nothing is connected: only their declarations are read
        stages = [stage for kernel in kernels for kind in kernel.registry.kinds.values() for stage in kind.stages]
        queues = [queue for kernel in kernels for queue in kernel.registry.queues]
        longest_s = max((stage.timeout_s for stage in stages), default=60.0)
        return make_celery(self.settings, self.own, self.kernels, queues, longest_s)


def run_celery_worker(settings: Settings, systems: Sequence[str] | None, apps: Sequence[App], concurrency: int) -> None:
    """Run a Celery worker and, beside it, everything else a worker does: relay, consumers, sweeps and the bells.

    Returns after SIGTERM, when the jobs in flight have ended. If either half ends, so does the other."""
    run_fleet(Fleet(settings, read(CelerySettings, os.environ), systems, apps), concurrency)


def run_fleet(fleet: Fleet, concurrency: int, *, dispatching: bool = True) -> None:
    """Run a Celery worker as a child of this process, which sees to it that it ends in time, and with this process."""
    # Forked before any thread or event loop exists here: what it inherits is only what was declared.
    context = multiprocessing.get_context("fork")
    worker = context.Process(target=work, args=(fleet, concurrency, os.getpid()), name="celery")
    worker.start()
    try:
        asyncio.run(attend(fleet, worker, dispatching))
    finally:
        worker.kill()
        worker.join()


def work(fleet: Fleet, concurrency: int, parent: int) -> None:
    """Be a Celery worker until told to stop, or until the parent is gone."""
    end_with_parent(parent)
    processes = fleet.own.processes_for(concurrency)
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    level = f"--loglevel={fleet.settings.log_level}"
    fleet.celery().worker_main(["worker", "--pool=prefork", f"--concurrency={processes}", level, *quiet])


async def attend(fleet: Fleet, worker: multiprocessing.process.BaseProcess, dispatching: bool) -> None:
    """Until SIGTERM or until the worker ends; then both end, within the grace time."""
    loop = asyncio.get_running_loop()
    with stop_on_signals(fleet.settings.grace_s) as stop:
        ended = asyncio.Event()

        def on_end() -> None:
            loop.remove_reader(worker.sentinel)
            ended.set()
            stop.set()

        loop.add_reader(worker.sentinel, on_end)
        opened = await open_systems(fleet.settings, os.environ, fleet.systems, fleet.apps)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_end(worker, fleet.settings.grace_s, stop, ended))
                for system in opened:
                    group.create_task(report_for_ever(system.kernel, stop))
                if dispatching:
                    group.create_task(dispatch(fleet, opened, stop))
        finally:
            await close_systems(opened)


async def dispatch(fleet: Fleet, opened: Sequence[OpenSystem], stop: asyncio.Event) -> None:
    """Ring for due jobs, and keep every other promise, until `stop`."""
    processes = fleet.own.processes_for(fleet.settings.concurrency)
    duties = Duties(work=False, concurrency=processes, grace_s=fleet.settings.grace_s)
    for system in opened:
        await unless_stopped(stop, prepare(system.kernel))
    if stop.is_set():
        return
    async with asyncio.TaskGroup() as group:
        for system in opened:
            group.create_task(run(system.kernel, system.duties(duties), stop, engine="celery"))
            group.create_task(ring_for_ever(system.kernel, fleet.own.again_s, stop))


async def _dispatch_alone(fleet: Fleet) -> None:
    with stop_on_signals(fleet.settings.grace_s) as stop:
        opened = await open_systems(fleet.settings, os.environ, fleet.systems, fleet.apps)
        try:
            await dispatch(fleet, opened, stop)
        finally:
            await close_systems(opened)


async def _end(
    worker: multiprocessing.process.BaseProcess, grace_s: float, stop: asyncio.Event, ended: asyncio.Event
) -> None:
    """At the stop, ask the worker to finish what is in flight; after the grace time, to give it back; then kill it."""
    await stop.wait()
    worker.terminate()
    await pause(ended, grace_s)
    if not ended.is_set() and worker.pid is not None:
        with suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGQUIT)
        await pause(ended, GIVE_BACK_S)
    if not ended.is_set():
        worker.kill()
        await pause(ended, KILL_S)


def main(arguments: Sequence[str] | None = None) -> None:
    """`python -m holdfast.engines.celery worker|dispatcher`: the two halves as processes of their own."""
    parser = argparse.ArgumentParser(prog="holdfast.engines.celery")
    parser.add_argument("half", choices=["worker", "dispatcher", "both"])
    parser.add_argument("--system", action="append", help="only this system; repeat for more")
    parser.add_argument("--app", action="append", default=[], help="your own app, as module:app")
    parser.add_argument("--concurrency", type=int)
    asked = parser.parse_args(arguments)
    settings = read(Settings, os.environ)
    if settings.rabbitmq_url is None:
        raise SettingsError(["The Celery engine needs RABBITMQ_URL."])
    start_logging(settings)
    apps = [load_app(path) for path in asked.app]
    concurrency = asked.concurrency or settings.concurrency
    fleet = Fleet(settings, read(CelerySettings, os.environ), asked.system, apps)
    if asked.half == "worker":
        run_fleet(fleet, concurrency, dispatching=False)
    elif asked.half == "dispatcher":
        asyncio.run(_dispatch_alone(fleet))
    else:
        run_celery_worker(settings, asked.system, apps, concurrency)


if __name__ == "__main__":
    main()
