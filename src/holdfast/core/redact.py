"""Takes secrets and addresses out of what leaves a job: logs, dead letters, stack traces, prompts.

Three nets, one behind the other: `allow` keeps the named fields and turns the rest into fingerprints; `redact`
walks any value and masks what stands under a telling key; `redact_text` finds secrets by their shape.
"""

from __future__ import annotations

import hashlib
import json
import re
import traceback
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from dataclasses import fields as fields_of
from datetime import date, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from types import FrameType
from uuid import UUID

from holdfast.core.address import mask_addresses
from holdfast.core.personal_text import redact_lines, redact_message
from holdfast.core.secret_text import EMAIL_MASK, MASK, redact_emails, redact_text

__all__ = [
    "EMAIL_MASK",
    "MASK",
    "allow",
    "redact",
    "redact_emails",
    "redact_frame",
    "redact_lines",
    "redact_message",
    "redact_stack",
    "redact_text",
]

CUT = "[cut]"
DEPTH_MAX = 16
NODES_MAX = 10_000
MESSAGE_LENGTH_MAX = 2_000
CHAIN_LENGTH_MAX = 10

# Matched against a key in lower case without '-', '_', '.' and spaces.
_TELLING = re.compile(
    r"password|passwd|passphrase|passcode|secret|token|credential|authorization|cookie|privatekey|apikey"
    r"|accesskey|signingkey|encryptionkey|accountkey|connectionstring|pwd$|session(?:id|key)"
    r"|^(?:auth|pass|pw|pin|otp|cvv|cvc|ssn|jwt|sid|session|csrf|xsrf|bearer|sig|signature)$"
)
_PLAIN = (date, time_of_day, timedelta, Decimal, UUID, PurePath)


def redact(value: object, *, emails: bool = True, personal: bool = False) -> object:
    """A copy, made of plain containers and scalars, with no secret in any key, value or text; with `personal`, no
    phone number and no quoted text either.

    Below DEPTH_MAX levels and after NODES_MAX values it says "[cut]", so cycles end too. An object of an
    unknown type becomes its type's name: nobody knows what its `str` would tell.
    """
    return _Walk(emails, NODES_MAX, personal).value(value, 0)


def allow(value: Mapping[str, object], fields: Collection[str]) -> dict[str, object]:
    """The named fields, redacted; every other one as a fingerprint that can be compared but not read."""
    walk = _Walk(True, NODES_MAX)
    return {
        walk.text(str(key)): walk.under(key, item, 0) if key in fields else _fingerprint(item)
        for key, item in value.items()
    }


def redact_stack(error: BaseException, limit: int = 20) -> str:
    """The chain of exceptions: type, redacted message, and the last `limit` frames as "file:line function".

    No source lines and no locals, for both hold data. A file is named by its last two parts, so that the
    layout of the machine stays private.
    """
    return "\n".join(f"{link}{_headline(each)}{_frames(each, limit)}" for link, each in _chain(error))


def redact_frame(frame: FrameType, limit: int = 20) -> str:
    """Where a thread stands: its innermost `limit` frames, the innermost last, as in `redact_stack`."""
    frames = [each for each, _ in traceback.walk_stack(frame)][:limit]
    places = [
        f"{_short(level.f_code.co_filename)}:{level.f_lineno} {level.f_code.co_qualname}" for level in reversed(frames)
    ]
    return "\n  ".join(places)


@dataclass(slots=True)
class _Walk:
    emails: bool
    nodes_left: int
    personal: bool = False

    def value(self, value: object, depth: int) -> object:
        self.nodes_left -= 1
        if value is None or (isinstance(value, bool | int | float) and not isinstance(value, Enum)):
            return value
        if depth > DEPTH_MAX or self.nodes_left < 0:
            return CUT
        if isinstance(value, str | bytes | bytearray):
            return self.text(value if isinstance(value, str) else bytes(value).decode("utf-8", "replace"))
        if isinstance(value, Mapping):
            return self.mapping(value.items(), depth)
        if isinstance(value, list | tuple | set | frozenset | deque):
            items = self.items(value, depth)
            return tuple(items) if isinstance(value, tuple) else items
        if is_dataclass(value) and not isinstance(value, type):
            return self.mapping(((each.name, getattr(value, each.name, None)) for each in fields_of(value)), depth)
        if isinstance(value, Enum):
            return self.value(value.value, depth + 1)
        return self.text(str(value)) if isinstance(value, _PLAIN) else f"<{type(value).__qualname__}>"

    def text(self, text: str) -> str:
        if len(text) < 12 and text.isidentifier():  # most keys; no secret is so short and plain
            return text
        if self.personal:
            return redact_message(text)
        clean = redact_text(mask_addresses(text))
        return redact_emails(clean) if self.emails else clean

    def under(self, key: object, item: object, depth: int) -> object:
        """The value of `key`, masked whole if the key tells that it is a secret."""
        if not isinstance(key, str | bytes) or not _tells(key) or item is None or isinstance(item, bool):
            return self.value(item, depth + 1)
        counts = isinstance(item, int | float) and "tokens" in _plain_key(key)
        return item if counts else MASK

    def mapping(self, entries: Iterable[tuple[object, object]], depth: int) -> dict[object, object]:
        entries = list(entries)
        named = _named_secret(dict(entries))
        clean: dict[object, object] = {}
        for key, item in entries:
            if self.nodes_left <= 0:
                clean[CUT] = CUT
                break
            kept = MASK if named and key == "value" else self.under(key, item, depth)
            clean[self.key(key, clean)] = kept
        return clean

    def key(self, key: object, taken: Collection[object]) -> object:
        """The key without secrets of its own; numbered if two keys look alike after that."""
        if key is None or isinstance(key, bool | int | float):
            return key
        clean = str(self.value(key, 0))
        return clean if clean not in taken else f"{clean}#{len(taken) + 1}"

    def items(self, values: Collection[object], depth: int) -> list[object]:
        if len(values) == 2:
            first, second = values
            if isinstance(first, str | bytes) and _tells(first):  # a header as a pair
                return [self.value(first, depth + 1), self.under(first, second, depth)]
        clean: list[object] = []
        for each in values:
            if self.nodes_left <= 0:
                return [*clean, CUT]
            clean.append(self.value(each, depth + 1))
        return clean


def _tells(key: str | bytes) -> bool:
    return _TELLING.search(_plain_key(key)) is not None


def _plain_key(key: str | bytes) -> str:
    text = key if isinstance(key, str) else key.decode("utf-8", "replace")
    return re.sub(r"[-_.\s]", "", text.lower())


def _named_secret(entries: Mapping[object, object]) -> bool:
    """Whether this is `{"name": "DB_PASSWORD", "value": ...}`, the shape of environments and recorded headers."""
    name = entries.get("name", entries.get("key"))
    return "value" in entries and isinstance(name, str) and _tells(name)


def _fingerprint(value: object) -> dict[str, object]:
    if isinstance(value, bytes | bytearray):
        data, length = bytes(value), len(value)
    else:
        text = value if isinstance(value, str) else _canonical(value)
        data, length = text.encode("utf-8", "surrogatepass"), len(text)
    return {"$redacted": f"sha256:{hashlib.sha256(data).hexdigest()[:12]}", "len": length}


def _canonical(value: object) -> str:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _chain(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """The error, then what it was raised from, each with the words that join it to the one before."""
    seen: set[int] = set()
    link, current = "", error
    while id(current) not in seen and len(seen) < CHAIN_LENGTH_MAX:
        seen.add(id(current))
        yield link, current
        if isinstance(current, BaseExceptionGroup):
            for each in current.exceptions[:CHAIN_LENGTH_MAX]:
                yield "one of the group: ", each
        if current.__cause__ is not None:
            link, current = "caused by: ", current.__cause__
        elif current.__context__ is not None and not current.__suppress_context__:
            link, current = "while handling: ", current.__context__


def _headline(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        message = str(error)
    except Exception:  # a broken __str__ must not hide the failure it belongs to
        message = "(its message cannot be read)"
    clean = redact_message(message)
    cut = clean if len(clean) <= MESSAGE_LENGTH_MAX else f"{clean[:MESSAGE_LENGTH_MAX]} {CUT}"
    return f"{name}: {cut}" if cut else name


def _frames(error: BaseException, limit: int) -> str:
    last = deque(traceback.walk_tb(error.__traceback__), maxlen=limit)
    return "".join(f"\n  {_short(frame.f_code.co_filename)}:{line} {frame.f_code.co_qualname}" for frame, line in last)


def _short(path: str) -> str:
    return "/".join(re.split(r"[\\/]", path)[-2:])
