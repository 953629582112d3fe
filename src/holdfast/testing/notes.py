"""What a test should fail of although no assertion of its own sees it: forgotten awaits, a blocked event loop,
exceptions that nothing recognises, calls of Holdfast that cannot be meant."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.engines.renewal import Renewal
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.observe.watch import LogWatch
from holdfast.tables.job_rows import JobLine

NEVER_AWAITED = "was never awaited"
BLOCKED = "loop.blocked"


class TroubleWatch(LogWatch):
    """A watch that also keeps what asks for a change of the code."""

    def __init__(self, troubles: list[str]) -> None:
        super().__init__()
        self._troubles = troubles

    def log(self, event: str, *, level: int | None = None, **fields: object) -> None:
        if event == BLOCKED:
            self._troubles.append(f"{fields['message']}; await what waits, or make the stage a plain def")
        elif "traceback" in fields:
            place = f"{fields['kind']}/{fields['stage']}"
            self._troubles.append(
                f"{place} raised what nothing recognises: {fields['error']}; say in retry_on or never what it means"
            )
        elif fields.get("error_class") == "USAGE_ERROR":
            self._troubles.append(f"{fields['kind']}/{fields['stage']}: {fields['error']}")
        super().log(event, level=level, **fields)


def declared_rows(rows: Iterable[JobLine], kinds: Collection[str], *, since: int) -> list[JobLine]:
    """The jobs that a world's code can run. One of another kind would be waited for in vain: it is named, unless it was
    there before the world was."""
    others = sorted({row.kind for row in rows if row.kind not in kinds and row.created_at >= since})
    if others:
        raise AssertionError(f"No app of this world declares {', '.join(others)}: name theirs too, world(app, other).")
    return [row for row in rows if row.kind in kinds]


@contextmanager
def watching_loop(kernel: Kernel) -> Iterator[None]:
    """Say of a handler that blocks the event loop which one it is, as a worker in production does."""
    thread = Renewal(kernel, "world", lambda: True)
    thread.start()
    thread.begin()
    try:
        yield
    finally:
        thread.stop()


@contextmanager
def noticing(troubles: list[str]) -> Iterator[None]:
    """Note what is thrown away without having been awaited. Python only warns of it, when it is collected."""
    before = sys.unraisablehook

    def note(unraisable: Any) -> None:
        if isinstance(unraisable.exc_value, RuntimeWarning) and NEVER_AWAITED in str(unraisable.exc_value):
            troubles.append(str(unraisable.exc_value))
        else:
            before(unraisable)

    with warnings.catch_warnings():
        warnings.filterwarnings("error", f".*{NEVER_AWAITED}", RuntimeWarning)
        sys.unraisablehook = note
        try:
            yield
        finally:
            sys.unraisablehook = before
