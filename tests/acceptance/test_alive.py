"""A live worker is never taken for dead: neither by a stranger of its host name nor because its loop is blocked."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from holdfast.kernel.submit import submit
from tests.acceptance.apps.blocking import Pause, blocking
from tests.acceptance.apps.gated import Name, gated
from tests.acceptance.apps.orders import LEDGER
from tests.acceptance.deployment import Deployment, all_ended, kind, rows
from tests.acceptance.grading_site import PATIENCE_S
from tests.acceptance.process import Process, until
from tests.acceptance.test_stopping import holds
from tests.services.child import free_ports, is_root
from tests.services.found import REPOSITORY

pytestmark = pytest.mark.slow

JOBS = 6
LONG_LEASE = {"WORKER_LEASE_TTL_SEC": "60", "HOLDFAST_RENEW_SEC": "20"}
COUNTS = "SELECT COUNT(*) AS jobs, SUM(crashes) AS crashes, SUM(failures) AS failures, SUM(attempt) AS attempts"


async def noted(site: Deployment, process: Process, *names: str) -> None:
    async def there() -> bool:
        assert process.exit_code() is None, process.tail()
        return {f"began {name}" for name in names} <= set(site.ledger.notes())

    await until(there, f"{names} to begin", PATIENCE_S, process=process)


def in_another_namespace(site: Deployment, folder: Path) -> subprocess.Popen[bytes]:
    """A worker with this host's name and file system, and a pid namespace of its own: a container on the host network,
    or one with a fixed host name."""
    own = [] if is_root() else ["--user", "--map-root-user"]
    command = ["unshare", *own, "--pid", "--fork", "--kill-child", "--mount-proc"]
    program = "from holdfast.cli import main; main()"
    command += [sys.executable, "-c", program, "worker", "--app", "tests.acceptance.apps.gated:make"]
    env = os.environ | LONG_LEASE | {"DATABASE_URL": site.url, "PYTHONPATH": str(REPOSITORY)}
    env |= {"HOLDFAST_DATA_DIR": str(folder), "HOLDFAST_GRACE_SEC": "1", "HOLDFAST_REAP_SEC": "0.2"}
    env[LEDGER] = site.ledger.path
    with (folder / "elsewhere.log").open("ab") as log:
        return subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=REPOSITORY)


def can_unshare() -> bool:
    own = [] if is_root() else ["--user", "--map-root-user"]
    command = ["unshare", *own, "--pid", "--fork", "--mount-proc", "true"]
    return shutil.which("unshare") is not None and subprocess.run(command, capture_output=True).returncode == 0


def _says_so_often(log: Path, times: int) -> bool:
    return log.read_text().count("worker.started") >= times


@pytest.mark.spec("K27", "K3")
async def test_a_worker_of_another_pid_namespace_takes_no_live_one_for_dead(
    either_site: Deployment, tmp_path: Path
) -> None:
    if not can_unshare():
        assert os.environ.get("CI") != "true", "a pid namespace can be had wherever CI runs"
        pytest.skip("this system gives us no pid namespace of our own")
    site = either_site
    async with site.kernel(gated) as kernel:
        for number in range(JOBS):
            await submit(kernel, kind(kernel, "long"), Name(str(number)))
        worker = site.worker("gated", **LONG_LEASE)
        await noted(site, worker, *map(str, range(JOBS)))
        for start in range(2):
            other = in_another_namespace(site, tmp_path)
            log = tmp_path / "elsewhere.log"
            started = partial(asyncio.to_thread, _says_so_often, log, start + 1)
            await until(started, "the stranger to start", PATIENCE_S)
            other.send_signal(signal.SIGTERM)
            other.kill()
            other.wait(30)
            assert "workers.dead" not in log.read_text()
        site.ledger.note("open")
        await until(lambda: all_ended(kernel), "the jobs to end", PATIENCE_S, process=worker)
        (counts,) = await rows(kernel, f"{COUNTS} FROM holdfast_jobs WHERE state = 'succeeded'")
        assert counts == {"jobs": JOBS, "crashes": 0, "failures": 0, "attempts": JOBS}
        await worker.end()


@pytest.mark.spec("K27", "K3")
async def test_after_a_kill_a_restart_in_the_same_namespace_goes_on_at_once(either_site: Deployment) -> None:
    site = either_site
    leases = {"WORKER_LEASE_TTL_SEC": "3600", "HOLDFAST_RENEW_SEC": "600"}
    async with site.kernel(gated) as kernel:
        await submit(kernel, kind(kernel, "long"), Name("a"))
        worker = site.worker("gated", **leases)
        await noted(site, worker, "a")
        worker.send(signal.SIGKILL)
        await worker.until_ended()
        site.ledger.note("open")
        again = site.worker("gated", **leases)
        await until(lambda: all_ended(kernel), "the job to end within its lease of an hour", PATIENCE_S, process=again)
        assert holds(again.log, "workers.dead")
        await again.end()


@pytest.mark.spec("K23", "K3")
async def test_a_handler_that_blocks_the_loop_for_longer_than_the_lease_loses_nothing(either_site: Deployment) -> None:
    """Neither its own result nor its neighbour's, although another process reaps all the while. The lease is eight
    renewals long: a machine that stands still for some of them is not what is asked here."""
    site = either_site
    lease = {"WORKER_LEASE_TTL_SEC": "4", "HOLDFAST_RENEW_SEC": "0.5", "HOLDFAST_BLOCKED_SEC": "0.5"}
    async with site.kernel(blocking) as kernel:
        await submit(kernel, kind(kernel, "neighbour"), Pause("n", 3))
        await submit(kernel, kind(kernel, "block"), Pause("b", 60))
        worker = site.worker("blocking", **lease)
        await noted(site, worker, "n", "b")
        first = await rows(kernel, "SELECT MAX(lease_until) AS until FROM holdfast_jobs")
        port = str(free_ports(1)[0])
        reaper = site.start("serve", app="blocking", HOLDFAST_REAP_SEC="0.1", HOLDFAST_PORT=port)

        async def over() -> bool:
            return kernel.now() > first[0]["until"] + 500

        await until(over, "the first leases to be over", process=worker)
        site.ledger.note("open")
        await until(lambda: all_ended(kernel), "both jobs to end", PATIENCE_S, process=worker)
        (counts,) = await rows(kernel, f"{COUNTS} FROM holdfast_jobs WHERE state = 'succeeded'")
        assert counts == {"jobs": 2, "crashes": 0, "failures": 0, "attempts": 2}
        late = await rows(kernel, "SELECT COUNT(*) AS n FROM holdfast_results WHERE is_late = 1")
        assert late == [{"n": 0}]
        assert sorted(site.ledger.notes()) == ["began b", "began n", "open"], "each ran once"
        await worker.end()
        await reaper.end()
    log = worker.log.read_text()
    assert log.count('"event": "loop.blocked"') == 1 and "in blocking.block/run" in log
    assert "apps/blocking.py" in log and "worker.leases_kept" in log
    (blocked_s,) = re.findall(r"the event loop was blocked for (\d+\.\d) s", log)
    assert float(blocked_s) >= 4


@pytest.mark.spec("K23", "K3")
async def test_the_leases_of_a_loop_that_does_not_come_back_are_left_to_expire(embedded_site: Deployment) -> None:
    site = embedded_site
    lease = {"WORKER_LEASE_TTL_SEC": "1.5", "HOLDFAST_RENEW_SEC": "0.5", "HOLDFAST_BLOCKED_MAX_SEC": "1"}
    async with site.kernel(blocking) as kernel:
        await submit(kernel, kind(kernel, "block"), Pause("b", 60))
        worker = site.worker("blocking", **lease)
        await noted(site, worker, "b")
        reaper = site.worker("blocking", HOLDFAST_REAP_SEC="0.1", WORKER_CONCURRENCY="1")

        async def lost() -> bool:
            return bool(await rows(kernel, "SELECT id FROM holdfast_jobs WHERE crashes > 0"))

        await until(lost, "the job to be taken back", PATIENCE_S, process=worker)
        for process in (worker, reaper):
            process.send(signal.SIGKILL)


@pytest.mark.spec("K17")
async def test_a_worker_says_at_its_start_what_it_serves(site: Deployment) -> None:
    url = site.url.replace("holdfast@", "holdfast:pass-word@")
    worker = site.worker("gated", DATABASE_URL=url, WORKER_CONCURRENCY="7")

    async def started() -> bool:
        return holds(worker.log, '"event": "worker.started"')

    await until(started, "the worker to start", PATIENCE_S, process=worker)
    await worker.end()
    (line,) = [line for line in worker.log.read_text().splitlines() if '"worker.started"' in line]
    for words in ('"version"', '"gated.long"', '"concurrency": 7', '"lease_s": 2.0', '"engine": "asyncio"'):
        assert words in line
    assert f'"database": "postgresql://127.0.0.1:{site.url.rpartition(":")[2]}' in line and "pass-word" not in line
