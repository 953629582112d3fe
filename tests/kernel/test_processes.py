"""Real workers and real signals: SIGTERM, SIGKILL, SIGSTOP, and a database that is restarted under them."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.submit import submit
from tests.kernel import process_app
from tests.kernel.places import Place, rows
from tests.kernel.process_app import Gated, Short
from tests.services import child
from tests.services.postgres import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.spec("K16", "K3")]
ROOT = Path(__file__).resolve().parents[2]


class Fleet:
    """Worker processes on one database."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.folder = folder
        if place.dialect == "postgres":
            place.url += "?synchronous_commit=on"
        self.url = place.url if place.dialect == "postgres" else f"sqlite:///{place.url}"
        self.kernel = Kernel(store=place.open(), registry=Registry([process_app.app]))
        self.children: list[subprocess.Popen[bytes]] = []

    def start(self, *, grace_s: float = 0.3, failpoints: str = "", lease_s: float = 1.2) -> subprocess.Popen[bytes]:
        env = os.environ | {"GRACE_S": str(grace_s), "HOLDFAST_FAILPOINTS": failpoints, "PYTHONPATH": str(ROOT)}
        env |= {"LEASE_S": str(lease_s)}
        command = [sys.executable, str(ROOT / "tests/kernel/process_app.py"), self.url, str(self.folder)]
        self.children.append(child.start(command, log=self.folder / "log", env=env, last_signal=signal.SIGKILL))
        return self.children[-1]

    def ran(self) -> list[list[str]]:
        """Every attempt that began: job, attempt, process."""
        path = self.folder / "ran"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def go(self) -> None:
        (self.folder / "go").touch()

    def stop_between_writes(self, process: subprocess.Popen[bytes]) -> None:
        """SIGSTOP, but not inside a transaction of SQLite's: its one write lock would stop everybody else too."""
        for _ in range(200):
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            if self.is_writable():
                return
            process.send_signal(signal.SIGCONT)
            os.waitid(os.P_PID, process.pid, os.WCONTINUED)
        raise AssertionError("it was writing whenever it was stopped")

    def is_writable(self) -> bool:
        if not self.url.startswith("sqlite"):
            return True
        with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=0, isolation_level=None)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            return True

    def until(self, ready: Callable[[], bool], of: subprocess.Popen[bytes]) -> None:
        child.wait_until(ready, of, self.folder / "log", timeout_s=30)

    async def until_ended(self, of: subprocess.Popen[bytes], count: int) -> None:
        """Wait until so many jobs have ended, as seen in the database."""
        for _ in range(600):
            found = await rows(
                self.kernel.store, "SELECT COUNT(*) AS n FROM holdfast_jobs WHERE finished_at IS NOT NULL"
            )
            if found[0]["n"] >= count:
                return
            try:
                of.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError((self.folder / "log").read_text()[-2_000:])
        raise AssertionError("the jobs did not end in time")

    async def jobs(self) -> list[tuple[str, int, int]]:
        found = await rows(self.kernel.store, "SELECT state, failures, crashes FROM holdfast_jobs ORDER BY id")
        return [(row["state"], row["failures"], row["crashes"]) for row in found]

    async def values(self) -> list[dict[str, Any]]:
        return await rows(self.kernel.store, "SELECT stage, value, is_late FROM holdfast_results ORDER BY is_late")


@pytest.fixture
async def fleet(place: Place, tmp_path: Path) -> AsyncIterator[Fleet]:
    made = Fleet(place, tmp_path)
    yield made
    for each in made.children:
        if each.poll() is None:
            each.send_signal(signal.SIGCONT)
            child.end(each, signal.SIGKILL)
    await made.kernel.store.close()


async def test_sigterm_finishes_what_is_in_flight_within_the_grace_time(fleet: Fleet) -> None:
    worker = fleet.start(grace_s=20)
    await submit(fleet.kernel, Gated, 1)
    fleet.until(lambda: len(fleet.ran()) == 1, worker)
    worker.send_signal(signal.SIGTERM)
    fleet.go()
    assert worker.wait(20) == 0
    assert await fleet.jobs() == [("succeeded", 0, 0)]


async def test_sigterm_gives_back_what_does_not_finish_and_counts_nothing(fleet: Fleet) -> None:
    worker = fleet.start(grace_s=0.2)
    await submit(fleet.kernel, Gated, 1)
    fleet.until(lambda: len(fleet.ran()) == 1, worker)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(20) == 0
    assert await fleet.jobs() == [("queued", 0, 0)]
    fleet.go()
    await fleet.until_ended(fleet.start(), 1)
    assert await fleet.jobs() == [("succeeded", 0, 0)]


async def test_a_second_signal_ends_at_once_and_loses_nothing(fleet: Fleet) -> None:
    worker = fleet.start(grace_s=60)
    await submit(fleet.kernel, Gated, 1)
    fleet.until(lambda: len(fleet.ran()) == 1, worker)
    worker.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        worker.wait(0.3)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(10) == -signal.SIGTERM
    assert [state for state, _, _ in await fleet.jobs()] == ["processing"]
    fleet.go()
    await fleet.until_ended(fleet.start(), 1)
    assert await fleet.jobs() == [("succeeded", 0, 1)]


async def test_a_killed_worker_is_replaced_and_its_job_ends_once(fleet: Fleet) -> None:
    worker = fleet.start()
    await submit(fleet.kernel, Gated, 1)
    fleet.until(lambda: len(fleet.ran()) == 1, worker)
    worker.send_signal(signal.SIGKILL)
    worker.wait(10)
    fleet.go()
    other = fleet.start()
    await fleet.until_ended(other, 1)
    assert await fleet.jobs() == [("succeeded", 0, 1)]
    assert await fleet.values() == [{"stage": "wait", "value": str(other.pid), "is_late": 0}]


async def test_a_restart_does_not_wait_for_the_leases_of_the_process_that_died(fleet: Fleet) -> None:
    for number in range(3):
        await submit(fleet.kernel, Short, number)
    assert fleet.start(failpoints="claim.after_commit=kill", lease_s=3_600).wait(30) == -signal.SIGKILL
    held = "SELECT COUNT(*) AS n FROM holdfast_jobs WHERE state = 'processing'"
    assert (await rows(fleet.kernel.store, held))[0]["n"] == 3
    await fleet.until_ended(fleet.start(lease_s=3_600), 3)
    assert await fleet.jobs() == [("succeeded", 0, 0)] * 3, "the second stage does not remember the first one's crash"


@pytest.mark.parametrize("failpoint", ["claim.after_commit", "settle.before_commit", "settle.after_commit"])
async def test_a_worker_killed_around_a_commit_loses_and_repeats_nothing(fleet: Fleet, failpoint: str) -> None:
    for number in range(5):
        await submit(fleet.kernel, Short, number)
    doomed = fleet.start(failpoints=f"{failpoint}=kill")
    assert doomed.wait(20) == -signal.SIGKILL
    await fleet.until_ended(fleet.start(), 5)
    assert {state for state, _, _ in await fleet.jobs()} == {"succeeded"}
    found = await fleet.values()
    assert sorted(int(row["value"]) for row in found if row["stage"] == "second") == [0, 2, 4, 6, 8]


async def test_a_worker_stopped_past_its_lease_can_write_nothing_when_it_goes_on(fleet: Fleet) -> None:
    stalled = fleet.start(grace_s=0.2)
    job_id = await submit(fleet.kernel, Gated, 1)
    fleet.until(lambda: len(fleet.ran()) == 1, stalled)
    fleet.stop_between_writes(stalled)
    other = fleet.start()
    fleet.until(lambda: len(fleet.ran()) == 2, other)
    fleet.go()
    await fleet.until_ended(other, 1)
    stalled.send_signal(signal.SIGCONT)
    stalled.send_signal(signal.SIGTERM)
    assert stalled.wait(20) == 0
    assert await fleet.jobs() == [("succeeded", 0, 1)]
    on_time = [row["value"] for row in await fleet.values() if row["is_late"] == 0]
    assert on_time == [str(other.pid)]
    assert [(job, attempt) for job, attempt, _ in fleet.ran()] == [(job_id, "1"), (job_id, "2")]


@pytest.mark.spec("K19")
@pytest.mark.parametrize("place", ["postgres"], indirect=True)
async def test_postgres_restarted_under_a_running_worker_loses_nothing(
    fleet: Fleet, postgres_server: PostgresServer
) -> None:
    """PostgreSQL only: SQLite is no server that could restart."""
    worker = fleet.start()
    for number in range(60):
        await submit(fleet.kernel, Short, number)
        if number == 0:
            fleet.until(lambda: len(fleet.ran()) > 0, worker)
        if number in (20, 40):
            postgres_server.restart(immediate=True)
            await fleet.kernel.store.close()
    await fleet.until_ended(worker, 60)
    assert {state for state, _, _ in await fleet.jobs()} == {"succeeded"}
    assert await rows(fleet.kernel.store, "SELECT id FROM holdfast_dead_letters") == []
    found = [row for row in await fleet.values() if row["stage"] == "second" and row["is_late"] == 0]
    assert sorted(int(row["value"]) for row in found) == [2 * n for n in range(60)]
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(20) == 0


@pytest.mark.spec("K2")
async def test_several_processes_share_the_work_and_no_job_runs_twice(fleet: Fleet) -> None:
    workers = [fleet.start(lease_s=30) for _ in range(3)]
    ids = [await submit(fleet.kernel, Short, number) for number in range(80)]
    await fleet.until_ended(workers[0], 80)
    assert sorted(job for job, _, _ in fleet.ran()) == sorted(ids)
    for worker in workers:  # the quick may have done it all before the slow heed a signal
        fleet.until((fleet.folder / f"heeds-{worker.pid}").exists, worker)
        worker.send_signal(signal.SIGTERM)
    assert [worker.wait(20) for worker in workers] == [0, 0, 0]
