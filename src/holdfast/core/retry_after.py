"""Reads when a provider asks us to come back, in all the spellings in use.

Order: waits in milliseconds (`retry-after-ms`, Azure's and gRPC's), then `Retry-After` (seconds, also fractional, or an
HTTP date), then the reset hints of vendors. Nonsense (negative, NaN, unreadable) is no answer rather than a wrong one:
the next spelling is asked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_MILLISECONDS = ("retry-after-ms", "x-ms-retry-after-ms", "grpc-retry-pushback-ms")
_PLAIN = ("retry-after", "x-retry-after", "x-ratelimit-retry-after")
_RESET_HINTS = (
    "x-body-reset",
    "ratelimit-reset",
    "x-ratelimit-reset",
    "x-rate-limit-reset",
    "x-ratelimit-reset-after",
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "anthropic-ratelimit-requests-reset",
    "anthropic-ratelimit-tokens-reset",
)
_DURATION = re.compile(r"(?<![\d.])(\d++(?:\.\d++)?)(ms|h|m|s)")
_FROM_EPOCH_S = 1_000_000_000  # a reset of so many "seconds" is a moment, not a wait
_FAR_MS = 1e15  # thousands of years: more would overflow, and every policy caps it long before
_MS_OF = {"ms": 1.0, "s": 1_000.0, "m": 60_000.0, "h": 3_600_000.0}


def retry_after_ms(headers: Mapping[str, str], now_ms: int | None, *, hints: bool = True) -> int | None:
    """Milliseconds from now until the provider wants to be called again; None if it does not say.

    Without a clock (`now_ms` is None) a date is counted from the answer's own `Date`. Vendors send their reset hints
    with every answer; leave them out (`hints=False`) unless a limit was hit."""
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    now_ms = _own_date(lower) if now_ms is None else now_ms
    for name in _MILLISECONDS:
        exact = _number(lower.get(name))
        if exact is not None:
            return _whole_ms(exact)
    for name in _PLAIN:
        plain = lower.get(name)
        seconds = _number(plain)
        if seconds is not None:
            return _whole_ms(seconds * 1_000)
        until = _until_date(plain, now_ms) if plain is not None else None
        if until is not None:
            return until
    if not hints:
        return None
    known = [_hint(lower[name], now_ms) for name in _RESET_HINTS if name in lower]
    return max((hint for hint in known if hint is not None), default=None)


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """The provider's own word on retrying, if it gave one."""
    for name, value in headers.items():
        word = value.strip().lower()
        if name.lower() in ("x-should-retry", "stripe-should-retry") and word in ("true", "false"):
            return word == "true"
        if name.lower() == "grpc-retry-pushback-ms" and word.startswith("-"):
            return False
    return None


def _own_date(lower: Mapping[str, str]) -> int | None:
    try:
        return int(parsedate_to_datetime(lower["date"]).timestamp() * 1_000)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _whole_ms(value_ms: float) -> int:
    return math.ceil(min(value_ms, _FAR_MS))


def _until_date(text: str, now_ms: int | None) -> int | None:
    try:
        when = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return _until(when, now_ms)


def _hint(text: str, now_ms: int | None) -> int | None:
    parts = _DURATION.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return _whole_ms(sum(float(number) * _MS_OF[unit] for number, unit in parts))
    seconds = _number(text)
    if seconds is not None and seconds >= _FROM_EPOCH_S:
        at_ms = seconds if seconds >= _FROM_EPOCH_S * 1_000 else seconds * 1_000
        return None if now_ms is None else _whole_ms(max(0.0, at_ms - now_ms))
    if seconds is not None:
        return _whole_ms(seconds * 1_000)
    try:
        return _until(datetime.fromisoformat(text), now_ms)
    except ValueError:
        return None


def _until(when: datetime, now_ms: int | None) -> int | None:
    if now_ms is None:
        return None
    aware = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0, math.ceil(aware.timestamp() * 1_000) - now_ms)
