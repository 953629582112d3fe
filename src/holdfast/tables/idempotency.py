"""Idempotency keys of HTTP requests, with the answer each one got."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables.typed import fetch_first

sql = load_statements(Path(__file__).with_suffix(".sql"))


@dataclass(frozen=True, slots=True)
class Reserved:
    """A key within its scope, and the fingerprint of what came with it."""

    scope: str
    key: str
    fingerprint: str


async def reserve(tx: Tx, scope: str, key: str, fingerprint: str, now: int) -> bool:
    """True for the one request that may go on; it must `answer` in the same transaction."""
    return bool(await tx.rows(sql.reserve, scope=scope, key=key, fingerprint=fingerprint, now=now))


class KeptResponse(NamedTuple):
    """What a request was answered, and the fingerprint of its body."""

    fingerprint: str
    status: int
    body: str


async def read(tx: Tx, scope: str, key: str) -> KeptResponse | None:
    return await fetch_first(KeptResponse, tx, sql.read, scope=scope, key=key)


async def answer(tx: Tx, scope: str, key: str, status: int, body: str) -> None:
    await tx.rows(sql.answer, scope=scope, key=key, status=status, body=body)


async def prune(tx: Tx, floor: int, before: int, limit: int) -> list[int]:
    """Forget a batch of the oldest; returns when each was created."""
    return sorted(row["created_at"] for row in await tx.rows(sql.prune, floor=floor, before=before, limit=limit))
