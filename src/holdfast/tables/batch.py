"""A batch of rows travels as one JSON parameter: an object, because json_each reads one on both databases."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


def keyed(rows: Mapping[str, Sequence[Any]]) -> str:
    """Rows keyed by their id."""
    return _encode(rows)


def numbered(rows: Iterable[Sequence[Any]]) -> str:
    """Rows keyed by their position."""
    return _encode({str(number): row for number, row in enumerate(rows)})


def ids(keys: Iterable[str]) -> str:
    """Bare ids."""
    return _encode(dict.fromkeys(keys, 0))


def text(value: Any) -> str:
    """One JSON value, compact."""
    return _encode(value)
