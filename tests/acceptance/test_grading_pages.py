"""What the pages about grading say is run as written: their commands, and the tests that the acceptance table names."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from holdfast_systems.grading.contract import CALLBACK_QUEUE, REQUEST_QUEUE
from tests.acceptance.grading_site import PATIENCE_S, SECRET, GradingSite, MainApp, deployed, request
from tests.acceptance.model_endpoint import Answer, Model
from tests.acceptance.process import Nursery, until
from tests.docs.pages import install
from tests.docs.pages import run as shell
from tests.services.child import free_ports, listens
from tests.services.postgres import PostgresServer

ROOT = Path(__file__).parents[2]
PAGE_PORT = 8000
HOW_TO = ROOT / "docs" / "how-to"
# No safety net within a test's time: whatever happens, happens because a commit woke somebody.
NO_POLLING = {"OUTBOX_POLL_INTERVAL_MS": "600000", "HOLDFAST_POLL_SEC": "600"}


def blocks(page: str) -> list[list[str]]:
    """The shell blocks of a page, each as its lines."""
    found = re.findall(r"^```sh\n(.*?)^```$", (HOW_TO / page).read_text(), re.MULTILINE | re.DOTALL)
    return [[line for line in block.splitlines() if line.strip()] for block in found]


def commands(lines: list[str]) -> list[list[str]]:
    return [shlex.split(line)[1:] for line in lines if line.startswith("holdfast ")]


def exported(lines: list[str]) -> set[str]:
    return {line.removeprefix("export ").partition("=")[0] for line in lines if line.startswith("export ")}


@pytest.fixture
def empty_site(
    postgres_server: PostgresServer, rabbitmq_url: str, grading_nursery: Nursery, model: Model, tmp_path: Path
) -> Iterator[GradingSite]:
    """Two databases with nothing in them, and no model: grading is offline."""
    nothing = (postgres_server.url("template0"),) * 2
    with deployed(postgres_server, nothing, rabbitmq_url, grading_nursery, tmp_path, model) as site:
        model.url = ""
        yield site


@pytest.mark.slow
@pytest.mark.spec("G17", "G15", "G3", "K10", "002.22")
async def test_the_two_services_run_apart_as_the_page_says(empty_site: GradingSite) -> None:
    lines = blocks("run-the-two-services-apart.md")[0]
    assert exported(lines) == {"RABBITMQ_URL", "MAIN_DATABASE_URL", "GRADING_DATABASE_URL", "HOLDFAST_JWT_SECRET"}
    check, migrate, serve, worker = commands(lines)
    for once in (check, migrate):
        process = empty_site._start(*once)
        assert await process.until_ended(PATIENCE_S) == 0, process.tail()
    port = free_ports(1)[0]
    process = empty_site._start(*serve, HOLDFAST_PORT=str(port), **NO_POLLING)
    empty_site._start(*worker, **NO_POLLING)
    await until(lambda: answers(port), "the main app to answer", PATIENCE_S, process=process)
    submitted = await typed(empty_site, blocks("run-the-two-services-apart.md")[1], port)
    main = MainApp(process, f"http://127.0.0.1:{port}")
    shown = await main.until_status(json.loads(submitted)["id"], "REVIEW_REQUIRED")
    assert "result" not in shown, "an offline grade is honest: a person looks at it first"
    assert json.loads(await typed(empty_site, blocks("run-on-call.md")[2], port))["status"] == "ready"


@pytest.mark.slow
@pytest.mark.spec("G17", "G4")
async def test_the_grading_service_runs_alone_as_the_page_says(empty_site: GradingSite) -> None:
    """Behind a main app that is not ours."""
    lines = blocks("put-your-own-main-app-in-front.md")[0]
    assert exported(lines) == {"RABBITMQ_URL", "GRADING_DATABASE_URL"}
    migrate, worker = commands(lines)
    await run(empty_site, migrate)
    empty_site._start(*worker, **NO_POLLING)
    async with empty_site.stranger() as stranger:
        await stranger.publish(REQUEST_QUEUE, request("alone"))
        told = await stranger.take(CALLBACK_QUEUE, ended, "the result")
    assert told[-1]["submissionId"] == "s-alone"


def ended(callbacks: list[dict[str, Any]]) -> bool:
    return any(one["kind"] == "completed" for one in callbacks)


async def typed(site: GradingSite, lines: list[str], port: int) -> str:
    """What a block prints in a real shell, with the page's port as ours."""
    assert any(f"//127.0.0.1:{PAGE_PORT}/" in line for line in lines)
    text = "\n".join(lines).replace(f"//127.0.0.1:{PAGE_PORT}/", f"//127.0.0.1:{port}/")
    with TemporaryDirectory() as home:
        env = install(Path(home) / "home") | {"HOLDFAST_JWT_SECRET": SECRET}
        return (await asyncio.to_thread(shell, [text], Path(home), env))[0]


@pytest.mark.slow
@pytest.mark.spec("K7", "K8", "G5", "G6", "G12")
async def test_a_dead_letter_is_read_and_replayed_as_the_page_says(grading_site: GradingSite) -> None:
    site, model = grading_site, grading_site.model
    main = await site.main()
    site.service()
    model.next.append(Answer(401))
    submission = await main.submit("dead")
    await main.until_status(submission["id"], "FAILED")
    case = site.in_service("SELECT id FROM holdfast_dead_letters")[0]["id"]
    reading, mending, desk = (commands(lines) for lines in blocks("read-a-dead-letter.md"))
    for command in (*reading, *mending):
        if "resolve" in command:
            graded = "SELECT status FROM grading_jobs"
            await site.until_in_service(graded, lambda rows: rows[0]["status"] == "completed", "the replay")
        said = await run(site, [str(case) if word == "CASE" else word for word in command])
        assert "show" not in command or all(word in said for word in ("AUTH", "grade", "permanent"))
    assert site.in_service("SELECT state FROM holdfast_dead_letters") == [{"state": "resolved"}]
    recovered = "SELECT status, is_late FROM submissions"
    await site.until_in_main(
        recovered, lambda rows: rows[0]["status"] in ("COMPLETED", "REVIEW_REQUIRED"), "the recovered submission"
    )
    assert site.in_main(recovered)[0]["is_late"] == 0
    letter = await work_the_queue(site, main, model, desk)
    words = set(re.findall(r"^\| `([^|]+)` \|", (HOW_TO / "read-a-dead-letter.md").read_text(), re.MULTILINE))
    named = {name for cell in words for name in re.findall(r"\w+", cell) if name in letter}
    assert {"requestId", "submissionId", "failureReason", "attemptsMade", "lastError", "timestamp"} <= named


async def work_the_queue(site: GradingSite, main: Any, model: Any, desk: list[list[str]]) -> dict[str, Any]:
    """The page's commands for the queue, with a second submission that fails and is submitted again."""
    model.next.append(Answer(401))
    failed = await main.submit("dead too")
    await main.until_status(failed["id"], "FAILED")
    await site.until_in_service(
        "SELECT status FROM holdfast_outbox", lambda rows: all(row["status"] == "published" for row in rows), "letters"
    )
    first, second = json.loads((await run(site, ["dlq", "list", "--json"])).splitlines()[-1])["items"]
    letter: dict[str, Any] = json.loads((await run(site, ["dlq", "show", first["id"], "--json"])).splitlines()[-1])
    for command in desk:
        stands_for = {"LETTER": (second if "archive" in command else first)["id"], "SUBMISSION": failed["id"]}
        await run(site, [stands_for.get(word, word) for word in command])
    assert json.loads((await run(site, ["dlq", "list", "--json"])).splitlines()[-1])["items"] == []
    attempts = "SELECT attempt FROM submissions ORDER BY id DESC LIMIT 1"
    assert site.in_main(attempts) == [{"attempt": 2}]
    return letter


async def run(site: GradingSite, command: list[str]) -> str:
    """What a command printed; it must succeed."""
    process = site._start(*command)
    assert await process.until_ended(PATIENCE_S) == 0, f"{command}\n{process.tail()}"
    return process.log.read_text()


async def answers(port: int) -> bool:
    return listens(port)


@pytest.mark.spec("G17")
def test_every_test_of_the_acceptance_table_exists() -> None:
    text = (ROOT / "docs" / "contract" / "acceptance.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named) == text.count("::") and len(named) > 30
    for path, test in set(named):
        tree = ast.parse((ROOT / path).read_text())
        found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert test in found, f"{path} has no {test}"


@pytest.mark.spec("G17")
@pytest.mark.parametrize("page", ["put-your-own-main-app-in-front.md", "use-your-own-llm.md"])
def test_every_setting_a_page_exports_is_one(page: str) -> None:
    known = (ROOT / "docs" / "reference" / "settings.md").read_text()
    for lines in blocks(page):
        for name in exported(lines):
            assert f"| `{name}` |" in known, name
