"""What a client is shown of a job: its JSON, its events, the banner. camelCase, ISO times, nothing internal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from holdfast.http.stream import Event
from holdfast.http.tickets import iso
from holdfast.kit import Gate
from holdfast.kit.tables import Row, Tx, events, providers
from holdfast_systems.conversion.codes import TABLE, Code
from holdfast_systems.conversion.documents import status_of

BANNER = "Converter busy - jobs will resume automatically"
HELD = "The converter is not available; the job resumes by itself."
COME_BACK = "The converter asked to be called later."
PRIORITIES = {"high": 1, "normal": 2, "low": 3}
_PRIORITY_NAMES = {level: name for name, level in PRIORITIES.items()}

# The kernel's events -> the source's names, and the status they lead to. What is not here is not for clients.
EVENTS: dict[str, tuple[str, str]] = {
    "created": ("queued", "queued"),
    "claimed": ("processing", "processing"),
    "progress": ("progress", "processing"),
    "retried": ("retry", "queued"),
    "lost": ("retry", "queued"),
    "held": ("queued", "queued"),
    "parked": ("queued", "queued"),
    "snoozed": ("queued", "queued"),
    "rewound": ("queued", "queued"),
    "released": ("queued", "queued"),
    "replayed": ("queued", "queued"),
    "succeeded": ("complete", "complete"),
    "buried": ("failed", "failed"),
    "expired": ("expired", "expired"),
    "result_expired": ("expired", "expired"),
    "cancelled": ("cancelled", "cancelled"),
}
# For a job that died where its own settlement could not be written: then nobody told the document why.
NO_REASON = {"code": Code.UNKNOWN.value, "message": TABLE[Code.UNKNOWN].message}
FINAL = frozenset({"complete", "failed", "expired", "cancelled"})


def job_json(row: Row, now: int) -> dict[str, Any]:
    """A document and its job, as its owner sees them."""
    status = status_of(row, now)
    error = None if row["error_code"] is None else {"code": row["error_code"], "message": row["error_message"]}
    waiting = status == "queued" and row["run_at"] is not None and row["run_at"] > now
    has_source = not row["source_gone"]
    return {
        "id": row["id"],
        "status": status,
        "fileName": row["filename"],
        "size": row["size"],
        "sha256": row["sha256"],
        "priority": _PRIORITY_NAMES.get(row["priority"], "normal"),
        "createdAt": iso(row["created_at"]),
        "queuedAt": iso(row["queued_at"]),
        "updatedAt": iso(max(row["updated_at"], row["job_updated_at"] or 0)),
        "startedAt": _when(row["started_at"]),
        "finishedAt": _when(row["finished_at"] if status in FINAL else None),
        "attemptCount": _attempts(row),
        "lastAttemptAt": _when(row["last_attempt_at"]),
        "retryAfter": iso(row["run_at"]) if waiting else None,
        "waitingFor": _waits_for(row, error, waiting) if status == "queued" else None,
        "expiresAt": _when(row["expires_at"] if status in ("complete", "expired") else None),
        "sourceAvailable": has_source,
        "canRetry": status == "failed" and has_source,
        "error": (error or NO_REASON) if status == "failed" else None,
        "lastError": error if status in ("queued", "processing") else None,
        "result": _result(row) if status == "complete" else None,
    }


def _waits_for(row: Row, error: dict[str, Any] | None, waiting: bool) -> str | None:
    """Why a queued job does not run, in a sentence; None if it only waits for its turn."""
    if row["hold"] == "breaker":
        return HELD
    if not waiting:
        return None
    return str(error["message"]) if error else COME_BACK


def _attempts(row: Row) -> int:
    """Attempts that count, the one under way included; by the document's own note where the job's row is gone."""
    return int(row["attempts"] if row["state"] is None else row["attempt_count"])


def _result(row: Row) -> dict[str, Any]:
    url = f"/api/jobs/{row['id']}/result"
    return {"url": url, "size": row["result_size"], "sha256": row["result_sha256"]}


def _when(at_ms: int | None) -> str | None:
    return None if at_ms is None else iso(at_ms)


def events_of(job_id: str, steps: Sequence[tuple[events.EventPosition, events.JobStep]], *, whole: bool) -> list[Event]:
    """A job's events for its stream. The last one ends the stream if it ends the job; `whole`: no more rows follow."""
    shown = [event for event in (_event(job_id, *step) for step in steps) if event is not None]
    if shown and whole and shown[-1].name in FINAL:
        last = shown.pop()
        shown.append(Event(last.id, last.name, last.data, final=True))
    return shown


def _event(job_id: str, place: events.EventPosition, step: events.JobStep) -> Event | None:
    if step.type not in EVENTS:
        return None
    name, status = EVENTS[step.type]
    data: dict[str, Any] = {"id": job_id, "status": status, "at": iso(step.at)}
    meta = json.loads(step.data) if step.data else {}
    if name == "retry" and "run_at" in meta:
        data["retryAfter"] = iso(meta["run_at"])
    return Event(str(place), name, data)


async def banner(tx: Tx, provider: str, now: int) -> str | None:
    """What to tell users while dispatch is paused, by the breaker or because the converter asked for it."""
    row = await providers.read(tx, provider)
    asked = row.not_before is not None and row.not_before > now
    return BANNER if asked or row.state.gate is not Gate.CLOSED else None
