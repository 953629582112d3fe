"""Everybody outside a conversion and review deployment: gateway, mail provider, model, and those who ask for work.

The deployment is one `holdfast up` process. Nothing here knows its code: it speaks HTTP and reads tables.

Why so: docs/decisions/0015-proven-from-outside.md
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from holdfast.http.auth import token_for
from holdfast.settings import Settings
from tests.acceptance.grading_site import PATIENCE_S, SECRET
from tests.acceptance.process import Nursery, Process, until
from tests.services.child import free_ports, listens

HELD_S_MAX = 60.0
XML = b"<?xml version='1.0'?><TEI><p>text</p></TEI>"
DIFF = b"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,2 @@\n one\n+two\n"
_NAME = re.compile(rb"%doc-(\w+)")


@dataclass(frozen=True)
class Answer:
    """What somebody outside says to a call."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)


class Outside:
    """The providers. `gateway` and `mail` hold the next answers; when they are used up, all is well, except for what
    `gateway_always` and `mail_always` say. While `is_held` a conversion gets its answer by `answer_one` only."""

    def __init__(self) -> None:
        self.url = ""
        self.gateway: deque[Answer] = deque()
        self.gateway_always: Answer | None = None
        self.converted: list[str] = []
        self.is_held = False
        self._permits = threading.Semaphore(0)
        self.mail: deque[Answer] = deque()
        self.mail_always: Answer | None = None
        self.sent: list[str] = []
        self.asked_ids: list[str] = []

    def convert(self, body: bytes) -> Answer:
        name = _NAME.search(body)
        self.converted.append(name[1].decode() if name else "")
        answer = self.gateway.popleft() if self.gateway else self.gateway_always
        if self.is_held:
            self._permits.acquire(timeout=HELD_S_MAX)
        return answer or Answer(body=XML)

    def answer_one(self) -> None:
        """Let one of the conversions that are held have its answer."""
        self._permits.release()

    def send(self, body: bytes) -> Answer:
        (to,) = json.loads(body)["to"]
        self.sent.append(to)
        answer = self.mail.popleft() if self.mail else self.mail_always
        return answer or Answer(body=json.dumps({"id": f"mail-{len(self.sent)}"}).encode())

    def post(self, path: str, body: bytes) -> Answer:
        if path == "/convert":
            return self.convert(body)
        if path == "/emails":
            return self.send(body)
        content = json.dumps({"summary": "It adds a line.", "findings": []})
        choice = {"message": {"content": content}, "finish_reason": "stop"}
        return Answer(body=json.dumps({"choices": [choice], "usage": {}}).encode())

    def get(self, path: str) -> Answer:
        if path.startswith("/emails/"):
            self.asked_ids.append(path.removeprefix("/emails/"))
            return Answer(body=json.dumps({"id": self.asked_ids[-1]}).encode())
        if path.startswith("/lookup"):
            return Answer(body=b'{"data": []}')
        return Answer(body=DIFF)


class _Handler(BaseHTTPRequestHandler):
    outside: Outside
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._say(self.outside.get(self.path))

    def do_POST(self) -> None:
        self._say(self.outside.post(self.path, self.rfile.read(int(self.headers["Content-Length"]))))

    def _say(self, answer: Answer) -> None:
        try:
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)
        except OSError:
            self.close_connection = True  # the caller has gone

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: a test reads what was called."""


@dataclass
class Deployed:
    """The process, and what a user, an operator and a service do with it."""

    process: Process
    nursery: Nursery
    env: dict[str, str]
    outside: Outside

    def client(self, *roles: str) -> httpx.AsyncClient:
        bearer = token_for(Settings(jwt_secret=SECRET), "ann", roles or ("learner",))
        url = f"http://127.0.0.1:{self.env['HOLDFAST_PORT']}"
        return httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {bearer}"}, timeout=30, verify=False)

    async def upload(self, name: str) -> str:
        """A document that says its own name to the gateway; gives the id of its job."""
        pdf = b"%PDF-1.7\n%doc-" + name.encode() + b"\n" + b"text " * 400
        async with self.client() as client:
            answer = await client.post("/api/jobs", files={"file": (f"{name}.pdf", pdf)})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    async def job(self, job_id: str) -> dict[str, Any]:
        async with self.client() as client:
            return dict((await client.get(f"/api/jobs/{job_id}")).json())

    async def until_job(self, job_id: str, status: str, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        async def there() -> dict[str, Any] | None:
            shown = await self.job(job_id)
            return shown if shown["status"] == status else None

        shown = await until(there, f"the job to be {status}", patience_s, process=self.process)
        assert shown is not None
        return shown

    async def review(self, changelist: str, to: str) -> None:
        source = {"type": "url", "url": f"{self.outside.url}/{changelist}.diff"}
        asked = {"idempotency_key": changelist, "review_version": 1, "recipients": [to], "source": source}
        async with self.client("service") as client:
            answer = await client.post(f"/api/changelists/{changelist}/reviews", json=asked)
        assert answer.status_code == 201, answer.text

    async def until_review(self, changelist: str, *statuses: str) -> dict[str, Any]:
        async def there() -> dict[str, Any] | None:
            async with self.client("service") as client:
                shown = dict((await client.get(f"/api/changelists/{changelist}/reviews/1")).json())
            return shown if shown["status"] in statuses else None

        shown = await until(there, f"the review to be {statuses}", PATIENCE_S, process=self.process)
        assert shown is not None
        return shown

    def query(self, database: str, statement: str, *values: str) -> list[tuple[Any, ...]]:
        """A statement of somebody with the database in their hands; gives its rows."""
        with sqlite3.connect(self.env[database].removeprefix("sqlite:///"), timeout=30) as file:
            return file.execute(statement, values).fetchall()


PACE = {
    "WORKER_CONCURRENCY": "1",
    "RETRY_BASE_DELAY_MS": "300",
    "RETRY_JITTER_MAX_MS": "0",
    "GATEWAY_HOLD_MAX_SEC": "3",
    "REVIEW_RETRY_BASE_SEC": "0.05",
    "REVIEW_RETRY_CAP_SEC": "0.05",
    "REVIEW_MAIL_LATE_SEC": "0",
    "REVIEW_PRIVATE_HOSTS": "127.0.0.1",
    "MAIL_HTTP_LOOKUP_PATH": "/lookup",
    "MAIL_HTTP_ID_PATH": "/emails/{id}",
    "MAIL_HTTP_KEY": "k",
    "HOLDFAST_LOG_LEVEL": "WARNING",
}


@contextmanager
def deployed(nursery: Nursery, folder: Path) -> Iterator[Deployed]:
    """A conversion and review system in one process, with everybody outside; ended with the block."""
    outside = Outside()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"outside": outside}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    outside.url = f"http://127.0.0.1:{server.server_port}"
    port = free_ports(1)[0]
    env = PACE | {
        "HOLDFAST_PORT": str(port),
        "HOLDFAST_JWT_SECRET": SECRET,
        "HOLDFAST_DATA_DIR": str(folder),
        "DATABASE_URL": f"sqlite:///{folder / 'conversion.db'}",
        "REVIEW_DATABASE_URL": f"sqlite:///{folder / 'review.db'}",
        "GATEWAY_URL": f"{outside.url}/convert",
        "MAIL_HTTP_URL": outside.url,
        "OPENAI_BASE_URL": f"{outside.url}/v1",
    }
    process = nursery.start("up", "--system", "conversion", "--system", "review", env=env)
    try:
        asyncio.run(until(partial(_answers, process, port), "the deployment to answer", PATIENCE_S, process=process))
        yield Deployed(process, nursery, env, outside)
    finally:
        process.send(signal.SIGKILL)
        server.shutdown()
        server.server_close()


async def _answers(process: Process, port: int) -> bool:
    assert process.exit_code() is None, process.tail()
    return listens(port)
