"""SIGTERM is a deadline: whatever is away, blocked or open, the process is gone at its grace plus five seconds."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from holdfast.kernel.submit import submit
from tests.acceptance.apps.blocking import Pause, blocking
from tests.acceptance.apps.gated import Name, gated
from tests.acceptance.deployment import Deployment, all_ended, kind, rows
from tests.acceptance.grading_site import PATIENCE_S, GradingSite
from tests.acceptance.process import Process, until
from tests.services.child import free_ports
from tests.services.proxy import Proxy

pytestmark = [pytest.mark.slow, pytest.mark.spec("K27", "K16")]

GRACE_S = 2.0
GONE_S = GRACE_S + 5.0
GRACE = {"HOLDFAST_GRACE_SEC": str(GRACE_S)}


def holds(log: Path, *texts: str) -> bool:
    written = log.read_text(errors="replace") if log.exists() else ""
    return all(text in written for text in texts)


async def said(process: Process, *texts: str) -> None:
    async def there() -> bool:
        assert process.exit_code() is None, process.tail()
        return holds(process.log, *texts)

    await until(there, f"the log to say {texts}", PATIENCE_S, process=process)


async def gone_in_time(process: Process) -> int:
    process.send(signal.SIGTERM)
    return await process.until_ended(GONE_S)


def start(site: GradingSite, argv: tuple[str, ...], **env: str) -> Process:
    port = str(free_ports(1)[0])
    return site._start(*argv, HOLDFAST_PORT=port, **(GRACE | env))


COMMANDS = {
    "serve": (("serve", "--system", "grading-main"), "asyncio"),
    "worker": (("worker", "--system", "grading-service"), "asyncio"),
    "relay": (("relay", "--system", "grading-main"), "asyncio"),
    "up": (("up", "--system", "grading-main", "--system", "grading-service"), "asyncio"),
    "celery": (("worker", "--system", "grading-service"), "celery"),
}


@pytest.mark.spec("000.9", "001.23")
@pytest.mark.parametrize("command", COMMANDS)
async def test_with_the_broker_away_since_the_start(grading_site: GradingSite, command: str) -> None:
    argv, engine = COMMANDS[command]
    nobody = f"amqp://guest:guest@127.0.0.1:{free_ports(1)[0]}/"
    process = start(grading_site, argv, RABBITMQ_URL=nobody, HOLDFAST_ENGINE=engine)
    if command == "up":
        log = grading_site.folder / "holdfast.log"
        await until(lambda: asyncio.to_thread(holds, log, "transport.unreachable"), "it to miss the broker", PATIENCE_S)
    else:
        await said(process, "transport.unreachable")
    assert await gone_in_time(process) == 0, process.tail()


@pytest.fixture
def hole(site: Deployment) -> Iterator[Proxy]:
    """The deployment's database, behind a proxy."""
    made = Proxy(urlsplit(site.url).port or 5432)
    made.open()
    yield made
    made.close()


def behind(proxy: Proxy, url: str) -> str:
    return url.replace(f":{urlsplit(url).port}/", f":{proxy.port}/")


async def begun(site: Deployment, name: str, process: Process) -> None:
    async def noted() -> bool:
        assert process.exit_code() is None, process.tail()
        return f"began {name}" in site.ledger.notes()

    await until(noted, f"{name} to begin", PATIENCE_S, process=process)


@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
async def test_with_the_database_in_a_black_hole(site: Deployment, hole: Proxy, busy: bool) -> None:
    async with site.kernel(gated) as kernel:
        if busy:
            await submit(kernel, kind(kernel, "long"), Name("a"))
        worker = site.worker("gated", DATABASE_URL=behind(hole, site.url), **GRACE)
        if busy:
            await begun(site, "a", worker)
        else:
            await said(worker, "worker.started")
        hole.swallow()
        await gone_in_time(worker)
        if not busy:
            return
        site.ledger.note("open")
        site.worker("gated")
        await until(lambda: all_ended(kernel), "the job to end elsewhere", PATIENCE_S)
        found = await rows(kernel, "SELECT state FROM holdfast_jobs")
        assert found == [{"state": "succeeded"}], "nothing that was accepted is lost"


async def test_a_web_server_with_the_database_in_a_black_hole(grading_site: GradingSite) -> None:
    proxy = Proxy(urlsplit(grading_site.main_db).port or 5432)
    proxy.open()
    try:
        main = await grading_site.main(MAIN_DATABASE_URL=behind(proxy, grading_site.main_db), **GRACE)
        kept = await main.submit("before the hole")
        async with main.client() as client, client.stream("GET", f"/api/submissions/{kept['id']}/events"):
            proxy.swallow()
            await gone_in_time(main.process)
    finally:
        proxy.close()
    found = grading_site.in_main("SELECT COUNT(*) AS n FROM submissions")
    assert found == [{"n": 1}]


async def test_with_a_stream_that_nobody_closes(grading_site: GradingSite) -> None:
    main = await grading_site.main(**GRACE)
    kept = await main.submit("streamed")
    async with main.client() as client, client.stream("GET", f"/api/submissions/{kept['id']}/events") as stream:
        assert stream.status_code == 200
        assert await gone_in_time(main.process) == 0, main.process.tail()


@pytest.mark.spec("K23")
async def test_with_an_event_loop_that_is_blocked(embedded_site: Deployment) -> None:
    async with embedded_site.kernel(blocking) as kernel:
        await submit(kernel, kind(kernel, "block"), Pause("b", 60))
        worker = embedded_site.worker("blocking", **GRACE)
        await begun(embedded_site, "b", worker)
        code = await gone_in_time(worker)
        assert code == 128 + signal.SIGTERM and "stop.overdue" in worker.tail()
        found = await rows(kernel, "SELECT state, crashes FROM holdfast_jobs")
        assert found == [{"state": "processing", "crashes": 0}], "its lease is left to expire"


def away(site: Deployment) -> tuple[str, str]:
    return site.url.replace(f":{urlsplit(site.url).port}/", f":{free_ports(1)[0]}/"), "store.unreachable"


def locked(site: Deployment) -> tuple[str, str]:
    return site.url, ""


@pytest.mark.parametrize("trouble", [away, locked])
async def test_while_it_waits_for_its_database(
    site: Deployment, trouble: Callable[[Deployment], tuple[str, str]]
) -> None:
    """For a server that is not there, and for somebody else's lock in the middle of bringing the schema forward."""
    url, word = trouble(site)
    with psycopg.connect(site.url) as other:
        other.execute("LOCK TABLE holdfast_schema, holdfast_workers IN ACCESS EXCLUSIVE MODE")
        worker = site.worker("gated", DATABASE_URL=url, **GRACE)
        if word:
            await said(worker, word)
        else:
            await until(lambda: asyncio.to_thread(_waits_for_a_lock, site.url), "it to wait for the lock", PATIENCE_S)
        assert await gone_in_time(worker) == 0, worker.tail()


def _waits_for_a_lock(url: str) -> bool:
    with psycopg.connect(url) as looking:
        found = looking.execute(
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone()
    return bool(found and found[0])


@pytest.mark.spec("000.9", "001.23")
async def test_with_everything_in_a_black_hole(grading_site: GradingSite) -> None:
    """Each kind of process at once: consumers, relays, a Celery fleet and a web server, after a healthy start."""
    database = Proxy(urlsplit(grading_site.main_db).port or 5432)
    broker = Proxy(urlsplit(grading_site.broker).port or 5672)
    urls = {
        "MAIN_DATABASE_URL": behind(database, grading_site.main_db),
        "GRADING_DATABASE_URL": behind(database, grading_site.service_db),
        "RABBITMQ_URL": behind(broker, grading_site.broker),
    }
    for proxy in (database, broker):
        proxy.open()
    try:
        processes = {
            command: start(grading_site, argv, HOLDFAST_ENGINE=engine, **urls)
            for command, (argv, engine) in COMMANDS.items()
            if command != "up"
        }
        for command, process in processes.items():
            await said(process, "Application startup complete" if command == "serve" else ".started")
        for proxy in (database, broker):
            proxy.swallow()
        began = asyncio.get_running_loop().time()
        for process in processes.values():
            process.send(signal.SIGTERM)
        for process in processes.values():
            await process.until_ended(max(0.1, began + GONE_S - asyncio.get_running_loop().time()))
    finally:
        for proxy in (database, broker):
            proxy.close()


async def test_a_migration_behind_somebody_elses_lock(site: Deployment) -> None:
    """It gives way when it is asked to, and leaves the schema as it was."""
    with psycopg.connect(site.url) as other:
        other.execute("SET idle_in_transaction_session_timeout = 0")
        other.execute("DELETE FROM holdfast_schema WHERE version = (SELECT MAX(version) FROM holdfast_schema)")
        other.commit()
        other.execute("LOCK TABLE holdfast_jobs, holdfast_schema IN ACCESS EXCLUSIVE MODE")
        migrate = site.start("migrate", app="gated", **GRACE)
        await until(
            lambda: asyncio.to_thread(_waits_for_a_lock, site.url), "it to wait for the lock", 15, process=migrate
        )
        code = await gone_in_time(migrate)
        assert code != 0, migrate.tail()


@pytest.mark.spec("K20")
async def test_a_killed_celery_parent_leaves_no_orphan(grading_site: GradingSite) -> None:
    grading_site.engine = "celery"
    parent = grading_site.service()

    async def fleet() -> list[int]:
        assert parent.exit_code() is None, parent.tail()
        found = descendants(parent.pid)
        return found if len(found) >= 3 else []  # Celery's main process and its two children

    pids = await until(fleet, "the fleet to stand", PATIENCE_S, process=parent)
    parent.send(signal.SIGKILL)
    await parent.until_ended()

    async def none_left() -> bool:
        return not any(_lives(pid) for pid in pids)

    await until(none_left, f"{pids} to end with their parent", 5, process=parent)


def descendants(pid: int) -> list[int]:
    children = [int(text) for path in Path(f"/proc/{pid}/task").glob("*/children") for text in path.read_text().split()]
    return [*children, *(grandchild for child in children for grandchild in descendants(child))]


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
