"""The operator's desk of the main app: submissions by how they stand, and one with all that came for it.

The API, the command line and the console ask here, so that they cannot differ."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast import InvalidInput
from holdfast.kit import Kernel, iso
from holdfast.kit.tables import Row, Tx, audit, load_statements
from holdfast_systems.grading import attempts, submissions
from holdfast_systems.grading.submission_ids import UUID, checked_id
from holdfast_systems.grading.submission_views import attempt_for_operator, for_operator
from holdfast_systems.grading.submissions import StoredSubmission

sql = load_statements(Path(__file__).with_suffix(".sql"))

CALLBACKS_MAX = 200
LAST = 2**62
LAST_ID, BEGINNING_MIN = "ffffffff-ffff-ffff-ffff-ffffffffffff", 8


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which submissions are asked for; None asks for any."""

    status: str | None = None
    reason: str | None = None
    user_id: str | None = None
    is_late: bool | None = None
    is_flagged: bool | None = None


async def page(tx: Tx, wanted: Wanted, before: str | None, limit: int) -> list[StoredSubmission]:
    """The submissions that fit, the newest first."""
    rows = await tx.rows(
        sql.page,
        before=before,
        status=wanted.status,
        reason=wanted.reason,
        user_id=wanted.user_id,
        is_late=None if wanted.is_late is None else int(wanted.is_late),
        is_flagged=None if wanted.is_flagged is None else int(wanted.is_flagged),
        limit=limit,
    )
    return [submissions.from_row(row) for row in rows]


async def find_id(tx: Tx, given: str) -> str:
    """The id of the submission that begins so, as a list prints it. Refuses a beginning of several."""
    last = given.lower() + LAST_ID[len(given) :]
    if len(given) < BEGINNING_MIN or len(given) >= len(LAST_ID) or not UUID.fullmatch(last):
        return checked_id(given)
    found = [row.id for row in await page(tx, Wanted(), last, 2) if row.id.startswith(given.lower())]
    if len(found) > 1:
        raise InvalidInput(f"Several submissions begin with {given}: {', '.join(found)}. Give more of it.")
    return found[0] if found else checked_id(given)


async def show(kernel: Kernel, submission_id: str) -> dict[str, Any] | None:
    """One submission whole: its results, its attempts, every callback that named it, and who did what to it."""
    async with kernel.store.reading() as tx:
        stored = await submissions.show(tx, submission_id)
        if stored is None:
            return None
        history = await attempts.of_submission(tx, stored.id)
        answered = await tx.rows(sql.callbacks_of, id=stored.id, name=stored.id, limit=CALLBACKS_MAX)
        refused = await tx.rows(sql.refused_of, id=stored.id, name=stored.id, limit=CALLBACKS_MAX)
        acts = await audit.of_subject(tx, f"submission:{stored.id}")
    return for_operator(stored) | {
        "payload": stored.payload,
        "attempts": [attempt_for_operator(past) for past in history],
        "callbacks": [_callback(row) for row in answered],
        "refusedCallbacks": [shown_refusal(row) for row in refused],
        "audit": [{"at": iso(act.at), "actor": act.actor, "action": act.action} for act in acts],
    }


async def refused(tx: Tx, after: tuple[int, str] | None, limit: int) -> list[Row]:
    """Callbacks that were none, the newest first."""
    before, fingerprint = after or (LAST, "")
    return list(await tx.rows(sql.refused, before=before, after=fingerprint, limit=limit))


def shown_refusal(row: Row) -> dict[str, Any]:
    """A refused callback: never its bytes, which nobody vouches for."""
    return {
        "fingerprint": row["fingerprint"],
        "requestId": row["request_id"],
        "submissionId": row["submission_id"],
        "reason": row["reason"],
        "sizeBytes": row["size_bytes"],
        "times": row["times"],
        "firstAt": iso(row["first_at"]),
        "lastAt": iso(row["last_at"]),
    }


def _callback(row: Row) -> dict[str, Any]:
    return {
        "eventId": row["event_id"],
        "requestId": row["request_id"],
        "submissionId": row["submission_id"],
        "kind": row["kind"],
        "outcome": row["outcome"],
        "processedAt": iso(row["processed_at"]),
    }
