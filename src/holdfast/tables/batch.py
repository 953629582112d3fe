"""A batch of rows travels as one JSON parameter: an object, because json_each reads one on both databases.

PostgreSQL refuses two things that JSON can say and text cannot hold: NUL and lone surrogates. Whatever a user or a
provider wrote, both become the replacement character here, so that no message can make a row unwritable.

Why so: docs/decisions/0006-batches-are-parsed-once.md
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_SPECIAL = re.compile(r"[\\\t\n\r]")
_COPY_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_dump = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


def _encode(value: Any) -> str:
    text = _dump(value)
    if "\\u0000" in text or "\\ud" in text:
        return _dump(_storable(json.loads(text)))
    return text


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return whole.replace("\0", "\ufffd")
    if isinstance(value, list):
        return [_storable(part) for part in value]
    if isinstance(value, dict):
        return {_storable(name): _storable(part) for name, part in value.items()}
    return value


def keyed(rows: Mapping[str, Sequence[Any]]) -> str:
    """Rows keyed by their id."""
    return _encode(rows)


def numbered(rows: Iterable[Sequence[Any]]) -> str:
    """Rows keyed by their position."""
    return _encode({str(number): row for number, row in enumerate(rows)})


def ids(keys: Iterable[str]) -> str:
    """Bare ids."""
    return _encode(dict.fromkeys(keys, 0))


def storable(text: str) -> str:
    """A text as both databases can hold it."""
    return text if text.isascii() else str(_storable(text))


def copied(value: str | int | None) -> str:
    """A value in the text form of PostgreSQL's COPY."""
    if isinstance(value, str):
        return value.translate(_COPY_ESCAPES) if _SPECIAL.search(value) else value
    return "\\N" if value is None else str(value)


def text(value: Any) -> str:
    """One JSON value, compact."""
    return _encode(value)
