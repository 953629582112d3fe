"""What the kernel tells the world about itself: structured log lines and counters, through one thin seam."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from holdfast.core.redact import redact
from holdfast.kernel.observe.counters import Counter

LEVELS: Mapping[str, int] = {
    **dict.fromkeys(
        (
            "counter.undeclared",
            "held",
            "lease.lost",
            "loop.blocked",
            "lost",
            "message.unsigned",
            "outbox.stale",
            "request.payload_differs",
            "request.refused",
            "callback.refused",
            "handler.left_behind",
            "retried",
            "stale",
            "step.failed",
            "stop.overdue",
            "store.unreachable",
            "thread.left_behind",
            "stream.store_failed",
            "transport.unreachable",
            "worker.leases_left",
            "worker.renewal_failed",
            "worker.store_failed",
            "workers.dead",
        ),
        logging.WARNING,
    ),
    **dict.fromkeys(
        (
            "buried",
            "effect.duplicate",
            "effect.in_review",
            "effect.marked_without_evidence",
            "effect.unknown_to_provider",
            "expired",
            "outbox.set_aside",
            "settle.spoiled",
        ),
        logging.ERROR,
    ),
}
"""How loud an event is; one that is not here is INFO."""


class Watch(Protocol):
    def log(self, event: str, *, level: int | None = None, **fields: object) -> None:
        """One structured line, at the event's own level unless one is given."""
        ...

    def is_enabled(self, event: str) -> bool:
        """Whether a line about this event would be written: spares the making of it."""
        ...

    def declare(self, counters: Sequence[Counter]) -> None:
        """Make a system's own counters known, beside the kernel's."""
        ...

    def count(self, name: str, amount: float = 1, **labels: str) -> None: ...

    def observe(self, name: str, value: float, **labels: str) -> None: ...


class _Line:
    """A line as its record's message, so that a handler of somebody else tells all of it too. Made into words, and
    redacted, when it is written."""

    __slots__ = ("fields",)

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = fields

    def __str__(self) -> str:
        return _words(_clean_own(self.fields))


class LogWatch:
    """Logs through the standard library; counts nothing."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("holdfast")

    def log(self, event: str, *, level: int | None = None, **fields: object) -> None:
        loud = level_of(event, fields) if level is None else level
        if self._logger.isEnabledFor(loud):
            line = {"event": event, **fields}
            self._logger.log(loud, _Line(line), extra={"holdfast": line})

    def is_enabled(self, event: str) -> bool:
        return self._logger.isEnabledFor(level_of(event, {}))

    def declare(self, counters: Sequence[Counter]) -> None:
        pass

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        pass

    def observe(self, name: str, value: float, **labels: str) -> None:
        pass


def level_of(event: str, fields: Mapping[str, Any]) -> int:
    """How loud a line is: by its event; what asks for a person is an ERROR, a breaker that is not closed a WARNING."""
    if fields.get("alert"):
        return logging.ERROR
    if event == "breaker" and fields.get("breaker_state") != "closed":
        return logging.WARNING
    return LEVELS.get(event, logging.INFO)


PLAIN = frozenset(
    {"event", "job_id", "kind", "status", "stage", "attempt", "duration_ms", "provider_status", "breaker_state"}
)
"""Fields of our own lines that hold ids, words and numbers of the code's making, in which no secret can stand. To look
for one there would cost more than all the rest of a worker's line."""


def _clean(record: logging.LogRecord) -> dict[str, Any]:
    """The record's fields, redacted; `event` is its message, if it is not one of ours."""
    ours: dict[str, Any] | None = getattr(record, "holdfast", None)
    fields = dict(ours) if ours else {"event": record.getMessage()}
    if record.exc_info:
        fields["error"] = logging.Formatter().formatException(record.exc_info).splitlines()[-1]
    return _clean_own(fields) if ours else _redacted(fields)


def _clean_own(fields: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in fields.items() if value is None or name in PLAIN}
    if len(plain) == len(fields):
        return plain
    return plain | _redacted({name: value for name, value in fields.items() if name not in plain})


def _redacted(fields: Mapping[str, Any]) -> dict[str, Any]:
    cleaned = redact(dict(fields))
    assert isinstance(cleaned, dict)
    return cleaned


def _words(fields: dict[str, Any]) -> str:
    event = fields.pop("event")
    text = " ".join(f"{name}={value}" for name, value in fields.items() if value is not None)
    return f"{event} {text}".rstrip()


def _utc(record: logging.LogRecord) -> str:
    """In UTC, as every other time we write. The zone of a process is not ours: Django sets it in each of its own."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


class JsonFormatter(logging.Formatter):
    """One JSON object a line, redacted."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": _utc(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            **_clean(record),
        }
        return json.dumps(line, default=str, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """One line for a person at a terminal: as much as in JSON, and redacted as well."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_utc(record)} {record.levelname} {record.name} {_words(_clean(record))}"
