"""The reviews: which were asked for, what came of them, whom they were told to. They are written by
the statements of `reviews.sql` alone.

    in_progress <--> retryable_failed        while its job lives: the job's own row says which
         \\--> succeeded | failed             when its job ended: written with that end, in one transaction

A version is one logical attempt at a changelist. The versions of a changelist only rise, under the lock of its row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from holdfast import NotAllowed
from holdfast.errors import StoreBusy
from holdfast.http.limits import Used
from holdfast.kit import Kernel, prepare, submit_in
from holdfast.kit.redaction import redact
from holdfast.kit.tables import Row, Tx, batch, load_statements
from holdfast_systems.review.changes import Source
from holdfast_systems.review.deliveries import ReviewDelivery as ReviewDelivery
from holdfast_systems.review.deliveries import deliveries as deliveries
from holdfast_systems.review.deliveries import plan
from holdfast_systems.review.recipients import Recipient as Recipient
from holdfast_systems.review.recipients import without_doubles

sql = load_statements(Path(__file__).with_suffix(".sql"))

KIND = "review.review"
KIND_AGAIN = "review.notify_again"
VERSION_MAX = 2_147_483_647
Admit = Callable[[Tx], Awaitable[None]]
Status = Literal["in_progress", "retryable_failed", "succeeded", "failed"]


@dataclass(frozen=True, slots=True)
class Request:
    """A review as it is asked for."""

    changelist_id: str
    review_version: int
    idempotency_key: str
    recipients: tuple[Recipient, ...]
    source: Source
    title: str = ""
    rerun: bool = False

    @property
    def fingerprint(self) -> str:
        """The same for the same request, whichever key it comes under."""
        told = [[one.address, one.required] for one in self.recipients]
        parts = [self.changelist_id, self.review_version, told, self.source.model_dump(mode="json"), self.title]
        return hashlib.sha256(batch.text(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ReviewOrder:
    """The input of the job. All that the mail is made of is fixed here, so that every attempt sends the same bytes.

    `recipients`: who was asked for, to be corrected here; whom to tell is read from their rows. `trusted`: asked for by
    a person at this machine, who may read any local folder."""

    review_id: str
    changelist_id: str
    review_version: int
    source: Source
    title: str
    sender: str
    dated_at: int
    trusted: bool = False
    recipients: tuple[Recipient, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredReview:
    """A review as it lies in the table, with what its job's row adds."""

    id: str
    changelist_id: str
    review_version: int
    idempotency_key: str
    fingerprint: str
    job_id: str
    source: dict[str, Any]
    title: str
    sender: str
    status: Status
    stage: str | None
    created_at: int
    updated_at: int
    finished_at: int | None
    result: dict[str, Any] | None
    error_class: str | None
    error: str | None
    retry_at: int | None
    dead_letter_id: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request for a review is answered with. `body_differs`: its key came before, with another request."""

    stored: StoredReview
    is_new: bool
    body_differs: bool


class ReviewRefusal(NotAllowed):
    """This version cannot be reviewed now. `code` is stable."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


async def submit(
    kernel: Kernel,
    tx: Tx,
    request: Request,
    *,
    sender: str,
    owner: str | None = None,
    trusted: bool = False,
    admit: Admit | None = None,
) -> Answer:
    """Accept a review with its job and its delivery rows, or answer with the review that its key stands for.

    A key stands for the review that it was first answered with, forever and whatever else is asked for under it.
    `admit` may refuse what is new. In the caller's transaction, which a raised error must roll back."""
    known = await by_key(tx, request.idempotency_key)
    if known is not None:
        return _known(known, request)
    now = kernel.now()
    latest = await _lock_changelist(tx, request.changelist_id, now)
    known = await by_key(tx, request.idempotency_key)  # taken while we waited for the changelist
    if known is not None:
        return _known(known, request)
    same = await by_version(tx, request.changelist_id, request.review_version)
    if same is None:
        _check_version(request, latest)
    else:
        _check_same(same, request)
    review_id = same.id if same is not None else kernel.new_id()
    is_new = same is None and await _take_key(tx, request, review_id, now)
    if is_new:
        if admit is not None:
            await admit(tx)
        await _insert(kernel, tx, request, review_id, sender, owner, trusted, now)
    elif same is not None:
        await _take_key(tx, request, review_id, now)
    stored = await by_key(tx, request.idempotency_key)
    if stored is None:
        raise StoreBusy("The review's first request vanished while this one waited for it.")
    return Answer(stored, True, False) if is_new else _known(stored, request)


def _known(known: StoredReview, request: Request) -> Answer:
    return Answer(known, False, known.fingerprint != request.fingerprint)


def _check_same(known: StoredReview, request: Request) -> None:
    """Another key for a version that is there: a succeeded one is answered as it is, whatever else is asked."""
    if known.status != "succeeded" and known.fingerprint != request.fingerprint:
        raise ReviewRefusal(
            "REVIEW_VERSION_TAKEN",
            f"Version {request.review_version} of this changelist was asked for with other recipients, title or "
            "source; ask for a rerun under a higher version.",
        )


def _check_version(request: Request, latest: int) -> None:
    if request.review_version < latest:
        raise ReviewRefusal(
            "REVIEW_VERSION_LOWER",
            f"Version {latest} of this changelist has been asked for; {request.review_version} is lower.",
        )
    if latest and not request.rerun:
        raise ReviewRefusal(
            "RERUN_NOT_ASKED",
            f"This changelist has been reviewed as version {latest}; ask for another with rerun=true.",
        )


async def _take_key(tx: Tx, request: Request, review_id: str, now: int) -> bool:
    key, print_ = request.idempotency_key, request.fingerprint
    return bool(await tx.rows(sql.take_key, idempotency_key=key, review_id=review_id, fingerprint=print_, now=now))


async def _insert(
    kernel: Kernel,
    tx: Tx,
    request: Request,
    review_id: str,
    sender: str,
    owner: str | None,
    trusted: bool,
    now: int,
) -> None:
    """The key is ours and the changelist is locked: nobody else can write this review."""
    job_id = kernel.new_id()
    order = ReviewOrder(
        review_id=review_id,
        changelist_id=request.changelist_id,
        review_version=request.review_version,
        source=request.source,
        title=request.title,
        sender=sender,
        dated_at=now,
        trusted=trusted,
        recipients=tuple(without_doubles(request.recipients)),
    )
    prepared = prepare(kernel.registry.kind(KIND), order, job_id=job_id, now=now, owner=owner, trace=review_id)
    await tx.rows(
        sql.insert,
        id=review_id,
        changelist_id=request.changelist_id,
        review_version=request.review_version,
        idempotency_key=request.idempotency_key,
        fingerprint=request.fingerprint,
        job_id=job_id,
        source=batch.text(redact(json.loads(prepared.row.payload)["source"])),
        title=request.title,
        sender=sender,
        now=now,
    )
    await tx.rows(sql.raise_version, changelist_id=request.changelist_id, review_version=request.review_version)
    for position, recipient in enumerate(order.recipients):
        await plan(tx, request.changelist_id, request.review_version, recipient, position, now)
    await submit_in(tx, [prepared], now, kernel.watch)


async def _lock_changelist(tx: Tx, changelist_id: str, now: int) -> int:
    rows = await tx.rows(sql.lock_changelist, changelist_id=changelist_id, now=now)
    return int(rows[0]["latest_version"])


async def usage(tx: Tx, owner: str, since: int) -> Used:
    row = (await tx.rows(sql.usage, owner=owner, since=since, kind=KIND))[0]
    return Used(row["made"], row["first_at"], row["unfinished"])


async def by_key(tx: Tx, idempotency_key: str) -> StoredReview | None:
    rows = await tx.rows(sql.by_key, idempotency_key=idempotency_key)
    return _stored(rows[0]) if rows else None


async def by_version(tx: Tx, changelist_id: str, review_version: int) -> StoredReview | None:
    rows = await tx.rows(sql.by_version, changelist_id=changelist_id, review_version=review_version)
    return _stored(rows[0]) if rows else None


async def of_changelist(
    tx: Tx, changelist_id: str, *, before: int = VERSION_MAX + 1, limit: int = 50
) -> Sequence[StoredReview]:
    rows = await tx.rows(sql.of_changelist, changelist_id=changelist_id, before=before, limit=limit)
    return [_stored(row) for row in rows]


def _stored(row: Row) -> StoredReview:
    status = status_of(row)
    ended = row["finished_at"] is not None and status in ("succeeded", "failed")
    told = json.loads(row["job_error"]) if row["job_error"] and status in ("retryable_failed", "failed") else {}
    return StoredReview(
        id=row["id"],
        changelist_id=row["changelist_id"],
        review_version=row["review_version"],
        idempotency_key=row["idempotency_key"],
        fingerprint=row["fingerprint"],
        job_id=row["job_id"],
        source=json.loads(row["source"]),
        title=row["title"],
        sender=row["sender"],
        status=status,
        stage=(row["failed_stage"] if status == "failed" else None) or row["job_stage"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        finished_at=row["finished_at"] if ended else None,
        result=json.loads(row["result"]) if row["result"] else None,
        error_class=row["error_class"] if ended else told.get("error_class"),
        error=row["error"] if ended else told.get("message"),
        retry_at=row["run_at"] if status == "retryable_failed" else None,
        dead_letter_id=row["dead_letter_id"] if status == "failed" else None,
    )


def status_of(row: Row) -> Status:
    """The review's state. A replay revives the job without us, and a job that could not be settled as it should dies
    without us: so the job's row is asked first."""
    match row["job_state"]:
        case "queued":
            return "in_progress" if row["first_failure_at"] is None else "retryable_failed"
        case "processing" | "waiting":
            return "in_progress"
        case "dead" | "cancelled":
            return "failed"
        case _:
            stored: Status = row["status"]
            return stored
