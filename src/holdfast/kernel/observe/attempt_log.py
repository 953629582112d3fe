"""What a handler logs, kept with its attempt: from the standard loggers, bounded, redacted, written with its end.

An attempt runs in a context of its own; a handler on the root logger puts each record into the book of the attempt in
whose context it was logged, threads included. Levels stay as the application has set them. An attempt that logs nothing
costs one variable of its context; a worker that dies takes the lines of its attempts along, and stages that run in
another process (`cpu=True`) log there.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar

from holdfast.core.redact import redact_text
from holdfast.kernel.questions.explain import iso
from holdfast.tables import batch

LINES_MAX = 200
LINE_LENGTH_MAX = 1_000
OWN = "holdfast"
"""The kernel's own lines are in the job's events already."""


class AttemptLog:
    """The lines of one attempt: the first so many, and how many there were in all."""

    __slots__ = ("lines", "number")

    def __init__(self) -> None:
        self.number = 0
        self.lines: list[tuple[str, str, str, str]] = []

    def add(self, record: logging.LogRecord) -> None:
        self.number += 1
        if len(self.lines) < LINES_MAX:
            text = redact_text(_say(record)[: 4 * LINE_LENGTH_MAX])[:LINE_LENGTH_MAX]
            self.lines.append((iso(int(record.created * 1_000)), record.levelname, record.name, text))

    def dump(self) -> str | None:
        """As it is stored; None of nothing."""
        return batch.text({"number": self.number, "lines": self.lines}) if self.number else None


def _say(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except (
        Exception
    ) as error:  # a message and its arguments that do not fit are the caller's mistake, and no attempt's end
        return f"{record.msg!s} ({type(error).__name__} while it was written)"
    if record.exc_info and record.exc_info[1] is not None:
        text = f"{text} ({type(record.exc_info[1]).__name__}: {record.exc_info[1]})"
    return text


ATTEMPT_LOG: ContextVar[AttemptLog | None] = ContextVar("holdfast_attempt_log", default=None)


class AttemptLogHandler(logging.Handler):
    """Puts records into the book of the attempt that logged them. With no other handler above a logger, warnings still
    reach standard error, as they do without this one."""

    def emit(self, record: logging.LogRecord) -> None:
        book = ATTEMPT_LOG.get()
        if book is not None and record.name.partition(".")[0] != OWN:
            book.add(record)
        if record.levelno >= logging.WARNING and self._is_alone(record) and logging.lastResort is not None:
            logging.lastResort.handle(record)

    def _is_alone(self, record: logging.LogRecord) -> bool:
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return False
            logger = logger.parent if logger.propagate else None
        return True


_HANDLER = AttemptLogHandler()


def keep_logs() -> None:
    """From now on, in this process: once is enough, and again after whoever has set the root's handlers anew."""
    if _HANDLER not in logging.root.handlers:
        logging.root.addHandler(_HANDLER)
