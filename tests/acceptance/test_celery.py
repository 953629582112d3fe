"""The Celery engine on real processes: PostgreSQL, RabbitMQ, a dispatcher and `celery worker`s that are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import aio_pika
import pytest

from holdfast.engines.doorbell import RungRecently, doorbell, ring_once
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.submit import prepare, submit_orders
from holdfast.stores.postgres import PostgresStore
from holdfast.tables import depth, events, jobs
from holdfast.transports.rabbitmq.transport import RabbitTransport
from tests.acceptance.celery_app import Errand, Run, app
from tests.services import child

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0


@dataclass
class Fleet:
    """The processes of one deployment, each in a group of its own so that it can be killed whole."""

    folder: Path
    env: dict[str, str]
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, half: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "holdfast.engines.celery", half, "--app", "tests.acceptance.celery_app:app"]
        process = child.start([*command, *options], log=self.folder / f"{half}-{len(self.started)}.log", env=self.env)
        self.started.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)

    def logs(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-2_000:] for path in sorted(self.folder.glob("*.log")))

    def stop(self) -> None:
        for process in self.started:
            if process.poll() is None:
                self.kill(process)


@pytest.fixture
def fleet(tmp_path: Path, postgres_url: str, rabbitmq_url: str) -> Iterator[Fleet]:
    env = os.environ | {
        "PYTHONPATH": str(REPOSITORY),
        "HOLDFAST_ENGINE": "celery",
        "DATABASE_URL": postgres_url,
        "RABBITMQ_URL": rabbitmq_url,
        "SENT_FILE": str(tmp_path / "sent"),
        "WORKER_LEASE_TTL_SEC": "3",
        "HOLDFAST_RENEW_SEC": "1",
        "HOLDFAST_REAP_SEC": "0.5",
        "HOLDFAST_POLL_SEC": "0.2",
        "HOLDFAST_BELL_AGAIN_SEC": "2",
        "HOLDFAST_CELERY_PROCESSES": "2",
    }
    made = Fleet(tmp_path, env)
    yield made
    made.stop()


@pytest.fixture
async def kernel(postgres_url: str, rabbitmq_url: str) -> AsyncIterator[Kernel]:
    kernel = Kernel(PostgresStore(postgres_url), Registry([app]), RabbitTransport(rabbitmq_url))
    await kernel.migrate()
    yield kernel
    assert kernel.transport is not None
    await kernel.transport.close()
    await kernel.store.close()


async def enqueue(kernel: Kernel, count: int, pause_ms: int = 0) -> list[str]:
    now, kind = kernel.now(), Run.__holdfast__
    numbers = range(1, count + 1)
    orders = [prepare(kind, Errand(number=n, pause_ms=pause_ms), job_id=kernel.new_id(), now=now) for n in numbers]
    return await submit_orders(kernel, orders)


async def finished(kernel: Kernel) -> Counter[str]:
    async with kernel.store.reading() as tx:
        rows = await depth.finished_since(tx, 0)
    return Counter({str(row.state): row.jobs for row in rows})


async def until(kernel: Kernel, fleet: Fleet, count: int) -> None:
    """Until so many jobs have succeeded. Other processes do the work, so there is only the table to watch."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if (await finished(kernel))["succeeded"] >= count:
                    return
                await asyncio.sleep(0.1)
    except TimeoutError:
        pytest.fail(f"only {await finished(kernel)} of {count}\n{fleet.logs()}")


def sends(fleet: Fleet) -> Counter[str]:
    return Counter(Path(fleet.env["SENT_FILE"]).read_text().split())


async def stages_done(kernel: Kernel, ids: list[str]) -> set[tuple[str, ...]]:
    """The ends of stages that were accepted, per job."""
    async with kernel.store.reading() as tx:
        stories = [[row.type for row in await events.of_job(tx, one)] for one in ids]
    return {tuple(kind for kind in story if kind in ("advanced", "succeeded", "dead")) for story in stories}


ONCE = {("advanced", "advanced", "succeeded")}


@pytest.mark.spec("K20")
async def test_two_hundred_jobs_of_three_stages_finish_once_each_on_a_celery_worker(
    fleet: Fleet, kernel: Kernel
) -> None:
    fleet.start("dispatcher")
    fleet.start("worker")
    ids = await enqueue(kernel, 200)
    await until(kernel, fleet, 200)
    assert await stages_done(kernel, ids) == ONCE
    assert len(sends(fleet)) == 200 and set(sends(fleet).values()) == {1}


@pytest.mark.spec("K20", "G17", "K3")
async def test_a_celery_worker_killed_half_way_costs_time_and_nothing_else(fleet: Fleet, kernel: Kernel) -> None:
    fleet.start("dispatcher")
    first = fleet.start("worker")
    ids = await enqueue(kernel, 200, pause_ms=20)
    await until(kernel, fleet, 60)
    fleet.kill(first)
    fleet.start("worker")
    await until(kernel, fleet, 200)
    assert await stages_done(kernel, ids) == ONCE
    assert len(sends(fleet)) == 200 and set(sends(fleet).values()) == {1}


@pytest.mark.spec("K20")
async def test_bells_that_are_lost_or_repeated_are_harmless(fleet: Fleet, kernel: Kernel, rabbitmq_url: str) -> None:
    fleet.start("dispatcher")
    fleet.start("worker")
    ids = await enqueue(kernel, 100, pause_ms=20)
    async with await aio_pika.connect(rabbitmq_url) as connection, connection.channel() as channel:
        await until(kernel, fleet, 10)
        await (await channel.get_queue(doorbell("errands"))).purge()
        for _ in range(3):
            await ring_once(kernel, RungRecently("errands"))
    await until(kernel, fleet, 100)
    assert await stages_done(kernel, ids) == ONCE
    assert set(sends(fleet).values()) == {1}


@pytest.mark.spec("K16", "K20")
async def test_sigterm_ends_both_halves_in_order_and_leaves_no_job_leased(fleet: Fleet, kernel: Kernel) -> None:
    both = fleet.start("both")
    await enqueue(kernel, 100, pause_ms=100)
    await until(kernel, fleet, 10)
    both.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(both.wait, 60) == 0, fleet.logs()
    async with kernel.store.reading() as tx:
        rows = await jobs.page(tx, state="processing")
    assert rows == [], "what was in flight has ended or was given back"
