"""The submissions and what their learners are told. `attempts.py` begins a submission's next attempt; everything else
that changes one comes through `change`: under the row's lock, decided by `transitions`, written by one guarded UPDATE,
told by one event whose order is the row's version.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.http.limits import Used
from holdfast.kit import Kernel
from holdfast.kit.tables import Row, Tx, batch, idempotency, load_statements, outbox, secrets
from holdfast_systems.grading import reasons
from holdfast_systems.grading.contract import Priority
from holdfast_systems.grading.transitions import EDGES, PRIORITIES, Submission, SubmissionChange

sql = load_statements(Path(__file__).with_suffix(".sql"))

NIL = "00000000-0000-0000-0000-000000000000"
EVENTS_MAX = 500
CHANNEL = "events"


@dataclass(frozen=True, slots=True)
class StoredSubmission:
    """A submission as it lies in the table: what never changes, its version, and the state that may change."""

    id: str
    user_id: str
    skill: str
    payload: dict[str, Any]
    request_id: str
    attempt: int
    created_at: int
    updated_at: int
    version: int
    state: Submission


@dataclass(frozen=True, slots=True)
class Arrival:
    """A new submission with all that is written beside it: its message, and its key with the answer to give."""

    new: StoredSubmission
    message: outbox.NewMessage
    reserved: idempotency.Reserved
    status: int
    body: str


async def insert(tx: Tx, new: StoredSubmission) -> None:
    await tx.rows(
        sql.insert,
        id=new.id,
        user_id=new.user_id,
        skill=new.skill,
        payload=_text(new.payload),
        request_id=new.request_id,
        attempt=new.attempt,
        deadline_at=new.state.deadline_at,
        now=new.created_at,
    )


async def create(tx: Tx, arrivals: Sequence[Arrival], now: int) -> set[str]:
    """All about these arrivals in one statement; returns the ids of those whose key was free. PostgreSQL only."""
    rows = await tx.rows(sql.create, batch=batch.keyed({one.new.id: _row(one) for one in arrivals}), now=now)
    return {row["id"] for row in rows}


def _row(one: Arrival) -> tuple[Any, ...]:
    new, key = one.new, one.reserved
    about = (new.user_id, new.skill, _text(new.payload), new.request_id, new.attempt, new.created_at)
    return key.scope, key.key, key.fingerprint, one.status, one.body, *about, new.state.deadline_at, *one.message


async def change(
    kernel: Kernel,
    tx: Tx,
    stored: StoredSubmission,
    decided: SubmissionChange | None,
    now: int,
    *,
    event_id: str | None = None,
) -> StoredSubmission:
    """Write what was decided about a locked submission, and tell its learner. None changes nothing."""
    if decided is None:
        return stored
    after, leaving = decided.after, stored.state.status
    assert after.status == leaving or (leaving, after.status) in EDGES, f"no edge {leaving} -> {after.status}"
    changed = replace(stored, version=await save(tx, stored, after, now), updated_at=now, state=after)
    if after.status == "COMPLETED":
        await secrets.forget(tx, [stored.id])
    await announce(kernel, tx, changed, decided, now, event_id=event_id)
    if after.status != leaving:
        tx.after_commit(lambda: _report(kernel, changed))
    return changed


def _report(kernel: Kernel, changed: StoredSubmission) -> None:
    state = changed.state
    kernel.watch.count("submissions_settled", status=state.status, reason=reasons.label(state.failure_reason))
    kernel.watch.log("submission", submission_id=changed.id, status=state.status, error_code=state.failure_reason)


async def announce(
    kernel: Kernel,
    tx: Tx,
    changed: StoredSubmission,
    decided: SubmissionChange,
    now: int,
    *,
    event_id: str | None = None,
) -> None:
    """Tell the learner of a change, if the learner is to know: one event, in the order of the row's version."""
    if decided.event is None:
        return
    data = {"submissionId": changed.id, "status": changed.state.status, "attempt": changed.attempt}
    event = event_id or kernel.new_uuid4()
    await tell(tx, event, changed.id, changed.version, decided.event.name, data | decided.event.data, now)
    await tx.notify(CHANNEL)


async def save(tx: Tx, stored: StoredSubmission, after: Submission, now: int) -> int:
    """The guarded write; returns the new version. Its caller holds the row's lock, so it always finds its row."""
    rows = await tx.rows(
        sql.save,
        id=stored.id,
        version=stored.version,
        leaving=stored.state.status,
        status=after.status,
        step=after.step,
        progress=after.progress,
        ai_result=_optional_text(after.ai_result),
        human_result=_optional_text(after.human_result),
        final_result=_optional_text(after.final_result),
        failure_reason=after.failure_reason,
        is_late=int(after.is_late),
        audit_flag=int(after.audit_flag),
        priority_rank=None if after.priority is None else PRIORITIES.index(after.priority),
        mode=after.mode,
        claimed_by=after.claimed_by,
        claimed_at=after.claimed_at,
        reviewed_by=after.reviewed_by,
        finished_at=after.finished_at,
        now=now,
    )
    assert rows, f"submission {stored.id} changed under its lock"
    return int(rows[0]["version"])


async def tell(tx: Tx, event_id: str, submission_id: str, seq: int, kind: str, data: dict[str, Any], now: int) -> None:
    await tx.rows(
        sql.tell, event_id=event_id, submission_id=submission_id, seq=seq, kind=kind, data=_text(data), now=now
    )


async def lock(tx: Tx, submission_id: str) -> StoredSubmission | None:
    return _one(await tx.rows(sql.lock, id=submission_id))


async def lock_by_request(tx: Tx, request_id: str) -> StoredSubmission | None:
    return _one(await tx.rows(sql.lock_by_request, request_id=request_id))


async def overdue(tx: Tx, now: int, limit: int) -> list[StoredSubmission]:
    """Live submissions past their deadline, locked; what another sweep holds is left to it."""
    return [from_row(row) for row in await tx.rows(sql.overdue, now=now, limit=limit)]


async def show(tx: Tx, submission_id: str) -> StoredSubmission | None:
    return _one(await tx.rows(sql.show, id=submission_id))


async def page(tx: Tx, user_id: str, before: str | None, status: str | None, limit: int) -> list[StoredSubmission]:
    rows = await tx.rows(sql.page, user_id=user_id, before=before, status=status, limit=limit)
    return [from_row(row) for row in rows]


async def usage(tx: Tx, user_id: str, since: int) -> Used:
    """What a user has made since then, and what of all is still in grading."""
    row = (await tx.rows(sql.usage, user_id=user_id, since=since))[0]
    return Used(row["made"], row["first_at"], row["unfinished"])


async def in_review(
    tx: Tx,
    after: tuple[int, str] | None,
    limit: int,
    *,
    skill: str | None = None,
    priority: Priority | None = None,
    free_for: str | None = None,
) -> list[StoredSubmission]:
    """The instructor queue, the most urgent first. `free_for`: without what others have claimed."""
    rank, last = after or (-1, NIL)
    rows = await tx.rows(
        sql.in_review,
        rank=rank,
        after=last,
        limit=limit,
        skill=skill,
        only_rank=None if priority is None else PRIORITIES.index(priority),
        free_for=free_for,
    )
    return [from_row(row) for row in rows]


async def review_mark(tx: Tx) -> tuple[int, ...]:
    """A value that differs whenever the instructor queue does."""
    return tuple((await tx.rows(sql.review_mark))[0])


async def review_counts(tx: Tx) -> Sequence[Row]:
    """How many wait, by skill and rank of priority."""
    return await tx.rows(sql.review_counts)


async def reviewed_by(tx: Tx, instructor: str, before: str | None, limit: int) -> list[StoredSubmission]:
    """What this instructor has decided, the newest first."""
    rows = await tx.rows(sql.reviewed_by, instructor=instructor, before=before, limit=limit)
    return [from_row(row) for row in rows]


async def events_after(tx: Tx, submission_id: str, after: str | None, limit: int = EVENTS_MAX) -> Sequence[Row]:
    return await tx.rows(sql.events_after, submission_id=submission_id, after=after or "", limit=limit)


async def accept_callback(
    tx: Tx, event_id: str, request_id: str, submission_id: str, kind: str, fingerprint: str, now: int
) -> bool:
    """True the first time an event is seen."""
    rows = await tx.rows(
        sql.accept_callback,
        event_id=event_id,
        request_id=request_id,
        submission_id=submission_id,
        kind=kind,
        fingerprint=fingerprint,
        now=now,
    )
    return bool(rows)


async def note_callback(tx: Tx, event_id: str, outcome: str) -> None:
    await tx.rows(sql.note_callback, event_id=event_id, outcome=outcome)


async def callback_fingerprint(tx: Tx, event_id: str) -> str | None:
    rows = await tx.rows(sql.callback_fingerprint, event_id=event_id)
    return str(rows[0]["fingerprint"]) if rows else None


async def refuse_callback(
    tx: Tx,
    fingerprint: str,
    request_id: str | None,
    submission_id: str | None,
    reason: str,
    size_bytes: int,
    now: int,
) -> None:
    await tx.rows(
        sql.refuse_callback,
        fingerprint=fingerprint,
        request_id=request_id,
        submission_id=submission_id,
        reason=reason,
        size_bytes=size_bytes,
        now=now,
    )


def _one(rows: Sequence[Row]) -> StoredSubmission | None:
    return from_row(rows[0]) if rows else None


def from_row(row: Row) -> StoredSubmission:
    """A submission of a row that has all its columns."""
    names: Sequence[str] = ("id", "user_id", "skill", "request_id", "attempt", "created_at", "updated_at", "version")
    return StoredSubmission(
        payload=json.loads(row["payload"]), state=_state(row), **{name: row[name] for name in names}
    )


def _state(row: Row) -> Submission:
    rank = row["priority_rank"]
    priority: Priority | None = None if rank is None else PRIORITIES[rank]
    return Submission(
        status=row["status"],
        deadline_at=row["deadline_at"],
        step=row["step"],
        progress=row["progress"],
        ai_result=_optional_json(row["ai_result"]),
        human_result=_optional_json(row["human_result"]),
        final_result=_optional_json(row["final_result"]),
        failure_reason=row["failure_reason"],
        is_late=bool(row["is_late"]),
        audit_flag=bool(row["audit_flag"]),
        priority=priority,
        mode=row["mode"],
        claimed_by=row["claimed_by"],
        claimed_at=row["claimed_at"],
        reviewed_by=row["reviewed_by"],
        finished_at=row["finished_at"],
    )


_text: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def _optional_text(value: dict[str, Any] | None) -> str | None:
    return None if value is None else _text(value)


def _optional_json(text: str | None) -> dict[str, Any] | None:
    return None if text is None else json.loads(text)
