"""Messages to be published, written in the transaction of the change they tell of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from holdfast.core.aggregates import AggregateLook
from holdfast.core.floor import BOTTOM
from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch
from holdfast.tables.depth import COUNT_MAX

sql = load_statements(Path(__file__).with_suffix(".sql"))

NewMessage = tuple[str, str, str, str, str, str]
"""Message id, aggregate id, destination, message type, payload as JSON, headers as JSON."""
NO_BEGINS: Mapping[str, int] = MappingProxyType({})


async def put(tx: Tx, messages: Iterable[NewMessage], now: int) -> None:
    await tx.rows(sql.put, batch=batch.numbered(messages), now=now)


class ClaimedMessage(NamedTuple):
    """A message that a relay has leased."""

    seq: int
    id: str
    aggregate_id: str
    destination: str
    message_type: str
    payload: str
    headers: str
    retry_count: int
    created_at: int


async def claim(
    tx: Tx,
    token: str,
    now: int,
    lease_until: int,
    limit: int,
    floor: int = BOTTOM,
    begins: Mapping[str, int] = NO_BEGINS,
) -> list[ClaimedMessage]:
    """Lease the next messages, one of each aggregate. `begins`: below these numbers everything of an aggregate is
    published."""
    lease = {"token": token, "now": now, "lease_until": lease_until}
    where = {"floor": floor, "limit": limit}
    if begins:
        rows = await tx.rows(sql.claim_from, into=ClaimedMessage, **lease, **where, begins=batch.text(begins))
    else:
        rows = await tx.rows(sql.claim, into=ClaimedMessage, **lease, **where)
    return sorted(rows, key=lambda row: row.seq)


def leaves_versions(tx: Tx) -> bool:
    """Whether what is published can lie in front of what is pending."""
    return tx.dialect == "postgres"


async def look_at(tx: Tx, begins: Mapping[str, int]) -> AggregateLook:
    """How far these aggregates are published, from these numbers on."""
    writers = frozenset(row["name"] for row in await tx.rows(sql.writers))
    rows = await tx.rows(sql.first_unpublished, begins=batch.text(begins))
    return AggregateLook(writers, {row["aggregate_id"]: row["seq"] for row in rows})


async def published(tx: Tx, token: str, seqs: Iterable[int], now: int) -> int:
    return len(await tx.rows(sql.published, token=token, batch=batch.ids(map(str, seqs)), now=now))


async def refused(tx: Tx, token: str, seq: int, error: str, available_at: int, retries_max: int) -> str | None:
    """One row backs off alone; returns its status, 'failed' after its last try."""
    rows = await tx.rows(
        sql.refused, token=token, seq=seq, error=error, available_at=available_at, retries_max=retries_max
    )
    return str(rows[0]["status"]) if rows else None


async def release(tx: Tx, token: str, seqs: Iterable[int], error: str) -> None:
    await tx.rows(sql.release, token=token, batch=batch.ids(map(str, seqs)), error=error)


async def requeue(tx: Tx, message_id: str, now: int) -> bool:
    return bool(await tx.rows(sql.requeue, id=message_id, now=now))


async def first_pending(tx: Tx, floor: int = BOTTOM) -> int | None:
    """When the first message that is not confirmed became available; None if all are."""
    rows = await tx.rows(sql.first_pending, floor=floor)
    return rows[0]["available_at"] if rows else None


class OutboxLag(NamedTuple):
    """How many messages are pending, since when the oldest, and where the count began."""

    pending: int
    oldest: int | None
    first: int | None


async def lag(tx: Tx, floor: int = BOTTOM) -> OutboxLag:
    """How many messages are pending (`COUNT_MAX`: so many or more), and since when the oldest of them."""
    return (await tx.rows(sql.lag, into=OutboxLag, floor=floor, limit=COUNT_MAX))[0]


class SentMessage(NamedTuple):
    """A message of one job, for people."""

    id: str
    destination: str
    message_type: str
    status: str
    created_at: int
    processed_at: int | None
    retry_count: int
    error_message: str | None


async def of_aggregate(tx: Tx, aggregate_id: str, limit: int = 100) -> list[SentMessage]:
    return await tx.rows(sql.of_aggregate, into=SentMessage, aggregate_id=aggregate_id, limit=limit)


async def prune(tx: Tx, after: int, before: int, limit: int) -> tuple[int, int]:
    """Delete what was published before then, of the next `limit` messages after a `seq`; returns how many went, and
    after which `seq` to go on."""
    (head,) = await tx.rows(sql.oldest, after=after, limit=limit)
    if head["last"] is None:
        return 0, after
    gone = await tx.rows(sql.prune, after=after, last=head["last"], before=before)
    return len(gone), head["last"] if head["newest"] < before else head["first"] - 1
