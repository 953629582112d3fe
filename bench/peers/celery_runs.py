"""Celery's side of the bench, over RabbitMQ: the solo pool, late acks, a large prefetch, results ignored, no gossip."""

from __future__ import annotations

import os
import sys
import threading

from celery import Celery

from bench.stopwatch import Figures, Stopwatch, amqp_url, tell

PREFETCH = 128
SETTINGS = (
    f"solo pool in one process, task_acks_late, worker_prefetch_multiplier {PREFETCH}, task_ignore_result, "
    "persistent messages, no gossip, mingle, heartbeat or events"
)


def noop(count: int) -> Figures:
    app = Celery("bench", broker=amqp_url())
    app.conf.update(
        task_acks_late=True,
        task_ignore_result=True,
        worker_prefetch_multiplier=PREFETCH,
        worker_concurrency=1,
        broker_connection_retry_on_startup=True,
        worker_send_task_events=False,
        task_default_queue="bench",
        worker_hijack_root_logger=False,
    )
    left, begun, over = [count], threading.Event(), threading.Event()
    watches: list[Stopwatch] = []

    @app.task(name="noop")
    def run(n: int) -> None:
        if not begun.is_set():
            watches.append(Stopwatch())
            begun.set()
        left[0] -= 1
        if not left[0]:
            over.set()

    with app.connection_for_write() as connection, app.amqp.producer_pool.acquire(block=True) as producer:
        assert connection
        for n in range(count):
            run.apply_async((n,), producer=producer)
    worker = app.WorkController(
        pool_cls="solo", loglevel="ERROR", without_gossip=True, without_mingle=True, without_heartbeat=True
    )
    threading.Thread(target=worker.start, daemon=True).start()
    over.wait(300)
    return watches[0].stop(count)


if __name__ == "__main__":
    if sys.argv[1] == "settings":
        print(SETTINGS)
    else:
        tell({"noop": noop}[sys.argv[1]](int(sys.argv[2])))
        os._exit(0)  # the worker's threads have nothing left to do
