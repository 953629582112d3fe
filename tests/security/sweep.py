"""Looks for words in everything that a deployment leaves behind or shows: databases, files, logs, metrics, traces,
answers of the operator's API."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from opentelemetry.sdk.trace import ReadableSpan
from tests.security.deployment import Deployment

from holdfast.kernel.observe.watch import JsonFormatter, TextFormatter

Place = tuple[str, str]
"""Where a text was found, and the text."""


@dataclass
class Lines(logging.Handler):
    """Every line of every logger, in both formats, down to DEBUG."""

    formats: Sequence[logging.Formatter] = field(default_factory=lambda: [JsonFormatter(), TextFormatter()])
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(logging.DEBUG)

    def __hash__(self) -> int:
        return id(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "httpx" and "http://holdfast/" in record.getMessage():
            return  # the test's own client, which is no part of the deployment
        self.lines += [one.format(record) for one in self.formats]

    def texts(self) -> Iterator[Place]:
        yield from (("log", line) for line in self.lines)


def rows(folder: Path) -> Iterator[Place]:
    """Every value of every table of every database in a folder, as `table.column`."""
    for path in sorted(folder.glob("*.db")):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in tables:
                for row in map(dict, database.execute(f'SELECT * FROM "{table}"')):
                    yield from ((f"{table}.{name}", str(value)) for name, value in row.items() if value is not None)


def raw(folder: Path) -> Iterator[Place]:
    """Every byte of every file: what a row does not show any more may still be on its page."""
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        yield f"file {path.relative_to(folder)}", path.read_bytes().decode("latin-1")


def spans(finished: Iterable[ReadableSpan]) -> Iterator[Place]:
    for one in finished:
        events = [(event.name, dict(event.attributes or {})) for event in one.events]
        yield f"span {one.name}", repr((one.name, dict(one.attributes or {}), events, one.status.description))


LISTS = {
    "/api/ops/jobs": "job_id",
    "/api/ops/dead-letters": "case_id",
    "/api/ops/incidents": "incident_id",
    "/api/ops/outbox": "",
    "/api/ops/effects": "",
    "/api/ops/audit": "",
}
"""The lists of the console, and how the route of one of their items names it."""


async def answers(place: Deployment) -> Iterator[Place]:
    """Everything that an operator, and so the console, can be shown; and the metrics."""
    client = place.client("olga", "operator")
    found: list[Place] = []

    async def ask(path: str) -> Any:
        answer = await client.get(path)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        found.append((f"GET {path}", answer.text + repr(sorted(answer.headers.items()))))
        return answer.json() if answer.headers["content-type"] == "application/json" else None

    everything = place.web.openapi()["paths"]
    for path in (each for each, verbs in everything.items() if each.startswith("/api/ops/") and "get" in verbs):
        is_elsewhere = path == "/api/ops/changes" or path.startswith("/api/ops/service/")  # a stream; another process
        if "{" not in path and path not in LISTS and not is_elsewhere:
            await ask(path)
    for path in LISTS:
        listed = await ask(f"{path}?limit=200")
        assert listed["next"] is None
        for item in listed["items"] if f"{path}/{{{LISTS[path]}}}" in everything else ():
            await ask(f"{path}/{item['id']}")
    for item in (await ask("/api/ops/incidents"))["items"]:
        await ask(f"/api/ops/incidents/{item['id']}/post-mortem")
    for item in (await ask("/api/ops/breakers"))["items"]:
        await ask(f"/api/ops/breakers/{item['name']}/history?system={item['system']}")
    await ask("/metrics")
    await ask("/readyz")
    return iter(found)


def hits(planted: Iterable[str], places: Iterable[Place]) -> set[tuple[str, str]]:
    """Which word was found where."""
    wanted = list(planted)
    return {(word, where) for where, text in places for word in wanted if word in text}


def listed(found: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"{word} in {where}" for word, where in sorted(found))


def as_text(answer: httpx.Response) -> str:
    return answer.text + json.dumps(dict(answer.headers))
