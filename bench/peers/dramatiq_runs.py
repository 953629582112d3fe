"""Dramatiq's side of the bench, over RabbitMQ: one worker process of eight threads, as it ships."""

from __future__ import annotations

import os
import sys
import threading

THREADS = 8
PREFETCH = 256
os.environ["dramatiq_queue_prefetch"] = str(PREFETCH)  # noqa: SIM112 - its own spelling

import dramatiq  # noqa: E402 - reads its prefetch from the environment when imported
from dramatiq.brokers.rabbitmq import RabbitmqBroker  # noqa: E402
from dramatiq.worker import Worker  # noqa: E402

from bench.stopwatch import Figures, Stopwatch, amqp_url, tell  # noqa: E402

SETTINGS = f"one process, {THREADS} threads, queue prefetch {PREFETCH}, persistent messages"


def noop(count: int) -> Figures:
    broker = RabbitmqBroker(url=amqp_url())
    dramatiq.set_broker(broker)
    left, over, lock = [count], threading.Event(), threading.Lock()

    @dramatiq.actor
    def run(n: int) -> None:
        with lock:
            left[0] -= 1
            if not left[0]:
                over.set()

    for n in range(count):
        run.send(n)
    worker = Worker(broker, worker_threads=THREADS)
    watch = Stopwatch()
    worker.start()
    over.wait(300)
    figures = watch.stop(count)
    worker.stop()
    return figures


if __name__ == "__main__":
    if sys.argv[1] == "settings":
        print(SETTINGS)
    else:
        tell({"noop": noop}[sys.argv[1]](int(sys.argv[2])))
