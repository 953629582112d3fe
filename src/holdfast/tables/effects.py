"""The ledger of external effects: at most one row per key, for ever."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.core.effect import EffectRow, EffectStatus
from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_statements

sql = load_statements(Path(__file__).with_suffix(".sql"))


async def plan(
    tx: Tx,
    *,
    key: str,
    token: str,
    job_id: str | None,
    kind: str,
    stage: str,
    provider: str,
    provider_class: str,
    epoch: int,
    attempt: int,
    now: int,
) -> bool:
    """Write the intent; False if the key is known already."""
    rows = await tx.rows(
        sql.plan,
        key=key,
        token=token,
        job_id=job_id,
        kind=kind,
        stage=stage,
        provider=provider,
        provider_class=provider_class,
        epoch=epoch,
        attempt=attempt,
        now=now,
    )
    return bool(rows)


async def lock(tx: Tx, key: str) -> EffectRow | None:
    rows = await tx.rows(sql.lock, key=key)
    return read_row(rows[0]) if rows else None


def read_row(row: Row) -> EffectRow:
    return EffectRow(
        key=row["key"],
        token=row["token"],
        status=EffectStatus(row["status"]),
        provider=row["provider"],
        provider_id=row["provider_id"],
        epoch=row["epoch"],
        sends=row["sends"],
        first_sent_at=row["first_sent_at"],
        last_sent_at=row["last_sent_at"],
        error_class=row["error_class"],
        error=row["error"],
    )


async def begin(tx: Tx, key: str, job_id: str, attempt: int, epoch: int, now: int, *, sends: int) -> int | None:
    """Say that the send starts now; return how many have. None: the job's lease is gone, or somebody has begun to send
    since the row was read with `sends`. Then nothing may be sent."""
    rows = await tx.rows(sql.begin, key=key, job_id=job_id, attempt=attempt, epoch=epoch, now=now, sends=sends)
    return int(rows[0]["sends"]) if rows else None


async def mark(tx: Tx, key: str, attempt: int, provider_id: str, now: int) -> bool:
    return bool(await tx.rows(sql.mark, key=key, attempt=attempt, provider_id=provider_id, now=now))


async def backfill(tx: Tx, key: str, provider_id: str, now: int) -> bool:
    return bool(await tx.rows(sql.backfill, key=key, provider_id=provider_id, now=now))


async def refuse(
    tx: Tx, key: str, attempt: int, status: EffectStatus, error_class: str, error: str, now: int, *, sends: int
) -> bool:
    """The send failed: back to planned, to unknown, or failed for good. False: it was not the last one that began."""
    values = {"status": status, "error_class": error_class, "error": error, "now": now}
    return bool(await tx.rows(sql.refuse, key=key, attempt=attempt, sends=sends, **values))


async def ask(tx: Tx, key: str, error: str, now: int) -> bool:
    """Only a person can say what happened."""
    return bool(await tx.rows(sql.ask, key=key, error=error, now=now))


async def answer(tx: Tx, key: str, status: EffectStatus, provider_id: str | None, now: int) -> bool:
    return bool(await tx.rows(sql.answer, key=key, status=status, provider_id=provider_id, now=now))


async def unsent(tx: Tx, key: str, sends: int, now: int) -> bool:
    """Looked up and not there: a replay of its job may send it. False: somebody began to send meanwhile."""
    return bool(await tx.rows(sql.unsent, key=key, sends=sends, now=now))


async def hand_over(tx: Tx, from_job: str, to_job: str, now: int) -> None:
    """Give the effects that a job has planned and not brought about to another."""
    await tx.rows(sql.hand_over, from_job=from_job, to_job=to_job, now=now)


async def in_doubt(tx: Tx, before: int, limit: int) -> Sequence[Row]:
    """Effects nobody is working on and nobody knows the fate of."""
    return await tx.rows(sql.in_doubt, before=before, limit=limit)


async def of_job(tx: Tx, job_id: str) -> Sequence[Row]:
    return await tx.rows(sql.of_job, job_id=job_id)


async def by_status(tx: Tx, status: str | None, limit: int = 100) -> Sequence[Row]:
    return await tx.rows(sql.by_status, status=status, limit=limit)


async def count(tx: Tx) -> Sequence[Row]:
    return await tx.rows(sql.count)
