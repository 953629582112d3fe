"""What the outside is told: a reason for every failure, and log lines by the names of the source."""

from __future__ import annotations

from typing import Any

import pytest
from tests.systems.conversion.place import Place

from holdfast.errors import CallError
from holdfast.kernel.watch import LogWatch
from holdfast_systems.conversion import documents, views


class Heard(LogWatch):
    """Keeps the lines of one event and the counters."""

    def __init__(self, event: str) -> None:
        super().__init__()
        self.event = event
        self.lines: list[dict[str, Any]] = []
        self.counted: list[str] = []

    def log(self, event: str, **fields: Any) -> None:
        if event == self.event:
            self.lines.append(fields)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self.counted.append(name)


@pytest.mark.spec("K17", "C2")
async def test_an_attempt_is_logged_by_the_names_of_the_source(place: Place) -> None:
    heard = place.kernel.watch = Heard("conversion")
    place.gateway.errors = [CallError.from_status(502, "at /srv/x", {}, now_ms=0)]
    job = await place.upload()
    await place.world.run_until_idle()
    first, second = heard.lines
    assert first["job_id"] == second["job_id"] == job["id"]
    assert (first["status"], first["attempt"], first["gateway_status"], first["error_code"]) == (
        "retried",
        1,
        502,
        "GW_5XX",
    )
    assert (second["status"], second["attempt"], second["error_code"]) == ("succeeded", 2, None)
    assert heard.counted.count("jobs_created") == 1


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
    *("expires_at", "source_gone", "failures", "run_at", "started_at", "last_attempt_at", "job_updated_at"),
]
