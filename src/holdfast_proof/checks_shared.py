"""Predicates about effects that several jobs share: who sends, who waits, and whose outcome it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.operator.finding import Violation
from holdfast_proof.history import HistoryLine, RunHistory


class _Sending(NamedTuple):
    """Who began the last send of an effect."""

    job: str
    attempt: int
    host: str
    sends: int


def check_shared(history: RunHistory) -> Iterator[Violation]:
    """S22: while an attempt that holds its job is sending an effect, nobody else begins to send it or says what became
    of it; whoever wants it too waits. The rows' own writes are judged, in commit order."""
    last: dict[str, _Sending] = {}
    for line in history.of("effect"):
        before, after, sends_before, sends, attempt, job = *line.data[:5], line.data[10]
        sender = last.get(line.id)
        if before == "sending" and sender is not None and _holds(history, sender, line):
            is_other = sends > sends_before and (job, attempt) != (sender.job, sender.attempt)
            if is_other:
                text = f"Job {job} began to send '{line.id}' while job {sender.job} was sending it."
                yield Violation("S22", text, job)
            elif sends == sends_before and after == "sent" and line.host != sender.host:
                text = f"{line.host} marked '{line.id}', which {sender.host} was sending."
                yield Violation("S22", text, sender.job)
        if sends > sends_before:
            last[line.id] = _Sending(job, attempt, line.host, sends)


def _holds(history: RunHistory, sender: _Sending, line: HistoryLine) -> bool:
    """Whether the sender's attempt held its job when the line was written."""
    earlier = [change for change in history.changes.get(sender.job, ()) if change.seq < line.seq]
    return bool(earlier) and (earlier[-1].state, earlier[-1].attempt) == ("processing", sender.attempt)


SHARED = (check_shared,)
