"""What a test should fail of although no assertion of its own sees it: forgotten awaits, a blocked event loop,
exceptions that nothing recognises, calls of Holdfast that cannot be meant."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.engines.renewal import Renewal
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.observe.watch import LogWatch

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
