"""The attempts of a submission. Each has a request id and a deadline of its own; one is present, the rest are history.

A resubmission keeps what the attempt before it left, begins the next one and asks for its grading, in one transaction.
What still comes for an older request is kept with its attempt and changes nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.kit import Kernel
from holdfast.kit.tables import Row, Tx, audit, batch, load_statements, outbox
from holdfast_systems.grading import submissions, transitions
from holdfast_systems.grading.contract import Callback, CompletedCallback
from holdfast_systems.grading.outgoing import checked_request, request_message
from holdfast_systems.grading.settings import MainSettings
from holdfast_systems.grading.submissions import StoredSubmission

sql = load_statements(Path(__file__).with_suffix(".sql"))


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """An attempt that a later one took the place of."""

    request_id: str
    attempt: int
    created_at: int
    deadline_at: int
    finished_at: int
    failure_reason: str
    ai_result: dict[str, Any] | None
    is_late: bool
    superseded_at: int
    superseded_by: str


async def resubmit(
    kernel: Kernel, tx: Tx, settings: MainSettings, stored: StoredSubmission, actor: str
) -> StoredSubmission:
    """Begin the next attempt of a locked, failed submission; raises `Refusal` for one in any other state.

    History, new attempt, request message, event and audit are written together or not at all."""
    now = kernel.now()
    decided = transitions.resubmit(stored.state, now + settings.sla_ms(stored.skill))
    deadline_at = decided.after.deadline_at
    request = checked_request(
        kernel, stored.id, stored.user_id, stored.skill, stored.payload, deadline_at, attempt=stored.attempt + 1
    )
    await tx.rows(sql.keep, submission_id=stored.id, actor=actor, now=now)
    rows = await tx.rows(
        sql.begin,
        submission_id=stored.id,
        request_id=request.request_id,
        deadline_at=deadline_at,
        version=stored.version,
        now=now,
    )
    assert rows, f"submission {stored.id} changed under its lock"
    begun = replace(
        stored,
        request_id=request.request_id,
        attempt=request.attempt,
        updated_at=now,
        version=int(rows[0]["version"]),
        state=decided.after,
    )
    await outbox.put(tx, [request_message(stored.id, request)], now)
    await tx.notify("outbox")
    await submissions.announce(kernel, tx, begun, decided, now)
    data = {
        "attempt": begun.attempt,
        "requestId": begun.request_id,
        "supersedes": stored.request_id,
        "failureReason": stored.state.failure_reason,
    }
    await audit.write(tx, actor, "submission.resubmitted", f"submission:{stored.id}", data, now)
    return begun


async def receive_superseded(tx: Tx, callback: Callback, received_at: int) -> str | None:
    """Keep what came for an older attempt; None if there is no such attempt, else the callback's outcome in a word."""
    request_id = callback.request_id.lower()
    rows = await tx.rows(sql.lock, request_id=request_id)
    if not rows:
        return None
    if callback.submission_id not in ("", rows[0]["submission_id"]):
        return "mismatched"
    if isinstance(callback, CompletedCallback):
        result = callback.data.result.model_dump(mode="json", by_alias=True, exclude_none=True)
        is_late = int(received_at > rows[0]["deadline_at"])
        await tx.rows(sql.keep_result, request_id=request_id, ai_result=batch.text(result), is_late=is_late)
    return "superseded"


async def of_submission(tx: Tx, submission_id: str) -> list[PastAttempt]:
    """The attempts before the present one, the first first."""
    rows: Sequence[Row] = await tx.rows(sql.of_submission, submission_id=submission_id)
    return [
        PastAttempt(
            **{name: row[name] for name in PastAttempt.__slots__ if name not in ("ai_result", "is_late")},
            ai_result=None if row["ai_result"] is None else json.loads(row["ai_result"]),
            is_late=bool(row["is_late"]),
        )
        for row in rows
    ]


async def forget(tx: Tx, submission_ids: Sequence[str]) -> None:
    """Drop the history of submissions that retention has dropped."""
    await tx.rows(sql.forget, gone=batch.ids(submission_ids))
