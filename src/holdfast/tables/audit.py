"""Who did what, when. Every action of a person is written in the transaction of what it changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

COUNT_MAX = 10_000

sql = load_statements(Path(__file__).with_suffix(".sql"))


async def write(tx: Tx, actor: str, action: str, subject: str, data: Any, now: int) -> None:
    body = None if data is None else batch.text(data)
    await tx.rows(sql.write, actor=actor, action=action, subject=subject, data=body, now=now)


class AuditRecord(NamedTuple):
    """Who did what to what, and when."""

    at: int
    actor: str
    action: str
    subject: str
    data: str | None


async def of_subject(tx: Tx, subject: str, limit: int = 200) -> list[AuditRecord]:
    return await tx.rows(sql.of_subject, into=AuditRecord, subject=subject, limit=limit)


class ActCount(NamedTuple):
    """How often people did one thing."""

    action: str
    acts: int


async def acts_since(tx: Tx, since: int) -> list[ActCount]:
    """What people did since then, the newest `COUNT_MAX` acts; what the kernel writes down itself is not among them."""
    return await tx.rows(sql.acts_since, into=ActCount, since=since, limit=COUNT_MAX)
