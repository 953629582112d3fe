"""What the outside is told: a reason for every failure, and log lines by the names of the source."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.systems.conversion.place import XML, AnyStore, Place, environment, opened

from holdfast.core.breaker import Gate
from holdfast.errors import CallError
from holdfast.kernel.observe.watch import JsonFormatter
from holdfast.stores.clock import Clock
from holdfast_systems.conversion import documents, views
from holdfast_systems.conversion.gateway import HttpGateway

FIELDS = ("event", "job_id", "status", "attempt", "duration_ms", "gateway_status", "error_code", "breaker_state")


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """What the log says of jobs, as it stands in the file."""
    found = [json.loads(JsonFormatter().format(record)) for record in caplog.records if record.name == "holdfast"]
    return [line for line in found if "job_id" in line]


@pytest.mark.spec("001.27", "K17", "C2")
async def test_an_action_of_a_worker_is_one_line_with_the_eight_fields(
    open_store: Callable[[Clock], AnyStore], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Retried, converted and refused for good: by the source's names, with the code that clients see."""
    answers = [httpx.Response(502), httpx.Response(200, stream=httpx.ByteStream(XML)), httpx.Response(422)]
    http = httpx.MockTransport(lambda request: answers.pop(0))
    gateway = HttpGateway("http://gateway.test/convert", connect=lambda url, limit_s: httpx.AsyncClient(transport=http))
    caplog.set_level(logging.INFO, logger="holdfast")
    async with opened(open_store, environment(tmp_path), gateway) as place:
        jobs = []
        for _ in range(2):
            jobs.append(await place.upload())
            await place.world.run_until_idle()
    found = lines(caplog)
    assert all(line["duration_ms"] >= 0 for line in found)
    shown = [
        {name: line[name] for name in FIELDS if name != "duration_ms"} | {"level": line["level"]} for line in found
    ]
    first, second = (job["id"] for job in jobs)
    assert [tuple(line.values()) for line in shown] == [
        ("retried", first, "queued", 1, 502, "GW_5XX", "closed", "warning"),
        ("succeeded", first, "complete", 2, 200, None, "closed", "info"),
        ("buried", second, "failed", 1, 422, "GW_4XX", "closed", "warning"),
    ]


@pytest.mark.spec("001.27", "K17")
async def test_a_line_names_an_open_breaker(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="holdfast")
    place.gateway.errors = [CallError.from_status(500, "down", {}, now_ms=0) for _ in range(50)]
    while place.kernel.gates.get("gateway") is not Gate.OPEN:
        await place.upload()
        await place.work()
    first, *_, last = lines(caplog)
    assert (first["breaker_state"], last["breaker_state"]) == ("closed", "open")


@pytest.mark.spec("C2", "C8")
async def test_a_failed_job_always_has_a_reason(place: Place) -> None:
    """Also where its settlement could not be written as it was, and nobody told the document."""
    job = await place.upload()
    async with place.kernel.store.reading() as tx:
        row = await documents.show(tx, job["id"])
    assert row is not None
    untold: Any = {**{name: row[name] for name in COLUMNS}, "state": "dead"}
    shown = views.job_json(untold, place.kernel.now())
    assert shown["error"] == {"code": "UNKNOWN", "message": "The conversion failed for an unknown reason."}


@pytest.mark.spec("C8")
def test_every_event_that_ends_a_job_ends_its_stream() -> None:
    assert {name for name, status in views.EVENTS.values() if status not in documents.LIVE} == views.FINAL


COLUMNS = [
    *("id", "owner", "filename", "source", "size", "sha256", "priority", "created_at", "queued_at", "updated_at"),
    *("finished_at", "outcome", "attempts", "error_code", "error_message", "result_size", "result_sha256"),
    *("expires_at", "source_gone", "attempt_count", "run_at", "started_at", "last_attempt_at", "job_updated_at"),
]
