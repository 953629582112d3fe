"""Whom a review is told to, and the name under which the ledger of effects knows each telling."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

RECIPIENTS_MAX = 100


@dataclass(frozen=True, slots=True)
class Recipient:
    """Somebody to tell. A review that could not be told to one who is not required still succeeds."""

    address: str
    required: bool = True


def without_doubles(recipients: Sequence[Recipient]) -> list[Recipient]:
    """Each mailbox once, however it is spelled; required if any mention of it is."""
    kept: dict[str, Recipient] = {}
    for one in recipients:
        key = one.address.casefold()
        known = kept.get(key)
        kept[key] = one if known is None else Recipient(known.address, known.required or one.required)
    return list(kept.values())


def effect_key(changelist_id: str, recipient: str, review_version: int) -> str:
    """The identity of "this recipient was told of this version", for the ledger.

    Different tuples give different keys: read from its end, a key has one reading. The address is in it as a
    fingerprint only, because keys stand in logs and dead letters."""
    who = hashlib.sha256(recipient.casefold().encode()).hexdigest()[:32]
    return f"review/{changelist_id}/{who}/{review_version}"
