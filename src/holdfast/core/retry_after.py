"""Reads when a provider asks us to come back, in all the spellings in use.

Order: `retry-after-ms`, then `Retry-After` (seconds, also fractional, or an HTTP date), then the reset hints
of vendors. Nonsense (negative, NaN, unreadable) is no answer rather than a wrong one: the next spelling is asked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_RESET_HINTS = (
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "anthropic-ratelimit-requests-reset",
    "anthropic-ratelimit-tokens-reset",
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_FAR_MS = 1e15  # thousands of years: more would overflow, and every policy caps it long before
_MS_OF = {"ms": 1.0, "s": 1_000.0, "m": 60_000.0, "h": 3_600_000.0}


def retry_after_ms(headers: Mapping[str, str], now_ms: int, *, hints: bool = True) -> int | None:
    """Milliseconds from now until the provider wants to be called again; None if it does not say.

    Vendors send their reset hints with every answer; leave them out (`hints=False`) unless a limit was hit.
    """
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    exact = _number(lower.get("retry-after-ms"))
    if exact is not None:
        return _whole_ms(exact)
    plain = lower.get("retry-after")
    seconds = _number(plain)
    if seconds is not None:
        return _whole_ms(seconds * 1_000)
    until = _until_date(plain, now_ms) if plain is not None else None
    if until is not None or not hints:
        return until
    known = [_hint(lower[name], now_ms) for name in _RESET_HINTS if name in lower]
    return max((hint for hint in known if hint is not None), default=None)


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """The provider's own word in `x-should-retry`, if it gave one."""
    word = next((v.strip().lower() for k, v in headers.items() if k.lower() == "x-should-retry"), None)
    return {"true": True, "false": False}.get(word) if word else None


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


def _until_date(text: str, now_ms: int) -> int | None:
    try:
        when = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return _until(when, now_ms)


def _hint(text: str, now_ms: int) -> int | None:
    parts = _DURATION.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return _whole_ms(sum(float(number) * _MS_OF[unit] for number, unit in parts))
    seconds = _number(text)
    if seconds is not None:
        return _whole_ms(seconds * 1_000)
    try:
        return _until(datetime.fromisoformat(text), now_ms)
    except ValueError:
        return None


def _until(when: datetime, now_ms: int) -> int:
    aware = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0, math.ceil(aware.timestamp() * 1_000) - now_ms)
