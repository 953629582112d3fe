"""`--url`: every command of an operator answers over a server's API what it answers on the database itself."""

from __future__ import annotations

import json
import os
import re
import socket
import socketserver
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI
from typer.testing import Result

from holdfast.cli.remote import ROUTES
from holdfast.http.ops import router
from tests.cli import shop
from tests.cli.conftest import APP, Place

ROOT = Path(__file__).parents[2]


class Remote:
    """An operator's terminal without any database: it knows an address and a token."""

    def __init__(self, place: Place, url: str, token: str) -> None:
        self.place, self.url, self.token = place, url, token

    def run(self, *words: str, token: str | None = None) -> Result:
        elsewhere = Place({"HOLDFAST_DATA_DIR": "/nowhere"})
        return elsewhere.run("--url", self.url, "--token", token or self.token, *words)

    def json(self, *words: str) -> object:
        done = self.run(*words, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


@pytest.fixture
def remote(place: Place, migrated: None) -> Iterator[Remote]:
    """The shop's deployment behind a real server."""
    token = _token(place)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "holdfast", "serve", "--port", str(port), "--read-only", *APP]
    env = dict(os.environ) | place.env
    process = subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        _wait_for(process, f"http://127.0.0.1:{port}/healthz")
        yield Remote(place, f"http://127.0.0.1:{port}", token)
    finally:
        process.terminate()
        process.wait(30)


def _token(place: Place) -> str:
    done = place.run("token", "--user", "opal", "--role", "operator")
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


def _wait_for(process: subprocess.Popen[str], url: str) -> None:
    while process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            continue
    raise AssertionError(process.communicate()[0])


@pytest.mark.slow
@pytest.mark.spec("K8", "K9")
def test_a_server_answers_what_the_database_does(remote: Remote) -> None:
    place = remote.place
    paid = place.job(shop.Pay, 5)
    _, case = place.dead()
    waiting = place.job(shop.Pay, 5, work=False)
    for words in (
        ("jobs", "list"),
        ("jobs", "list", "--state", "dead"),
        ("jobs", "list", "state:succeeded"),
        ("jobs", "list", "sort:oldest", "--limit", "1"),
        ("jobs", "show", paid),
        ("dead", "list", "--kind", "shop.pay"),
        ("dead", "groups"),
        ("dead", "show", case),
        ("effects", "list"),
        ("outbox", "list"),
        ("actions", "--people"),
        ("schedules", "list"),
        ("incidents", "list"),
    ):
        there, here = remote.json(*words), place.json(*words)
        if isinstance(there, dict):
            there.pop("now", None), here.pop("now", None)  # the time of each look
        assert there == here, words
    cancelled = {"id": waiting, "system": "shop", "state": "cancelled"}
    assert remote.json("jobs", "cancel", waiting) == cancelled
    triaged = remote.run("dead", "triage", case, "--cause", "data").stdout.strip()
    assert triaged == f"Dead letter {case} is triaged as data."
    assert "triaged" in remote.run("dead", "list").stdout
    bulk = remote.json("dead", "bulk", "remediate", "--state", "triaged", "--evidence", "Fixed the amount.")
    assert isinstance(bulk, dict) and [each["id"] for each in bulk["done"]] == [case]
    assert place.items("actions", "--by", "opal", "--people")[0]["subject"] == f"case:{case}"
    assert remote.run("status").exit_code == 0


@pytest.mark.slow
def test_what_a_server_refuses_is_one_sentence(remote: Remote) -> None:
    unknown = "0191f3a0-7c1e-7abc-8def-0123456789ab"
    for words, sentence in (
        (("jobs", "show", unknown), f"There is no job {unknown}."),
        (("jobs", "retry", unknown, "--evidence", "x"), "works on the databases themselves"),
        (("jobs", "list", "--app", "tests.cli.shop:app"), "With --url give no --app"),
    ):
        done = remote.run(*words)
        assert done.exit_code == 1 and sentence in done.stderr and len(done.stderr.splitlines()) == 1, done.output
    refused = remote.run("jobs", "list", token="a.b.c")
    assert refused.exit_code == 1 and "token" in refused.stderr


@pytest.mark.parametrize("url", ["ftp://x", "jobs.example.org", "https://u:p@x", "https://x/?a=1", "https://x/#a"])
def test_an_address_that_is_none_is_wrong_usage(place: Place, url: str) -> None:
    done = place.run("--url", url, "--token", "t", "jobs", "list")
    assert done.exit_code == 2 and "--url must be like" in " ".join(done.stderr.replace("│", " ").split())


def test_a_server_that_is_not_there_is_one_sentence(place: Place) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        done = place.run("--url", url, "--token", "t", "jobs", "list")
    assert done.exit_code == 1 and done.stderr.startswith(f"{url} does not answer as a Holdfast server does: ")
    assert "token" in " ".join(place.run("--url", url, "jobs", "list").stderr.split())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_token_follows_no_redirect(place: Place, status: int) -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]") as (elsewhere, seen):
        moved = f"HTTP/1.1 {status} Moved\r\nLocation: {elsewhere}/x\r\nContent-Length: 0\r\n\r\n".encode()
        with answering(moved) as (url, asked):
            done = place.run("--url", url, "--token", "the-token", "jobs", "list")
    assert done.exit_code == 1
    assert done.stderr.strip() == f"{url} sends elsewhere, to {elsewhere}/x; give that address."
    assert len(asked) == 1 and b"the-token" in asked[0]
    assert seen == []


CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n["


@pytest.mark.parametrize("answer", [b"220 mail.example ESMTP\r\n", CUT, b""])
def test_what_is_no_server_of_ours_is_one_sentence(place: Place, answer: bytes) -> None:
    with answering(answer) as (url, _):
        done = place.run("--url", url, "--token", "t", "jobs", "list")
    assert done.exit_code == 1 and len(done.stderr.splitlines()) == 1, done.output
    assert done.stderr.startswith(f"{url} does not answer as a Holdfast server does: ")


@contextmanager
def answering(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """The URL of a server that answers every request with these bytes, and what it was asked."""
    asked: list[bytes] = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            asked.append(self.request.recv(65_536))
            self.request.sendall(answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            serving.join()


def test_every_route_of_a_verb_is_one_of_the_servers() -> None:
    web = FastAPI()
    web.include_router(router)
    known = {(method.upper(), _plain(path)) for path, methods in web.openapi()["paths"].items() for method in methods}
    for route in ROUTES.values():
        for word in WORDS_OF.get(route.path.rpartition("/")[2], ("",)):
            path = route.path.rpartition("/")[0] + f"/{word}" if word else route.path
            assert (route.method, _plain(f"/api/ops{path}")) in known, path


WORDS_OF = {
    "{form}": ("triage", "remediate", "replay", "resolve"),
    "{open}": ("open", "close"),
    "{paused}": ("pause", "resume"),
    "{drain}": ("drain", "undrain"),
    "{verb}": ("pause", "resume", "stop"),
}


def _plain(path: str) -> str:
    return re.sub(r"\{\w+\}", "*", path)
