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
from dataclasses import dataclass, replace

from celery import Celery, signals
from kombu.entity import Exchange, Queue

from holdfast.engines.celery_worker import Home, KernelFactory
from holdfast.engines.doorbell import RUN, doorbell, ring_for_ever
from holdfast.engines.run import Duties, prepare, run, stop_on_signals
from holdfast.errors import SettingsError
from holdfast.kernel.app import App
from holdfast.kernel.kernel import Kernel
from holdfast.main import close_systems, load_app, open_systems, start_logging
from holdfast.settings import Settings, read, setting

SOFT_MARGIN_S, HARD_MARGIN_S = 10, 20
LAST_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class CelerySettings:
    """What only the Celery engine needs."""

    processes: int = setting("HOLDFAST_CELERY_PROCESSES", 0, "Worker processes; 0: two for each core", minimum=0)
    again_s: float = setting("HOLDFAST_BELL_AGAIN_SEC", 30.0, "A bell that was not answered is rung again", minimum=0.1)
    bells_max: int = setting("HOLDFAST_BELLS_MAX", 100_000, "Bells the broker keeps; older are dropped", minimum=100)

    def processes_for(self, concurrency: int) -> int:
        return self.processes or max(1, min(concurrency, 2 * (os.cpu_count() or 1)))


def make_celery(
    settings: Settings,
    own: CelerySettings,
    kernel_factory: KernelFactory,
    queues: Sequence[str],
    longest_stage_s: float = 60.0,
) -> Celery:
    """A Celery app with one task. `kernel_factory` is called in every worker process, on its event loop."""
    app = Celery("holdfast", broker=settings.rabbitmq_url, set_as_current=False)
    app.conf.update(
        task_queues=[_doorbell(queue, own) for queue in queues],
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
        worker_soft_shutdown_timeout=settings.grace_s,
        broker_transport_options={"confirm_publish": True},
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_channel_error_retry=True,
        broker_heartbeat=30,
    )
    home = Home(kernel_factory)
    signals.worker_process_init.connect(home.start, weak=False)
    signals.worker_process_shutdown.connect(home.stop, weak=False)
    app.task(home.run, name=RUN, ignore_result=True, acks_late=False)
    return app


def _doorbell(queue: str, own: CelerySettings) -> Queue:
    """Durable, since RabbitMQ 4.3 refuses transient ones; its messages are transient."""
    name = doorbell(queue)
    limits = {"x-message-ttl": int(own.again_s * 1_000), "x-max-length": own.bells_max}
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
        return [one.kernel for one in await open_systems(self.settings, os.environ, self.systems, self.apps)]

    def celery(self) -> Celery:
        kernels = asyncio.run(self.kernels())  # nothing is connected: only their declarations are read
        stages = [one for kernel in kernels for kind in kernel.registry.kinds.values() for one in kind.stages]
        queues = [queue for kernel in kernels for queue in kernel.registry.queues]
        longest_s = max((one.timeout_s for one in stages), default=60.0)
        return make_celery(self.settings, self.own, self.kernels, queues, longest_s)


def run_celery_worker(settings: Settings, systems: Sequence[str] | None, apps: Sequence[App], concurrency: int) -> None:
    """Run a Celery worker and, beside it, everything else a worker does: relay, consumers, sweeps and the bells.

    Returns after SIGTERM, when the jobs in flight have ended. If either half ends, so does the other."""
    fleet = Fleet(settings, read(CelerySettings, os.environ), systems, apps)
    # Forked before any thread or event loop exists here: what it inherits is only what was declared.
    worker = multiprocessing.get_context("fork").Process(target=work, args=(fleet, concurrency), name="celery")
    worker.start()
    try:
        asyncio.run(dispatch(fleet, worker))
    finally:
        _end(worker, settings.grace_s)


def work(fleet: Fleet, concurrency: int) -> None:
    """Be a Celery worker until told to stop."""
    processes = fleet.own.processes_for(concurrency)
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    level = f"--loglevel={fleet.settings.log_level}"
    fleet.celery().worker_main(["worker", "--pool=prefork", f"--concurrency={processes}", level, *quiet])


async def dispatch(fleet: Fleet, worker: multiprocessing.process.BaseProcess | None = None) -> None:
    """Ring for due jobs, and keep every other promise, until SIGTERM or until `worker` ends."""
    stop = asyncio.Event()
    stop_on_signals(stop)
    if worker is not None:
        asyncio.get_running_loop().add_reader(worker.sentinel, stop.set)
    opened = await open_systems(fleet.settings, os.environ, fleet.systems, fleet.apps)
    try:
        for one in opened:
            await prepare(one.kernel)
        async with asyncio.TaskGroup() as group:
            for one in opened:
                group.create_task(run(one.kernel, replace(one.duties(Duties()), work=False), stop))
                group.create_task(ring_for_ever(one.kernel, fleet.own.again_s, stop))
    finally:
        if worker is not None:
            asyncio.get_running_loop().remove_reader(worker.sentinel)
        await close_systems(opened)


def _end(worker: multiprocessing.process.BaseProcess, grace_s: float) -> None:
    """Ask the worker to finish what is in flight; after the grace time, to give it back; then end it."""
    worker.terminate()
    worker.join(grace_s)
    if worker.is_alive() and worker.pid is not None:
        with suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGQUIT)
        worker.join(grace_s + LAST_WAIT_S)
    if worker.is_alive():
        worker.kill()
        worker.join()


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
        work(fleet, concurrency)
    elif asked.half == "dispatcher":
        asyncio.run(dispatch(fleet))
    else:
        run_celery_worker(settings, asked.system, apps, concurrency)


if __name__ == "__main__":
    main()
