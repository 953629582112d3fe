"""What a stranger wrote, on a terminal: nothing in it moves the cursor, colours, hides or reverses anything."""

from __future__ import annotations

import re
from typing import Any, TypeVar

T = TypeVar("T")
# Control characters but for tabs and new lines, those of the second block, and marks that reverse or hide the text.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def printable(text: str) -> str:
    """The text with each of these characters written as its number, as in `\\x1b`."""
    return _UNFIT.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def printable_within(found: T) -> T:
    """The same for every text in lists and mappings."""
    return _walk(found)  # type: ignore[no-any-return]


def _walk(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {_walk(key): _walk(item) for key, item in value.items()}
    return [_walk(item) for item in value] if isinstance(value, list) else value
