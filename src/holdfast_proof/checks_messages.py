"""Predicates about messages: outbox, relay, inbox, acks, callbacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.operator.finding import Violation
from holdfast_proof.history import RunHistory

HANDLER_MS_MAX = 13_000
COMMIT_MS_MAX = 1_000


def check_published(history: RunHistory) -> Iterator[Violation]:
    """S16: a message is marked as published only after the broker confirmed it."""
    confirmed: dict[str, int] = {}
    for event in history.broker:
        if event.kind == "confirmed":
            confirmed.setdefault(event.message_id, event.at_ms)
    for line in history.of("outbox"):
        if line.data[1] == "published" and confirmed.get(line.id, line.at_ms + 1) > line.at_ms:
            yield Violation("S16", f"Message {line.id} was marked as published and the broker had not confirmed it.")


def check_acked(history: RunHistory) -> Iterator[Violation]:
    """S16: a message is acked only after its inbox row is committed."""
    taken: dict[str, int] = {}
    for line in history.of("inbox"):
        taken.setdefault(line.id, line.at_ms)
    told = {line.id for line in history.of("told")}
    for event in history.broker:
        ours = event.kind == "acked" and event.message_id in told
        if ours and taken.get(event.message_id, event.at_ms + 1) > event.at_ms:
            yield Violation("S16", f"Message {event.message_id} was acked before its inbox row was committed.")


def check_handled_once(history: RunHistory) -> Iterator[Violation]:
    """S17: a message's effects are committed once, however often it is delivered; S18: and not never."""
    handled = Counter(line.id for line in history.of("consumed"))
    for message, count in handled.items():
        if count > 1:
            yield Violation("S17", f"Message {message} was handled {count} times.")
    published = {line.id for line in history.of("outbox") if line.data[1] == "published"}
    accounted = {line.id for line in history.of("inbox")} | history.undelivered | history.shelved
    for message in sorted(published - accounted):
        if handled[message] == 0:
            yield Violation("S18", f"Message {message} was published, was never handled, and nobody carries it.")


def check_callbacks(history: RunHistory) -> Iterator[Violation]:
    """S18: a callback that is offered while its job waits is taken."""
    waits = _waits(history)
    resumed = {(line.id, line.host, line.at_ms) for line in history.of("inbox")}
    seen = {message for message, _, _ in resumed}
    for event in history.broker:
        if not event.kind.startswith("raised CallError") or event.message_id in seen:
            continue
        job = event.message_id.split("/")[1] if "/" in event.message_id else ""
        for from_ms, to_ms in waits.get(job, ()):
            # The handler looked some time before it raised: it must have begun, and looked, while the job waited.
            looked_ms = event.at_ms - HANDLER_MS_MAX
            if from_ms < looked_ms and event.at_ms < to_ms and not history.stalled(event.host, looked_ms, event.at_ms):
                yield Violation("S18", f"Job {job} was waiting and the callback {event.message_id} was refused.", job)
    for message, host, at_ms in sorted(resumed):
        if message.startswith("answer/") and not _woke(history, message.split("/")[1], host, at_ms):
            job = message.split("/")[1]
            yield Violation("S18", f"The callback {message} is recorded as handled but woke nobody.", job)


def _waits(history: RunHistory) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for job, changes in history.changes.items():
        since = None
        for change in changes:
            if change.state == "waiting":
                since = _committed_ms(history, change.host, change.at_ms)
            elif change.old_state == "waiting" and since is not None:
                found.setdefault(job, []).append((since, change.at_ms))
    return found


def _committed_ms(history: RunHistory, host: str, at_ms: int) -> int:
    """When a write could be seen: triggers note it before the commit, and its writer may have stalled in between."""
    seen_ms = at_ms
    for stall in sorted(history.stalls, key=lambda stall: stall.from_ms):
        if stall.host == host and stall.from_ms <= seen_ms + COMMIT_MS_MAX and stall.to_ms > seen_ms:
            seen_ms = stall.to_ms
    return seen_ms


def _woke(history: RunHistory, job: str, host: str, at_ms: int) -> bool:
    changes = history.changes.get(job, ())
    return any(c.old_state == "waiting" and c.host == host and c.at_ms >= at_ms for c in changes)


MESSAGES = (check_published, check_acked, check_handled_once, check_callbacks)
