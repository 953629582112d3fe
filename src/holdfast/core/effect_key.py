"""How the key of an effect is spelled in the ledger: unambiguously, and within its app.

    ("letter", "ann")   in the app "post"   post:/letter/ann
    "letter/ann"        in the app "post"   post::letter/ann
    ("a/b", "c")        in the app "post"   post:/a%2Fb/c

Two keys are the same effect if, and only if, they are spelled the same. Parts are compared by what they say, not by
their type: `7` is `"7"` and `Decimal("7.0")`, so that a field that changes its type between two deploys sends nothing
twice. What has no lasting spelling (a float, an object of one's own) is refused.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from uuid import UUID

NONE = "%N"
"""How None is spelled: no text can be, for a percent sign in a text is spelled %25."""
BYTES_MAX = 2_000
"""What an index of PostgreSQL takes, with a margin."""
TYPES = "str, int, bool, UUID, date, datetime, Decimal, an Enum of these, or None"


class EffectKey(str):
    """A key that is spelled in full already: the ledger takes it as it is, in whichever app. For systems that keep the
    key in a table of their own and join it with the ledger; everybody else gives a tuple."""

    __slots__ = ()


def effect_key(app: str, key: str | tuple[object, ...]) -> EffectKey:
    """Spell `key` as the ledger of `app` does; ValueError if it has no lasting spelling."""
    if isinstance(key, EffectKey):
        return _storable(key)
    if not key or (isinstance(key, tuple) and all(part == "" for part in key)):
        raise ValueError("The key of an effect is empty; name what must happen only once, as in ('mail', order.id).")
    if isinstance(key, str):
        return _storable(f"{app}::{key}")
    if not isinstance(key, tuple):
        raise ValueError(f"The key of an effect is a {type(key).__name__}; give a str or a tuple, as ('mail', 7).")
    return _storable(f"{app}:/" + "/".join(_spelled(part) for part in key))


def former_spelling(key: str | tuple[object, ...]) -> str | None:
    """How earlier releases spelled the key; None if they would have spelled it as today."""
    if isinstance(key, EffectKey):
        return None
    return key if isinstance(key, str) else "/".join(str(part) for part in key)


def was_ambiguous(key: str | tuple[object, ...]) -> bool:
    """Whether another tuple had the same former spelling, as far as this one's parts can show it."""
    return isinstance(key, tuple) and any("/" in str(part) for part in key)


def _storable(text: str) -> EffectKey:
    """The text as a key that both databases hold as it is."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= BYTES_MAX or "\0" in text:
        why = f"is {size} bytes long" if size > BYTES_MAX else "holds a NUL or half of a character"
        raise ValueError(f"The key of an effect {why}; it must be plain text of at most {BYTES_MAX} bytes.")
    return EffectKey(text)


def _spelled(part: object) -> str:
    if part is None:
        return NONE
    return _text(part).replace("%", "%25").replace("/", "%2F")


def _text(part: object) -> str:
    if isinstance(part, Enum):
        return _text(part.value)
    if isinstance(part, bool):
        return "true" if part else "false"
    if isinstance(part, (str, int, UUID)):
        return str(part)
    if isinstance(part, Decimal) and part.is_finite():
        whole = format(part.normalize(), "f")
        return "0" if whole == "-0" else whole
    if isinstance(part, datetime) and part.tzinfo is not None:
        return part.astimezone(UTC).isoformat()
    if isinstance(part, date):
        return part.isoformat()
    raise ValueError(
        f"A part of an effect's key is a {type(part).__name__}, which has no lasting spelling: use {TYPES}."
    )
