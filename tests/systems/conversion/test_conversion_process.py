"""Real worker processes are stopped and killed in the middle of a conversion; each document gets its one result."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.systems.conversion import pdfs
from tests.systems.conversion.place import XML, Place, environment, opened, read_events
from tests.systems.conversion.stub import Stub, stub

from holdfast.stores.clock import Clock
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore

pytestmark = pytest.mark.slow
QUICK = {"WORKER_LEASE_TTL_SEC": "1.5", "HOLDFAST_RENEW_SEC": "0.5", "HOLDFAST_REAP_SEC": "0.2"}
WAIT_S = 60


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'conversion.db'}"
    return str(request.getfixturevalue("postgres_url"))


def store_of(database: str) -> Callable[[Clock], SqliteStore | PostgresStore]:
    """By the machine's clock, which the worker processes share."""
    if database.startswith("sqlite"):
        return lambda clock: SqliteStore(database.removeprefix("sqlite:///"))
    return lambda clock: PostgresStore(database)


@asynccontextmanager
async def worker(env: Mapping[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    command = [str(Path(sys.executable).parent / "holdfast"), "worker", "--system", "conversion"]
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    child = await asyncio.create_subprocess_exec(*command, env={**inherited, **env}, stderr=asyncio.subprocess.DEVNULL)
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def ended(place: Place, job_id: str) -> tuple[dict[str, Any], list[str]]:
    """The job once it has ended, and its events."""
    async with asyncio.timeout(WAIT_S):
        told = await place.client().get(f"/api/jobs/{job_id}/events")
    return await place.job(job_id), [name for name, _ in read_events(told.text)]


@asynccontextmanager
async def deployment(
    database: str, folder: Path, gateway: Stub, **more: str
) -> AsyncIterator[tuple[Place, dict[str, str]]]:
    env = environment(folder, DATABASE_URL=database, GATEWAY_URL=gateway.url, **QUICK, **more)
    async with opened(store_of(database), env) as place:
        yield place, env


@pytest.mark.spec("C5", "K2", "K3", "001.32")
async def test_a_killed_worker_costs_no_result_and_makes_no_second_one(database: str, tmp_path: Path) -> None:
    async with stub(held=True) as gateway, deployment(database, tmp_path, gateway) as (place, env):
        job = await place.upload()
        async with worker(env) as first:
            await gateway.next()
            first.send_signal(signal.SIGKILL)
            await first.wait()
        gateway.held = False
        async with worker(env), worker(env):
            done, told = await ended(place, job["id"])
        assert (done["status"], done["attemptCount"]) == ("complete", 1)
        assert told == ["queued", "processing", "retry", "processing", "complete"]
        assert place.files()[1] == [f"{job['id']}.xml"]
        assert (await place.client().get(done["result"]["url"])).content == XML


@pytest.mark.spec("C6", "K16", "001.36")
async def test_a_stopping_worker_finishes_what_it_has(database: str, tmp_path: Path) -> None:
    async with stub(held=True) as gateway, deployment(database, tmp_path, gateway) as (place, env):
        first, second = await place.upload(), await place.upload()
        async with worker({**env, "WORKER_CONCURRENCY": "1"}) as child:
            seen = await gateway.next()
            child.send_signal(signal.SIGTERM)
            seen.go.set()
            async with asyncio.timeout(WAIT_S):
                assert await child.wait() == 0
        assert (await place.job(first["id"]))["status"] == "complete"
        assert (await place.job(second["id"]))["status"] == "queued", "it claimed after it was told to stop"
        assert gateway.seen.empty()


@pytest.mark.spec("C6", "K16")
async def test_a_stopping_worker_gives_back_what_it_cannot_finish(database: str, tmp_path: Path) -> None:
    async with stub(held=True) as gateway, deployment(database, tmp_path, gateway) as (place, env):
        job = await place.upload()
        async with worker({**env, "HOLDFAST_GRACE_SEC": "0.2"}) as child:
            await gateway.next()
            child.send_signal(signal.SIGTERM)
            async with asyncio.timeout(WAIT_S):
                assert await child.wait() == 0
        given_back = await place.job(job["id"])
        assert (given_back["status"], given_back["attemptCount"]) == ("queued", 0)
        gateway.held = False
        async with worker(env):
            done, told = await ended(place, job["id"])
        assert (done["status"], done["attemptCount"]) == ("complete", 1)
        assert told == ["queued", "processing", "queued", "processing", "complete"]


@pytest.mark.spec("C6", "K3", "001.22")
async def test_a_long_conversion_keeps_its_lease(database: str, tmp_path: Path) -> None:
    """Three lease times pass, and a second worker looks on: nobody takes the job away."""
    async with stub(held=True) as gateway, deployment(database, tmp_path, gateway) as (place, env):
        job = await place.upload()
        async with worker(env), worker(env):
            seen = await gateway.next()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(4.5):
                    await gateway.seen.get()
            seen.go.set()
            done, told = await ended(place, job["id"])
        assert told == ["queued", "processing", "complete"] and done["attemptCount"] == 1


@pytest.mark.spec("C2", "C9")
async def test_hostile_files_end_in_canonical_codes_and_hurt_nobody(database: str, tmp_path: Path) -> None:
    env = environment(tmp_path, DATABASE_URL=database, **QUICK)
    hostile = {
        "encrypted": pdfs.encrypted(),
        "truncated": pdfs.truncated(),
        "bit-flipped": pdfs.bit_flipped(),
        "header only": pdfs.header_only(),
        "no pages": pdfs.no_pages(),
        "no text": pdfs.no_text(),
        "20,000 pages": pdfs.many_pages(),
        "flate bomb": pdfs.flate_bomb(),
        "xobject bomb": pdfs.xobject_bomb(),
        "deep nesting": pdfs.deep_nesting(),
        "deep page tree": pdfs.deep_page_tree(),
    }
    async with opened(store_of(database), env) as place, worker(env) as child:
        sent = {name: (await place.upload(pdf=pdf, name=name))["id"] for name, pdf in hostile.items()}
        good = (await place.upload(pdf=pdfs.good()))["id"]
        for name, job_id in sent.items():
            failed, told = await ended(place, job_id)
            assert (name, failed["status"], failed["error"]["code"]) == (name, "failed", "GW_4XX")
            assert (failed["attemptCount"], "retry" in told) == (1, False)
            assert "\n" not in failed["error"]["message"] and str(tmp_path) not in failed["error"]["message"]
        done, _ = await ended(place, good)
        xml = (await place.client().get(done["result"]["url"])).text
        assert "<head>Chapter 2</head>" in xml
        assert child.returncode is None and peak_kb(child.pid) < 200 * 1_024
        for pdf in (pdfs.html(), pdfs.empty()):
            refused = await place.client().post("/api/jobs", files={"file": ("a.pdf", pdf)})
            assert refused.json()["code"] == "NOT_PDF"


def peak_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise AssertionError("no VmHWM")
