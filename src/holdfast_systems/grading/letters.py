"""What lies in `grading.dlq`, for people: list, show, send again, archive. Nothing here runs by itself.

    queue --look--> letter --resend--> row + request in the outbox, one commit --> taken from the queue
                          \\--archive--> row with the reason, committed          --> taken from the queue

On RabbitMQ the queue itself is looked into and everything is given back; on the in-process transport the main app keeps
the letters as rows. A letter is acted on once: its row is written first, so that a crash before the letter is taken
leaves it visible, marked, and never sent twice.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from holdfast import InvalidInput, NotAllowed, NotFound
from holdfast.kit import Kernel, iso
from holdfast.kit.messages import Delivery, HeldMessage, Lookable
from holdfast.kit.redaction import redact, redact_text
from holdfast.kit.tables import Row, Tx, audit, batch, load_statements, outbox
from holdfast_systems.grading import submissions
from holdfast_systems.grading.contract import (
    DEAD_LETTER_QUEUE,
    REQUEST_QUEUE,
    DeadLetter,
    parse_dead_letter,
    parse_request,
)
from holdfast_systems.grading.outgoing import rebuilt_request
from holdfast_systems.grading.topology import RESENT_HEADER, destination
from holdfast_systems.grading.wire import UNSIGNED, InvalidMessage, scan_ids

sql = load_statements(Path(__file__).with_suffix(".sql"))

SCANNED_MAX = 10_000
BEGINNING_MIN, LETTER_ID_LENGTH = 8, 32
NOT_A_LETTER = "NOT_A_LETTER"
REASON_LENGTH_MAX = 1_000
State = Literal["open", "resent", "archived"]


@dataclass(frozen=True, slots=True)
class QueuedLetter:
    """A message of the dead-letter queue; `parsed` is None for one that is no letter of the contract's."""

    id: str
    body: bytes
    parsed: DeadLetter | None
    message_id: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    is_signed: bool = True
    state: State = "open"
    acted_at: int | None = None
    acted_by: str | None = None
    reason: str | None = None

    @property
    def request_id(self) -> str | None:
        return self.parsed.request_id if self.parsed else scan_ids(self.body)[0]

    @property
    def submission_id(self) -> str | None:
        return self.parsed.submission_id if self.parsed else scan_ids(self.body)[1]


async def keep_letter(kernel: Kernel, delivery: Delivery) -> None:
    """Consumes the queue where no broker keeps it: each letter becomes a row."""
    letter = _letter(delivery)
    body, is_text = _storable(letter.body)
    async with kernel.store.transaction() as tx:
        await tx.rows(sql.keep, id=letter.id, body=body, is_text=is_text, now=kernel.now())


async def list_letters(kernel: Kernel, limit: int) -> list[QueuedLetter]:
    """The oldest letters that lie there, no more than `limit`, and what was done about each."""
    letters: list[QueuedLetter] = []
    async with _lying(kernel, limit) as lying:
        async for letter, _ in lying:
            letters.append(letter)
            if len(letters) >= limit:
                break
    return await _marked(kernel, letters)


async def find_id(kernel: Kernel, given: str) -> str:
    """The id of the letter in the queue that begins so, as a list prints it; what was given, if it is whole or none
    does. Refuses a beginning of several."""
    if not BEGINNING_MIN <= len(given) < LETTER_ID_LENGTH:
        return given
    found = set()
    async with _lying(kernel, SCANNED_MAX) as lying:
        async for letter, _ in lying:
            if letter.id.startswith(given):
                found.add(letter.id)
    if len(found) > 1:
        raise InvalidInput(f"Several letters begin with {given}: {', '.join(sorted(found)[:3])}. Give more of it.")
    return found.pop() if found else given


async def show_letter(kernel: Kernel, letter_id: str) -> QueuedLetter:
    """One letter, wherever it is: in the queue, or only in our record of what was done about it."""
    async with _lying(kernel, SCANNED_MAX) as lying:
        async for letter, _ in lying:
            if letter.id == letter_id:
                return (await _marked(kernel, [letter]))[0]
    async with kernel.store.reading() as tx:
        rows = await tx.rows(sql.show, id=letter_id)
    if not rows:
        raise NotFound(f"There is no letter {letter_id} in {DEAD_LETTER_QUEUE}.")
    return _from_row(rows[0])


async def resend(kernel: Kernel, letter_id: str, *, actor: str, reason: str) -> QueuedLetter:
    """Send the letter's request again, under its own id, and take the letter away. Once: a second ask is refused.

    A grading service of ours replays a failed request then; one that it could not read it reads again."""
    return await _act(kernel, letter_id, "resent", actor, reason)


async def archive(kernel: Kernel, letter_id: str, *, actor: str, reason: str) -> QueuedLetter:
    """Take a letter away and keep it, with the reason, in our own record."""
    return await _act(kernel, letter_id, "archived", actor, reason)


async def _act(kernel: Kernel, letter_id: str, state: State, actor: str, reason: str) -> QueuedLetter:
    why = redact_text(reason.strip())[:REASON_LENGTH_MAX]
    if not why:
        raise InvalidInput("Say why: the reason is empty.")
    async with _lying(kernel, SCANNED_MAX) as lying:
        async for letter, held in lying:
            if letter.id == letter_id:
                acted = await _record(kernel, letter, state, actor, why)
                if held is not None:
                    await held.take()
                return acted
    raise await _missing(kernel, letter_id)


async def _missing(kernel: Kernel, letter_id: str) -> NotFound | NotAllowed:
    """Why a letter that somebody asks for does not lie there: it was acted on before, or it never did."""
    async with kernel.store.reading() as tx:
        before = (await _marks(tx, [letter_id])).get(letter_id)
    if before is None:
        return NotFound(f"There is no letter {letter_id} in {DEAD_LETTER_QUEUE}.")
    return NotAllowed(
        f"Letter {letter_id} was {before['state']} by {before['acted_by']} and is not in the queue any more."
    )


async def _record(kernel: Kernel, letter: QueuedLetter, state: State, actor: str, why: str) -> QueuedLetter:
    """Write the act, its audit and what it sends, in one transaction. Archiving what was acted on before only takes the
    letter away: it was left behind by a crash."""
    body, is_text = _storable(letter.body)
    now = kernel.now()
    async with kernel.store.transaction() as tx:
        won = await tx.rows(
            sql.act, id=letter.id, body=body, is_text=is_text, state=state, actor=actor, reason=why, now=now
        )
        if not won:
            before = (await _marks(tx, [letter.id]))[letter.id]
            if state == "archived":
                return _mark(letter, before)
            raise NotAllowed(f"Letter {letter.id} was {before['state']} by {before['acted_by']}; archive what is left.")
        if state == "resent":
            await _send(kernel, tx, letter, why, now)
        data = {"requestId": letter.request_id, "submissionId": letter.submission_id, "reason": why}
        await audit.write(tx, actor, f"letter.{state}", f"letter:{letter.id}", data, now)
    return replace(letter, state=state, acted_at=now, acted_by=actor, reason=why)


async def _send(kernel: Kernel, tx: Tx, letter: QueuedLetter, why: str, now: int) -> None:
    body = await _request(kernel, tx, letter)
    headers = batch.text({RESENT_HEADER: why})
    aggregate_id = letter.submission_id or letter.id
    message = (kernel.new_uuid4(), aggregate_id, destination(REQUEST_QUEUE), REQUEST_QUEUE, body.decode(), headers)
    await outbox.put(tx, [message], now)
    await tx.notify("outbox")


async def _request(kernel: Kernel, tx: Tx, letter: QueuedLetter) -> bytes:
    """The bytes to send again. Refused where they could do no good, with what does, and where sending them would sign
    what a stranger wrote."""
    if not letter.is_signed or (letter.parsed is not None and letter.parsed.error_class == UNSIGNED):
        raise NotAllowed(
            f"Letter {letter.id} is of a message that nobody signed, and sending it again would sign it: archive it, "
            "and resubmit the submission if it is yours."
        )
    body = await _original(tx, letter)
    try:
        request = parse_request(body)
    except InvalidMessage:
        return body  # it was unreadable: a newer reader may read it
    if request.deadline_ms <= kernel.now():
        raise NotAllowed(
            f"The deadline of request {request.request_id} has passed ({iso(request.deadline_ms)}); "
            f"resubmit the submission {request.submission_id} instead."
        )
    return body


async def _original(tx: Tx, letter: QueuedLetter) -> bytes:
    parsed = letter.parsed
    if parsed is None:
        return _utf8(letter.body)
    if parsed.original_truncated:
        raise NotAllowed(f"Letter {letter.id} holds the beginning of its message only; it cannot be sent again.")
    original = parsed.original_message
    if parsed.original_encoding == "base64":
        return _utf8(base64.b64decode(str(original)))
    if parsed.original_encoding == "text":
        return str(original).encode()
    if isinstance(original, dict) and "reference" in original and "payload" not in original:
        return await _referred(tx, letter)
    return json.dumps(original, ensure_ascii=False, separators=(",", ":")).encode()


def _utf8(body: bytes) -> bytes:
    try:
        body.decode()
    except UnicodeDecodeError:
        raise NotAllowed("The message is not text, so that no request could be read from it; archive it.") from None
    return body


async def _referred(tx: Tx, letter: QueuedLetter) -> bytes:
    """The request of a submission of ours, as it was sent. A letter only refers to it: it holds a learner's words."""
    stored = await submissions.lock_by_request(tx, (letter.request_id or "").lower())
    if stored is None:
        raise NotAllowed(
            f"Request {letter.request_id} is not the present request of a submission here; replay it in the service."
        )
    return rebuilt_request(stored)


@asynccontextmanager
async def _lying(kernel: Kernel, limit: int) -> AsyncIterator[AsyncIterator[tuple[QueuedLetter, HeldMessage | None]]]:
    """Every letter that lies there, the oldest first; with the handle that takes it away, if a queue holds it."""
    transport = kernel.transport
    if isinstance(transport, Lookable):
        async with transport.look(DEAD_LETTER_QUEUE) as held:
            yield _of_queue(held)
    else:
        async with kernel.store.reading() as tx:
            rows = await tx.rows(sql.open_page, limit=limit)
        yield _of_rows(rows)


async def _of_queue(held: AsyncIterator[HeldMessage]) -> AsyncIterator[tuple[QueuedLetter, HeldMessage | None]]:
    async for message in held:
        yield _letter(message.delivery), message


async def _of_rows(rows: Sequence[Row]) -> AsyncIterator[tuple[QueuedLetter, HeldMessage | None]]:
    for row in rows:
        yield _from_row(row), None


async def _marked(kernel: Kernel, letters: Sequence[QueuedLetter]) -> list[QueuedLetter]:
    async with kernel.store.reading() as tx:
        marks = await _marks(tx, [letter.id for letter in letters])
    return [_mark(letter, marks[letter.id]) if letter.id in marks else letter for letter in letters]


async def _marks(tx: Tx, ids: Sequence[str]) -> dict[str, Row]:
    if not ids:
        return {}
    return {row["id"]: row for row in await tx.rows(sql.acted, ids=batch.ids(ids))}


def _mark(letter: QueuedLetter, row: Row) -> QueuedLetter:
    return replace(letter, state=row["state"], acted_at=row["acted_at"], acted_by=row["acted_by"], reason=row["reason"])


def _letter(delivery: Delivery) -> QueuedLetter:
    """A letter is known by its message id and its bytes: two that differ in either are two."""
    identity = hashlib.sha256(f"{delivery.message_id or ''}\n".encode() + delivery.body).hexdigest()[:32]
    parsed, headers = _parsed(delivery.body), dict(delivery.headers)
    return QueuedLetter(identity, delivery.body, parsed, delivery.message_id, headers, delivery.genuine)


def _from_row(row: Row) -> QueuedLetter:
    body = row["body"].encode() if row["is_text"] else base64.b64decode(row["body"])
    return _mark(QueuedLetter(row["id"], body, _parsed(body)), row)


def _parsed(body: bytes) -> DeadLetter | None:
    try:
        return parse_dead_letter(body)
    except InvalidMessage:
        return None


def _storable(body: bytes) -> tuple[str, int]:
    """The bytes as a row's text, and whether they are text as they stand."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = "\0"
    return (text, 1) if "\0" not in text else (base64.b64encode(body).decode(), 0)


def _last_error(letter: QueuedLetter) -> str:
    if not letter.is_signed:
        return "Nobody we know signed this letter: what it says may be a stranger's."
    if letter.parsed is None:
        return "The broker, or somebody else, laid this message here as it is."
    return letter.parsed.last_error


def shown_letter(letter: QueuedLetter, *, whole: bool = False) -> dict[str, Any]:
    """A letter as people see it; `whole` with the original message."""
    parsed = letter.parsed
    body: dict[str, Any] = {
        "id": letter.id,
        "state": letter.state,
        "requestId": letter.request_id,
        "submissionId": letter.submission_id,
        "failureReason": parsed.failure_reason if parsed else NOT_A_LETTER,
        "attemptsMade": parsed.attempts_made if parsed else None,
        "lastError": _last_error(letter),
        "timestamp": iso(round(parsed.timestamp.timestamp() * 1_000)) if parsed else None,
        "stage": parsed.stage if parsed else None,
        "errorClass": parsed.error_class if parsed else None,
        "actedAt": None if letter.acted_at is None else iso(letter.acted_at),
        "actedBy": letter.acted_by,
        "reason": letter.reason,
    }
    if whole:
        body["originalMessage"] = redact(parsed.original_message if parsed else letter.body.decode("utf-8", "replace"))
        body["originalEncoding"] = parsed.original_encoding if parsed else "text"
        body["originalBytes"] = parsed.original_bytes if parsed else len(letter.body)
    return body
