"""Reads the bytes of a queue message, trusting nothing.

A body is small enough, UTF-8, one JSON object, of bounded depth, without duplicate keys, NaN, infinities,
NUL or lone surrogates; only then does a model look at it. Where a body is refused, the two ids are still
read if they can be, so that the sender hears of it and an operator finds it.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any, NoReturn

BODY_BYTES_MAX = 1_048_576
DEPTH_MAX = 32
UNSIGNED = "UNSIGNED"
NO_SIGNATURE = "The message carries no valid signature in its header holdfast-signature."
ID_LENGTH_MAX = 200
UUID4_PATTERN = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$"

# Ids of a message too large to parse are looked for in its beginning only.
_SCAN_BYTES_MAX = 65_536
_UUID4 = re.compile(UUID4_PATTERN)
# A quoted name inside a text is written \"requestId\", so a backslash in front means "not a field".
_FIELD = r'(?<!\\)"%s"\s*:\s*"([^"\\\x00-\x1f]{1,%d})"'
_REQUEST_ID = re.compile(_FIELD % ("requestId", ID_LENGTH_MAX))
_SUBMISSION_ID = re.compile(_FIELD % ("submissionId", ID_LENGTH_MAX))


class InvalidMessage(Exception):
    """A body that is not the contract's, with the ids that could still be read from it."""

    def __init__(self, reason: str, request_id: str | None = None, submission_id: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.request_id = request_id
        self.submission_id = submission_id


class UnsignedMessage(InvalidMessage):
    """A body that nobody we know has signed, whatever it says."""

    def __init__(self, body: bytes) -> None:
        super().__init__(NO_SIGNATURE, *scan_ids(body))


def read_object(body: bytes, *, bytes_max: int = BODY_BYTES_MAX) -> dict[str, Any]:
    """The JSON object in `body`, or InvalidMessage with the ids that are readable all the same."""
    try:
        tree = _decode(body, bytes_max)
    except _Refused as refused:
        raise InvalidMessage(str(refused), *scan_ids(body)) from None
    if not isinstance(tree, dict):
        raise InvalidMessage("The message is not a JSON object.")
    return check_tree(tree)


def check_tree(tree: dict[str, Any]) -> dict[str, Any]:
    """An object that was read from JSON before, if it can be a message; else InvalidMessage. Nothing is said of its
    size."""
    reason = _complaint(tree)
    if reason is not None:
        raise InvalidMessage(reason, *ids_of(tree))
    return tree


def ids_of(tree: dict[str, Any]) -> tuple[str | None, str | None]:
    """`requestId` and `submissionId` as they came, right or wrong; None where there is nothing usable."""
    return _id(tree.get("requestId")), _id(tree.get("submissionId"))


def scan_ids(body: bytes) -> tuple[str | None, str | None]:
    """The ids in bytes that cannot be parsed, by their look."""
    text = body[:_SCAN_BYTES_MAX].decode("utf-8", errors="replace")
    request, submission = _REQUEST_ID.search(text), _SUBMISSION_ID.search(text)
    return _id(request.group(1)) if request else None, _id(submission.group(1)) if submission else None


def is_uuid4(text: str) -> bool:
    return len(text) == 36 and _UUID4.match(text) is not None


class _Refused(Exception):
    """Why the bytes are no message."""


def _decode(body: bytes, bytes_max: int) -> object:
    if len(body) > bytes_max:
        raise _Refused(f"The message has {len(body)} bytes; the limit is {bytes_max}.")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Refused(f"The message is not UTF-8 (byte {error.start}).") from None
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise _Refused(f"The message is nested deeper than {DEPTH_MAX} levels.") from None
    except ValueError as error:
        # The decoder's message tells the position only; it never quotes the content.
        place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise _Refused(f"The message is not JSON{place}.") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise _Refused("The message has a duplicate key, so readers would disagree about its meaning.")
    return tree


def _no_constant(name: str) -> NoReturn:
    raise _Refused(f"The message holds {name}, which is not JSON.")


def _complaint(tree: dict[str, Any]) -> str | None:
    """What is wrong with a parsed tree, walked without recursion."""
    waiting: list[tuple[dict[str, Any] | list[Any], int]] = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > DEPTH_MAX:
            return f"The message is nested deeper than {DEPTH_MAX} levels."
        for child in (*node, *node.values()) if isinstance(node, dict) else node:
            if isinstance(child, str):
                if ("\x00" in child or not child.isascii()) and (reason := _text_complaint(child)) is not None:
                    return reason
            elif isinstance(child, dict | list):
                waiting.append((child, depth + 1))
            elif isinstance(child, float) and not isfinite(child):
                return "The message holds a number too large to be read."
    return None


def _text_complaint(text: str) -> str | None:
    if "\x00" in text:
        return "The message holds a NUL character."
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        return "The message holds a lone surrogate, which cannot be written as UTF-8."
    return None


def _id(value: object) -> str | None:
    """An id that a person can search for: a text, or a number as it is written."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = json.dumps(value)
    usable = isinstance(value, str) and 0 < len(value) <= ID_LENGTH_MAX and _text_complaint(value) is None
    return value if usable and isinstance(value, str) else None
