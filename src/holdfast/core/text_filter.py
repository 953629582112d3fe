"""A text that something is looked for by: as it is written, or a pattern."""

from __future__ import annotations

from dataclasses import dataclass

WILD = "*"


@dataclass(frozen=True, slots=True)
class TextFilter:
    """`text` letter for letter, which an index finds; or, as a pattern, in small letters, where `%` stands for anything
    and `!` escapes."""

    text: str
    is_pattern: bool = False


def parse_text(value: str) -> TextFilter:
    """What somebody typed: a `*` at its end stands for anything."""
    if not value.endswith(WILD):
        return TextFilter(value)
    return TextFilter(f"{escape_pattern(value.rstrip(WILD))}%", is_pattern=True)


def contains(value: str) -> TextFilter:
    """The value anywhere in a text."""
    return TextFilter(f"%{escape_pattern(value.strip(WILD))}%", is_pattern=True)


def escape_pattern(text: str) -> str:
    return "".join(f"!{sign}" if sign in "!%_" else sign for sign in text.lower())
