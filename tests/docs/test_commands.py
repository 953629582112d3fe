"""Every command in the documentation is run by a test: here, or by the one that a list of exceptions names.

A command line of `holdfast` is run on a small deployment that has one of everything: JOB waits, CASE is dead, GROUP
is of another dead letter, REPLAY is what `replays begin` has begun, KEY is in doubt. What runs until it is stopped, or
needs somebody else's server, is at least read by the command line itself.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tests.command_line import invoke
from tests.docs import desk
from tests.docs.pages import ROOT, Block, everything
from tests.systems.grading.callbacks_made import error
from tests.systems.grading.pair import WRITING

from holdfast.cli import brought, cli
from holdfast.engines.run import prepare
from holdfast.engines.worker import Worker
from holdfast.kernel.submit import submit
from holdfast.main import close_systems, open_systems
from holdfast.settings import Settings, read
from holdfast.tables import cases, ops
from holdfast.transports.seam import Delivery
from holdfast_systems.grading import main_app
from holdfast_systems.grading.callbacks import receive_callback
from holdfast_systems.grading.contract import CALLBACK_QUEUE
from holdfast_systems.grading.settings import MainSettings

# `py` is other libraries' code, shown beside ours and not run.
KINDS = {"sh", "python", "py", "text", "json", "yaml", "sql", "js", "xml"}
UNTIL_STOPPED = {"up", "serve", "worker", "relay", "keeper"}
# What is not run here: by the page's block (or the whole page), why, and the test that runs it. `holdfast` lines are
# still read.
EXCEPTIONS = {
    "README.md#1": "asks a package index: what it brings is tried by tests/door/test_wheel.py",
    "docs/how-to/deploy-your-own-app.md": "commands like these are run by tests/docs/test_tutorial.py",
    "docs/how-to/use-with-django.md#2": "needs a project: run by tests/contrib/test_django.py",
    "docs/tutorial/first-job.md": "run whole by tests/docs/test_tutorial.py",
    "docs/how-to/read-a-dead-letter.md": "run by tests/acceptance/test_grading_pages.py",
    "docs/how-to/run-the-two-services-apart.md#1": "needs two databases: run by tests/acceptance/test_grading_pages.py",
    "docs/how-to/run-the-two-services-apart.md#2": "asks a server: run by tests/acceptance/test_grading_pages.py",
    "docs/how-to/compose-jobs.md": "commands like these are run by tests/cli/test_schedules.py",
    "docs/how-to/deploy-with-compose.md#1": "needs Docker: run, or checked, by tests/docs/test_docker.py",
    "docs/how-to/deploy-on-kubernetes.md": "needs a cluster: its values are rendered by tests/deploy/test_chart.py",
    "docs/how-to/put-your-own-main-app-in-front.md#1": "needs a broker: run by tests/acceptance/test_grading_pages.py",
    "docs/how-to/put-your-own-main-app-in-front.md#2": "needs Node: run by tests/interop",
    "docs/how-to/run-on-call.md#2": "needs an incident: run by tests/cli/test_incidents.py",
    "docs/how-to/run-on-call.md#3": "asks a server: run by tests/acceptance/test_grading_pages.py",
    "docs/how-to/run-behind-pgbouncer.md": "needs PgBouncer: run by tests/acceptance/test_pooler.py",
    "docs/how-to/fail-over.md": "needs a standby and a cluster: run by tests/acceptance/test_failover.py",
    "docs/how-to/run-on-call.md#1": "needs a server elsewhere: run by tests/cli/test_remote.py",
    "docs/contract/README.md#1": "run by tests/systems/grading/test_contract.py",
    "docs/contract/README.md#3": "asks a broker: the same permissions are set by tests/systems/grading/test_forged.py",
    "docs/contract/README.md#4": "asks a broker: the same permissions are set by tests/systems/grading/test_forged.py",
}
BLOCKS = {block.name: block for block in everything()}
PYTHON = {name for name, block in BLOCKS.items() if block.kind == "python"}
SHELL = {name: block for name, block in BLOCKS.items() if block.kind == "sh"}


def excepted(block: Block) -> str | None:
    return EXCEPTIONS.get(block.name) or EXCEPTIONS.get(block.page)


def lines(block: Block) -> list[str]:
    """The commands of a shell block, with their continuations and without comments."""
    joined = block.text.replace("\\\n", " ")
    return [line for line in map(str.strip, joined.splitlines()) if line and not line.startswith("#")]


def holdfast_lines() -> Iterator[tuple[str, list[str]]]:
    for name, block in SHELL.items():
        for number, line in enumerate(lines(block), 1):
            for part in re.findall(r"(?:^|\$\(|&& )(?:[A-Z_]+=\S+ )*(holdfast [^|)]*)", line):
                words = shlex.split(part.split(" || ")[0], comments=True)[1:]
                yield f"{name} line {number}", words


READ = dict(holdfast_lines())


@cache
def commands() -> Any:
    brought.add_to(cli)
    return typer.main.get_command(cli)


@pytest.mark.parametrize("name", READ)
def test_every_command_is_one_that_the_command_line_can_read(name: str) -> None:
    """Parsed to the end, not run: the command is there, and takes these options and values."""
    command, words = commands(), list(READ[name])
    context = command.make_context("holdfast", words[:1])
    while hasattr(command, "commands"):
        word = words.pop(0)
        assert word in command.commands, f"there is no command {word}"
        command = command.commands[word]
    command.make_context(command.name, words, parent=context)


@pytest.mark.parametrize("name", BLOCKS)
def test_every_block_says_what_it_is(name: str) -> None:
    block = BLOCKS[name]
    assert block.kind in KINDS, "write sh, python, text or a data format after the fence"
    if block.kind == "text":
        commanding = re.compile(r"^\s*(\$ |holdfast |make |docker |python3? |curl |export )")
        assert [line for line in block.text.splitlines() if commanding.match(line)] == []


def test_no_exception_is_out_of_date() -> None:
    pages = {block.page for block in BLOCKS.values()}
    assert [name for name in EXCEPTIONS if name not in BLOCKS and name not in pages] == []
    for name, reason in EXCEPTIONS.items():
        runners = re.findall(r"tests/[\w/.]+", reason)
        assert runners, f"{name} is run nowhere"
        for path in runners:
            assert (ROOT / path).exists(), f"{name}: {path} is gone"


@dataclass(frozen=True)
class Desk:
    """A deployment with one of everything, and the words that stand for them in the pages."""

    env: dict[str, str]
    stands_for: dict[str, str]

    def run(self, words: list[str]) -> tuple[int, str]:
        done = invoke([self.stands_for.get(word, word) for word in words], env=self.env)
        return done.exit_code, done.output


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    for name in ("DATABASE_URL", "RABBITMQ_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.syspath_prepend(ROOT / "docs" / "examples")
    commands()
    env = {"HOLDFAST_DATA_DIR": str(tmp_path), "HOLDFAST_APP": "tests.docs.desk:app"}
    return Desk(env, asyncio.run(_furnished(env)) | asyncio.run(_graded(env)))


async def _graded(env: dict[str, str]) -> dict[str, str]:
    """Both grading services, with a submission that failed."""
    opened = await open_systems(read(Settings, env), env, ["grading-main", "grading-service"])
    try:
        for one in opened:
            await one.kernel.migrate()
            await prepare(one.kernel)
        main = opened[0].kernel
        async with main.store.transaction() as tx:
            stored = await main_app.submit(main, tx, MainSettings(), "ann", "writing", WRITING)
        await receive_callback(main, Delivery(CALLBACK_QUEUE, error(stored.request_id, stored.id, "LLM_FAIL").body()))
        return {"SUBMISSION": stored.id}
    finally:
        await close_systems(opened)


async def _furnished(env: dict[str, str]) -> dict[str, str]:
    opened = await open_systems(read(Settings, env), env, None, [desk.app])
    kernel = opened[0].kernel
    try:
        await kernel.migrate()
        await prepare(kernel)
        await submit(kernel, desk.Translate, "Klingon")
        await submit(kernel, desk.Post, "Ada")
        await Worker(kernel).run_until_idle()
        waiting = await submit(kernel, desk.Translate, "Danish", delay_s=3_600)
        async with kernel.store.reading() as tx:
            letter = (await cases.page(tx, error_class="LANGUAGE_UNKNOWN"))[0].id
            group = (await cases.page(tx, error_class="EFFECT_AMBIGUOUS"))[0].fingerprint
            doubtful = (await ops.effects_page(tx, before=None, limit=1, status="review"))[0].key
        return {"JOB": waiting, "CASE": str(letter), "GROUP": group, "KEY": str(doubtful)}
    finally:
        await close_systems(opened)


RUN = sorted({block.page for block in SHELL.values() if not excepted(block)})


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN)
def test_the_commands_of_a_page_work_in_its_order(place: Desk, page: str) -> None:
    """All of a page's `holdfast` commands, one after the other, but those that run until they are stopped."""
    systems = ("grading-main", "grading-service", "conversion")
    status, said = place.run(["migrate", *(word for name in systems for word in ("--system", name))])
    assert status == 0, f"who looks at a database finds its tables there\n{said}"
    for block in SHELL.values():
        if block.page != page or excepted(block):
            continue
        for line in lines(block):
            words = shlex.split(line, comments=True)
            if words[0] == "export":
                name, _, value = words[1].partition("=")
                place.env[name] = value
            elif words[0] == "make":
                assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
            elif "--watch" not in words and not (words[1] in UNTIL_STOPPED and "--once" not in words):
                assert words[0] == "holdfast", f"{block.name} is neither run nor excepted: {line}"
                status, said = place.run(words[1:])
                assert status == 0, f"{line}\n{said}"
                if begun := re.match(r"Replay (\S+) of", said):
                    place.stands_for["REPLAY"] = begun[1]


def test_what_is_asked_of_a_server_is_served(tmp_path: Path) -> None:
    """The addresses in `curl` lines are routes."""
    asked = [path for block in SHELL.values() for path in re.findall(r"http://127\.0\.0\.1:8000(/[\w/-]*)", block.text)]
    served = (ROOT / "docs" / "reference" / "http.md").read_text()
    assert asked and [path for path in asked if f" {path}`" not in served] == []
