"""What a JSON body may not hold, whatever route it is for.

A body that is nested too deeply, or that holds NaN, an infinity, a number no double can hold, a lone surrogate or a
NUL character, is read by some parsers and not by others, and breaks what stores or repeats it later. It is refused
before any model sees it. An ordinary body costs a few searches over its bytes; only a suspicious one is parsed here.
"""

from __future__ import annotations

import json
import re
from codecs import getincrementaldecoder
from math import isfinite
from typing import Any, NoReturn

DEPTH_MAX = 64
BEGINNING = 4_096
"""How much of a body is read to see how it is written; white space may come first."""
_JSON_BEGINS = frozenset('{["-0123456789tfnNI')
_ESCAPES = (b"\\u0000", b"\\ud", b"\\uD")
_NOT_DIGITS = bytes(char for char in range(256) if char not in b"0123456789")
# Every digit as 0 and every exponent as e: then three searches find all numbers that may be too large.
_NUMBERS = bytes(0x30 if char in b"0123456789" else 0x65 if char in b"eE" else char for char in range(256))
_LARGE = (b"0e000", b"0e+000", b"0" * 300)
# A text that does not end goes on to the end: nothing of it is read a second time.
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_NOT_BRACKETS = bytes(char for char in range(256) if char not in b"[]{}")
_ROUND = bytes.maketrans(b"[]{}", b"()()")


def is_json(content_type: str) -> bool:
    """Whether a body of this type is parsed as JSON; one without a type may be."""
    essence = content_type.partition(";")[0].strip().lower()
    return not essence or essence.endswith(("/json", "+json"))


def json_complaint(body: bytes) -> str | None:
    """Why this body is refused, as the end of a sentence; None if nothing speaks against it.

    What is no JSON at all is left to the parser of the route, which says where it breaks."""
    if _is_wide(body):
        return "is not written in UTF-8, as JSON is"
    if body.count(b"[") + body.count(b"{") > DEPTH_MAX and _depth(body) > DEPTH_MAX:
        return f"is nested deeper than {DEPTH_MAX} levels"
    if not _is_suspicious(body):
        return None
    try:
        tree = json.loads(body, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_integer)
    except _BadJson as refused:
        return str(refused)
    except (ValueError, RecursionError):
        return None
    return _text_complaint(tree)


def _is_wide(body: bytes) -> bool:
    """Whether it is JSON in UTF-16 or UTF-32, which Python's parser reads too: there a bracket is not one byte. What
    comes without a type may be a sound or a picture, with NULs of its own."""
    head = body[:4]
    if head.isascii() and 0 not in head:
        return False
    encoding = json.detect_encoding(head)
    if encoding.startswith("utf-8"):
        return False
    try:
        text = getincrementaldecoder(encoding)().decode(body[:BEGINNING])
    except UnicodeDecodeError:
        return False
    first = text.lstrip()[:1]
    return first in _JSON_BEGINS if first else bool(text)


def _is_suspicious(body: bytes) -> bool:
    if b"NaN" in body or b"Infinity" in body:
        return True
    if b"\\" in body and any(part in body for part in _ESCAPES):
        return True
    if len(body.translate(None, _NOT_DIGITS)) < 4:
        return False
    numbers = body.translate(_NUMBERS)
    return any(part in numbers for part in _LARGE)


class _BadJson(Exception):
    """Why a value in a body is refused."""


def _depth(body: bytes) -> int:
    """The deepest nesting, brackets inside of texts left out: how often the innermost pairs can be taken away, or how
    many are never closed. A body of brackets alone costs 5 ms; looking at each by itself took 160."""
    left = _TEXT.sub(b"", body).translate(_ROUND, _NOT_BRACKETS)
    for depth in range(DEPTH_MAX + 1):
        less = left.replace(b"()", b"")
        if len(less) == len(left):
            return max(depth, left.count(b"("))
        left = less
    return DEPTH_MAX + 1


def _refuse_constant(name: str) -> NoReturn:
    raise _BadJson(f"holds {name}, which is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise _BadJson("holds a number too large to be read")
    return value


def _integer(text: str) -> int:
    _finite(text)
    return int(text)


def _text_complaint(tree: Any) -> str | None:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            if "\0" in node:
                return "holds a NUL character"
            if not node.isascii() and any("\ud800" <= char <= "\udfff" for char in node):
                return "holds a lone surrogate, which is no character"
        elif isinstance(node, dict):
            waiting += [*node.keys(), *node.values()]
        elif isinstance(node, list):
            waiting += node
    return None
