"""The clock of a test: it stands still until somebody turns it."""

from __future__ import annotations

NEW_YEAR_MS = 1_767_225_600_000


class HandClock:
    """A clock that moves only when you turn it."""

    def __init__(self, now_ms: int = NEW_YEAR_MS) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """The present time of the world, in milliseconds since 1970."""
        return self._now_ms

    def advance(self, seconds: float) -> None:
        """Turn the clock on; what has become due runs with the next `tick` or `run_until_idle`."""
        self._now_ms += int(seconds * 1_000)
