"""What the kernel tells the world about itself: structured log lines and counters, through one thin seam."""

from __future__ import annotations

import json
import logging
from typing import Any, Protocol

from holdfast.core.redact import redact

QUIET = frozenset({"claimed", "succeeded", "advanced"})
"""Events of a healthy job: logged at DEBUG, so that a fast worker does not drown in its own log."""


class Watch(Protocol):
    def log(self, event: str, **fields: Any) -> None:
        """One structured line."""
        ...

    def count(self, name: str, amount: float = 1, **labels: str) -> None: ...

    def observe(self, name: str, value: float, **labels: str) -> None: ...


class LogWatch:
    """Logs through the standard library; counts nothing."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("holdfast")

    def log(self, event: str, **fields: Any) -> None:
        level = logging.DEBUG if event in QUIET else logging.INFO
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"holdfast": {"event": event, **fields}})

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        pass

    def observe(self, name: str, value: float, **labels: str) -> None:
        pass


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
