"""Reads what a PromQL expression asks for: its metrics, with the labels each is narrowed by, and its groupings."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<string>"(?:\\.|[^"\\])*")|(?P<range>\[[^\]]*\])|(?P<name>[a-zA-Z_:][\w:]*)|(?P<number>\d+(?:\.\d+)?[smhd]?)"""
    r"""|(?P<sign>=~|!~|!=|==|>=|<=|[-+*/%^(){},=<>])|(?P<space>\s+)"""
)
FUNCTIONS = frozenset(
    [
        "sum",
        "min",
        "max",
        "avg",
        "count",
        "rate",
        "increase",
        "last_over_time",
        "histogram_quantile",
        "absent",
        "vector",
    ]
)
GROUPINGS = frozenset(["by", "without", "on", "ignoring"])
WORDS = frozenset(["and", "or", "unless", "offset", "bool"])


@dataclass(frozen=True)
class Asked:
    """`metrics` with the labels and values that each is narrowed by; `grouped` are the labels in groupings."""

    metrics: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    grouped: frozenset[str]


def read(expression: str) -> Asked:
    """Raises ValueError for what is not an expression of this small part of the language."""
    words = list(_tokens(expression))
    depth = 0
    metrics: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    grouped: set[str] = set()
    at = 0
    while at < len(words):
        kind, text = words[at]
        following = words[at + 1][1] if at + 1 < len(words) else ""
        depth += (text == "(") - (text == ")") if kind == "sign" else 0
        if depth < 0:
            raise ValueError(f"a parenthesis too many in {expression}")
        if kind == "name" and text in GROUPINGS:
            end = next(place for place in range(at, len(words)) if words[place][1] == ")")
            grouped |= {word for what, word in words[at + 2 : end] if what == "name"}
            at = end
        elif kind == "name" and text in FUNCTIONS and (following == "(" or following in GROUPINGS):
            pass
        elif kind == "name" and text not in WORDS:
            narrowed, at = _matchers(words, at + 1) if following == "{" else ((), at)
            metrics.append((text, narrowed))
        at += 1
    if depth:
        raise ValueError(f"an open parenthesis in {expression}")
    return Asked(tuple(metrics), frozenset(grouped))


def _tokens(expression: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None:
            raise ValueError(f"cannot read {expression[at:]!r}")
        at = match.end()
        if match.lastgroup != "space":
            found.append((str(match.lastgroup), match[0]))
    return found


def _matchers(words: list[tuple[str, str]], at: int) -> tuple[tuple[tuple[str, str], ...], int]:
    """The labels between braces, and where they end."""
    found = []
    at += 1
    while words[at][1] != "}":
        if words[at][1] == ",":
            at += 1
            continue
        (_, label), (_, sign), (kind, value) = words[at : at + 3]
        if sign not in ("=", "!=", "=~", "!~") or kind != "string":
            raise ValueError(f"cannot read a matcher at {label}")
        found.append((label, value.strip('"')))
        at += 3
    return tuple(found), at
