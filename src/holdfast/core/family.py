"""What comes back to a stage from what it waited for: values, whether things went well or not."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from pydantic import JsonValue
else:
    JsonValue = Any  # for whoever reads the type of a field while the program runs

T = TypeVar("T")
NEVER_MS = 9_999_999_999_999
"""Until when a job is parked that waits for its children: as long as it takes."""
JOIN_KEY = "join:"


@dataclass(frozen=True, slots=True)
class Success(Generic[T]):
    """A job has succeeded; `value` is what its last stage returned."""

    value: T


@dataclass(frozen=True, slots=True)
class Answered:
    """Somebody has answered what `ctx.wait_for` asked for; `value` is their JSON."""

    value: JsonValue


def child_id(created_at: int, join_id: str, position: int) -> str:
    """The id of a join's child, a UUIDv7: the same for every attempt of the parent, in the order of the positions."""
    tag = int.from_bytes(hashlib.sha256(join_id.encode()).digest()[:6], "big") & ((1 << 42) - 1)
    high = (created_at & ((1 << 48) - 1)) << 16 | 0x7000 | (position >> 20) & 0xFFF
    low = 2 << 62 | (position & 0xFFFFF) << 42 | tag
    return str(uuid.UUID(int=high << 64 | low))
