"""What the kernel tells the world about itself: structured log lines and counters, through one thin seam."""

from __future__ import annotations

import json
import logging
from typing import Any, Protocol

from holdfast.core.redact import redact

QUIET = frozenset({"claimed", "succeeded", "advanced"})
"""Events of a healthy job: logged at DEBUG, so that a fast worker does not drown in its own log."""


LOUD = frozenset({"loop.blocked", "outbox.stale", "stop.overdue", "transport.unreachable", "worker.leases_left"})
"""Events that somebody should look at: logged at WARNING."""


class Watch(Protocol):
    def log(self, event: str, **fields: Any) -> None:
        """One structured line."""
        ...

    def hears(self, event: str) -> bool:
        """Whether a line about this event would be written: spares the making of it."""
        ...

    def count(self, name: str, amount: float = 1, **labels: str) -> None: ...

    def observe(self, name: str, value: float, **labels: str) -> None: ...


class LogWatch:
    """Logs through the standard library; counts nothing."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("holdfast")

    def log(self, event: str, **fields: Any) -> None:
        if self.hears(event):
            self._logger.log(_level(event), event, extra={"holdfast": {"event": event, **fields}})

    def hears(self, event: str) -> bool:
        return self._logger.isEnabledFor(_level(event))

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        pass

    def observe(self, name: str, value: float, **labels: str) -> None:
        pass


def _level(event: str) -> int:
    if event in LOUD:
        return logging.WARNING
    return logging.DEBUG if event in QUIET else logging.INFO


class JsonFormatter(logging.Formatter):
    """One JSON object a line, redacted."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, "holdfast", None) or {"event": record.getMessage()}
        line = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "logger": record.name,
            **{name: value for name, value in fields.items() if value is not None},
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info).splitlines()[-1]
        return json.dumps(redact(line), default=str, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """One line for a person at a terminal: as much as in JSON, and redacted as well."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = dict(getattr(record, "holdfast", None) or {})
        event = fields.pop("event", None) or record.getMessage()
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info).splitlines()[-1]
        clean = redact({"event": event, **fields})
        assert isinstance(clean, dict)
        told = " ".join(f"{name}={value}" for name, value in clean.items() if name != "event" and value is not None)
        return f"{self.formatTime(record)} {record.levelname} {record.name} {clean['event']} {told}".rstrip()
