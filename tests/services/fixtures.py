"""The pytest fixtures over the private servers. A server starts once a run, and only when a test asks for it.

    postgres_url      a fresh database           postgres_server    the cluster: restart(), halt(), resume()
    rabbitmq_url      a fresh virtual host       rabbitmq_server    the node:    restart(), halt(), resume()
    pgbouncer         starts a pooler before the cluster: pgbouncer("transaction"), with kill() and begin()

A server that cannot be had: its tests skip at home, saying why, and fail when CI=true.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import hypothesis
import pytest

from tests.services.child import ServerUnavailable
from tests.services.pgbouncer import PgBouncer
from tests.services.postgres import PostgresServer
from tests.services.rabbitmq import RabbitMQServer

SESSIONS = {"transaction": 3, "session": 20}
WHOLE = {
    "acceptance",
    "browser",
    "cli",
    "contrib",
    "deploy",
    "door",
    "http",
    "interop",
    "playground",
    "proof",
    "security",
}
"""The folders whose tests open a whole deployment, a command line, an application or a world, again and again."""
ALL_SLOW = re.compile(r"^pytestmark = (\[[^]]*)?pytest\.mark\.slow\b", re.MULTILINE)
"""A file that says so of all its tests."""
DEPLOYED = {"client", "deploy", "pair", "place", "sure", "world"}
"""The fixtures of the three systems that do the same."""


def pytest_configure(config: pytest.Config) -> None:
    """Let SIGTERM end a run as Ctrl-C does: in order, with every server stopped and its folder removed. A shell that
    puts the run into the background has SIGINT ignored, which what we start would inherit. With --fast, Hypothesis
    tries fewer examples."""
    if config.getoption("--fast"):
        hypothesis.settings.register_profile("fast", max_examples=20)
        hypothesis.settings.load_profile("fast")
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="only what needs no server, no deployment and little time")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --fast, do not even read a file or a folder of which no test would be run: half of them are such."""
    if not config.getoption("--fast"):
        return None
    if not WHOLE & {collection_path.name, collection_path.parent.name}:
        return True if collection_path.suffix == ".py" and _is_all_slow(collection_path.read_text()) else None
    files = collection_path.glob("*.py") if collection_path.is_dir() else [collection_path]
    return None if any("mark.fast" in file.read_text() for file in files) else True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --fast, leave out what needs a server, and what is asked of a whole system."""
    if config.getoption("--fast"):
        left_out = {item for item in items if not _is_fast(item)}
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    try:
        server = PostgresServer()
    except ServerUnavailable as reason:
        do_without(reason)
    try:
        server.begin()
        yield server
    except ServerUnavailable as reason:
        do_without(reason)
    finally:
        server.stop()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a database that only this test uses."""
    url = postgres_server.create_database()
    yield url
    postgres_server.give_back(url)


@pytest.fixture
def pgbouncer(postgres_server: PostgresServer) -> Iterator[Callable[[str], PgBouncer]]:
    """Starts a pooler before the cluster, in the mode that it is given; few sessions, so that they are shared."""
    made: list[PgBouncer] = []

    def begin(mode: str) -> PgBouncer:
        try:
            made.append(PgBouncer(postgres_server, mode, SESSIONS[mode]))
            made[-1].begin()
        except ServerUnavailable as reason:
            do_without(reason)
        return made[-1]

    yield begin
    for each in made:
        each.stop()


@pytest.fixture(scope="session")
def rabbitmq_server() -> Iterator[RabbitMQServer]:
    try:
        server = RabbitMQServer()
    except ServerUnavailable as reason:
        do_without(reason)
    try:
        server.begin()
        server.wait_ready()
        yield server
    except ServerUnavailable as reason:
        do_without(reason)
    finally:
        server.stop()


@pytest.fixture
def rabbitmq_url(rabbitmq_server: RabbitMQServer) -> Iterator[str]:
    """The URL of a virtual host that only this test uses: the contract's queue names are free in it."""
    url = rabbitmq_server.create_vhost()
    yield url
    rabbitmq_server.delete_vhost(url)


def _is_all_slow(text: str) -> bool:
    return ALL_SLOW.search(text) is not None and "mark.fast" not in text


def _is_fast(item: pytest.Item) -> bool:
    if item.get_closest_marker("fast"):
        return True
    folder = item.nodeid.split("/")[1]
    whole = folder in WHOLE or (folder == "systems" and DEPLOYED & set(getattr(item, "fixturenames", ())))
    return not (whole or item.get_closest_marker("slow") or _needs_a_server(item))


def _needs_a_server(item: pytest.Item) -> bool:
    params = getattr(getattr(item, "callspec", None), "params", {})
    words = {str(value) for value in params.values()}
    needs = {"postgres_server", "rabbitmq_server"} & set(getattr(item, "fixturenames", ()))
    return (bool(needs) and not words & {"sqlite", "memory"}) or bool(words & {"postgres", "rabbitmq"})


def do_without(reason: ServerUnavailable | str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(str(reason), pytrace=False)
    pytest.skip(str(reason))
