"""The two grading services as they are deployed: real processes, a database each, a broker between them, a model.

The test is everybody else: the learner (HTTP), a foreign main app or grading service (AMQP), and the one who kills.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import aio_pika
import httpx
import psycopg
from psycopg.rows import dict_row

from holdfast.http.auth import token_for
from holdfast.settings import Settings
from holdfast_systems.grading.contract import EXCHANGE, QUEUES
from tests.acceptance.model_endpoint import Model
from tests.acceptance.process import Nursery, Process, until
from tests.services.child import free_ports, listens
from tests.services.postgres import PostgresServer

SECRET = "only-for-tests-and-at-least-32-characters"
PATIENCE_S = 90.0
ENDS = ("COMPLETED", "REVIEW_REQUIRED")
# Retries within a second, but leases long enough for a busy machine: a lost lease would be a second call of the model.
PACE = {
    "WORKER_LEASE_TTL_SEC": "5",
    "HOLDFAST_RENEW_SEC": "1",
    "GRADING_RETRY_BASE_SEC": "0.1",
    "GRADING_RETRY_JITTER_SEC": "0.1",
    "LLM_RUNS": "1",
    "HOLDFAST_CELERY_PROCESSES": "2",
    "HOLDFAST_BELL_AGAIN_SEC": "2",
    "HOLDFAST_LOG_LEVEL": "INFO",
    # The nets below the wake-ups: with six processes a site polls more than it works.
    "HOLDFAST_POLL_SEC": "0.5",
    "HOLDFAST_REAP_SEC": "0.5",
    "OUTBOX_POLL_INTERVAL_MS": "500",
}
Rows = list[dict[str, Any]]


@dataclass
class MainApp:
    """A main app that answers HTTP."""

    process: Process
    url: str

    def client(self, user: str = "ann", *roles: str) -> httpx.AsyncClient:
        bearer = token_for(Settings(jwt_secret=SECRET), user, roles or ("learner",))
        headers = {"Authorization": f"Bearer {bearer}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30, verify=False)

    async def submit(self, text: str = "1", user: str = "ann", key: str | None = None) -> dict[str, Any]:
        """Submit a text that names itself, and expect to be told that it is kept."""
        async with self.client(user) as client:
            headers = {"Idempotency-Key": key or str(uuid.uuid4())}
            answer = await client.post("/api/submissions", json=writing(text), headers=headers)
        assert answer.status_code == 201, answer.text
        body: dict[str, Any] = answer.json()
        return body

    async def show(self, submission_id: str, user: str = "ann") -> dict[str, Any]:
        async with self.client(user) as client:
            body: dict[str, Any] = (await client.get(f"/api/submissions/{submission_id}")).json()
        return body

    async def until_status(self, submission_id: str, *statuses: str) -> dict[str, Any]:
        async def there() -> dict[str, Any] | None:
            shown = await self.show(submission_id)
            return shown if shown["status"] in statuses else None

        found = await until(there, f"{' or '.join(statuses)}", PATIENCE_S, process=self.process)
        assert found is not None
        return found


@dataclass
class GradingSite:
    """One deployment: two databases, a virtual host, a model, a folder. `engine` runs the grading service's jobs."""

    main_db: str
    service_db: str
    broker: str
    nursery: Nursery
    folder: Path
    model: Model
    engine: str = "asyncio"
    processes: list[Process] = field(default_factory=list)

    async def main(self, **env: str) -> MainApp:
        """`holdfast serve --system grading-main`, when it answers. A port may be taken meanwhile: then another."""
        port = free_ports(1)[0]
        process = self._start("serve", "--system", "grading-main", HOLDFAST_PORT=str(port), **env)

        async def answers() -> bool:
            return process.exit_code() is not None or listens(port)

        await until(answers, "the main app to answer", PATIENCE_S, process=process)
        if process.exit_code() is not None and "is the port taken?" in process.tail():
            return await self.main(**env)
        assert process.exit_code() is None, process.tail()
        return MainApp(process, f"http://127.0.0.1:{port}")

    def service(self, **env: str) -> Process:
        """`holdfast worker --system grading-service`, on the engine of this site."""
        return self._start("worker", "--system", "grading-service", HOLDFAST_ENGINE=self.engine, **env)

    def relay(self, **env: str) -> Process:
        return self._start("relay", "--system", "grading-main", **env)

    async def run(self, *argv: str) -> tuple[int, str]:
        """A command of `holdfast`, to its end: its exit code, and all it printed."""
        process = self._start(*argv, HOLDFAST_LOG_LEVEL="ERROR")
        return await process.until_ended(PATIENCE_S), process.log.read_text()

    def _start(self, *argv: str, **env: str) -> Process:
        given = {
            "MAIN_DATABASE_URL": self.main_db,
            "GRADING_DATABASE_URL": self.service_db,
            "RABBITMQ_URL": self.broker,
            "OPENAI_BASE_URL": self.model.url,
            "HOLDFAST_JWT_SECRET": SECRET,
            "HOLDFAST_DATA_DIR": str(self.folder),
        }
        process = self.nursery.start(*argv, env=PACE | given | env)
        self.processes.append(process)
        return process

    async def kill(self, process: Process) -> None:
        """SIGKILL, for the process and all it started: as if its machine were gone."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.until_ended()

    def in_main(self, query: str) -> Rows:
        return _rows(self.main_db, query)

    def in_service(self, query: str) -> Rows:
        return _rows(self.service_db, query)

    async def until_in_main(self, query: str, holds: Callable[[Rows], bool], what: str) -> Rows:
        return await _until_rows(self.main_db, query, holds, what, self.processes[-1])

    async def until_in_service(self, query: str, holds: Callable[[Rows], bool], what: str) -> Rows:
        return await _until_rows(self.service_db, query, holds, what, self.processes[-1])

    @asynccontextmanager
    async def stranger(self) -> AsyncIterator[Stranger]:
        """A foreign service on the broker, which declares what the contract says and nothing else."""
        async with await aio_pika.connect(self.broker) as connection:
            channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
            exchange = await channel.declare_exchange(EXCHANGE, aio_pika.ExchangeType.DIRECT, durable=True)
            for name in QUEUES:
                queue = await channel.declare_queue(name, durable=True)
                await queue.bind(exchange, name)
            yield Stranger(channel, exchange)

    def clear(self) -> None:
        for process in self.processes:
            process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass
class Stranger:
    """Speaks the contract by hand, with none of our code."""

    channel: aio_pika.abc.AbstractChannel
    exchange: aio_pika.abc.AbstractExchange

    async def publish(self, queue: str, body: dict[str, Any] | bytes) -> None:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        message = aio_pika.Message(text, content_type="application/json; charset=utf-8", delivery_mode=2)
        await self.exchange.publish(message, routing_key=queue, mandatory=True, timeout=30)

    async def take(self, queue: str, enough: Callable[[list[dict[str, Any]]], bool], what: str) -> list[dict[str, Any]]:
        """Messages of a queue, taken and acked one by one until they are enough."""
        found: list[dict[str, Any]] = []
        source = await self.channel.get_queue(queue)

        async def more() -> bool:
            while (message := await source.get(no_ack=False, fail=False, timeout=30)) is not None:
                found.append(json.loads(message.body))
                await message.ack()
            return enough(found)

        await until(more, f"{what} on {queue}", PATIENCE_S)
        return found

    async def depth(self, queue: str) -> int:
        declared = (await self.channel.declare_queue(queue, durable=True)).declaration_result
        return declared.message_count or 0


@contextmanager
def deployed(
    server: PostgresServer, templates: tuple[str, str], broker: str, nursery: Nursery, folder: Path, model: Model
) -> Iterator[GradingSite]:
    """A site on copies of two migrated databases."""
    copies = [server.copy_of(url) for url in templates]
    site = GradingSite(*copies, broker, nursery, folder, model)
    try:
        yield site
    finally:
        site.clear()
        for template, url in zip(templates, copies, strict=True):
            server.take_copy(template, url)


def writing(text: str) -> dict[str, Any]:
    """A submission whose text says its own name to the model."""
    words = "Cities grow because people look for work and company. " * 3
    return {"skill": "writing", "payload": {"text": f"{words}#{text}", "taskType": "essay", "questionId": "q"}}


def request(text: str, request_id: str | None = None, *, minutes: float = 20) -> dict[str, Any]:
    """A `grading.request` as a foreign main app writes it."""
    return {
        "requestId": request_id or str(uuid.uuid4()),
        "submissionId": f"s-{text}",
        "userId": "u-1",
        "attempt": 1,
        "deadlineAt": (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z"),
        **writing(text),
    }


def callback(
    submission: dict[str, Any], kind: str, data: dict[str, Any], event_id: str | None = None
) -> dict[str, Any]:
    """A `grading.callback` as a foreign grading service writes it."""
    return {
        "requestId": submission["requestId"],
        "submissionId": submission["id"],
        "eventId": event_id or str(uuid.uuid4()),
        "kind": kind,
        "eventAt": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        "data": data,
    }


def graded(score: float = 7.0, band: str = "B2") -> dict[str, Any]:
    """The data of a `completed` that asks for no review."""
    sure = {"confidenceScore": 95, "reviewRequired": False, "auditFlag": False}
    return {"result": {"overallScore": score, "band": band, **sure}}


async def asserted_once(site: GradingSite, main: MainApp, submission: dict[str, str]) -> None:
    """The submission was graded, and both sides know of one result."""
    await main.until_status(submission["id"], *ENDS)
    jobs = site.in_service(f"SELECT status FROM grading_jobs WHERE request_id = '{submission['requestId']}'")
    assert [job["status"] for job in jobs] == ["completed"]
    events = site.in_main(f"SELECT kind FROM submission_events WHERE submission_id = '{submission['id']}'")
    told = Counter(event["kind"] for event in events)
    assert told["grading.completed"] + told["grading.review_required"] == 1 and not told["grading.failed"]


def _rows(url: str, query: str) -> Rows:
    """By a session that is kept: the tests look many times a second. A new one, if the server was restarted."""
    try:
        return _session(url).execute(query.encode()).fetchall()
    except psycopg.OperationalError:
        _session.cache_clear()
        return _session(url).execute(query.encode()).fetchall()


@lru_cache(maxsize=4)
def _session(url: str) -> psycopg.Connection[dict[str, Any]]:
    return psycopg.connect(url, autocommit=True, row_factory=dict_row)


async def _until_rows(url: str, query: str, holds: Callable[[Rows], bool], what: str, process: Process) -> Rows:
    seen: list[Rows] = [[]]

    async def look() -> bool:
        seen[0] = _rows(url, query)
        return holds(seen[0])

    await until(look, what, PATIENCE_S, process=process)
    return seen[0]
