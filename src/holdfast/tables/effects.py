"""The ledger of external effects: at most one row per key, forever."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from holdfast.core.effect import EffectRow, EffectStatus
from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))


class Plan(NamedTuple):
    """An intent, before anything is sent."""

    key: str
    token: str
    job_id: str | None
    kind: str
    stage: str
    provider: str
    provider_class: str
    epoch: int
    attempt: int
    former_key: str | None = None
    """How an earlier release spelled the key: if it wrote that row, none is added."""
    ticket: str | None = None
    """What the send is known by, if it begins with the plan."""


class Begin(NamedTuple):
    """A send that is about to start. `sends`: how many had when the row was read. `ticket`: what it is known by."""

    key: str
    job_id: str
    attempt: int
    epoch: int
    sends: int
    ticket: str | None = None


class Mark(NamedTuple):
    """A send that was made by an attempt of a job, with the provider's id of what it did."""

    key: str
    job_id: str
    attempt: int
    provider_id: str


class Refusal(NamedTuple):
    """A send that failed, and what its row says from now on."""

    key: str
    job_id: str
    attempt: int
    sends: int
    status: EffectStatus
    error_class: str
    error: str


Entry = Plan | Begin | Mark | Refusal


def _keyed(entries: Iterable[Entry]) -> str:
    """The entries by key, in its order: whoever else locks some of these rows locks them in the same one."""
    rows = {entry.key: entry[1:] for entry in sorted(entries, key=_key)}
    return batch.keyed(rows)


def _key(entry: Entry) -> str:
    return entry.key


async def plan(tx: Tx, plans: Iterable[Plan], now: int) -> None:
    """Write the intents, one a key; a key that is known stays as it is, and so does one of a former spelling."""
    await tx.rows(sql.plan, batch=_keyed(plans), now=now)


async def begin_new(tx: Tx, plans: Iterable[Plan], now: int) -> set[str]:
    """Write the intents, one a key, and say that their sends start now; return the keys of those that may. A key that
    is missing from the answer is known already, or its job's lease is gone: nothing was written of it. Raises
    `StoreConflict` if somebody else has just written of one: then nothing was written of any."""
    return {row["key"] for row in await tx.rows(sql.begin_new, batch=_keyed(plans), now=now)}


async def lock(tx: Tx, key: str) -> EffectRow | None:
    return (await lock_all(tx, [key])).get(key)


async def lock_all(tx: Tx, keys: Iterable[str]) -> dict[str, EffectRow]:
    rows = await tx.rows(sql.lock, keys=batch.ids(keys))
    return {row["key"]: _effect(row) for row in rows}


def _effect(row: Row) -> EffectRow:
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
        ticket=row["ticket"],
        marked_at=row["marked_at"],
        kind=row["kind"],
        job_id=row["job_id"],
        attempt=row["attempt"],
        sender=row["sender"],
        is_held=bool(row["is_held"]),
    )


def planned_row(plan: Plan) -> EffectRow:
    """The row of an effect that is planned and was never sent."""
    return EffectRow(
        key=plan.key,
        token=plan.token,
        status=EffectStatus.PLANNED,
        provider=plan.provider,
        provider_id=None,
        epoch=plan.epoch,
        sends=0,
        first_sent_at=None,
        last_sent_at=None,
        error_class=None,
        error=None,
        kind=plan.kind,
        job_id=plan.job_id,
        attempt=plan.attempt,
        sender=plan.job_id,
    )


async def begin(tx: Tx, begins: Iterable[Begin], now: int) -> dict[str, int]:
    """Say that these sends start now, one a key; return how many have, by key. A key that is missing from the answer:
    its job's lease is gone, or somebody has begun to send since the row was read. Then nothing may be sent."""
    rows = await tx.rows(sql.begin, batch=_keyed(begins), now=now)
    return {row["key"]: row["sends"] for row in rows}


async def mark(tx: Tx, marks: Iterable[Mark], now: int) -> dict[str, str | None]:
    """Say what these sends came to, one a key; return the keys whose row was theirs to mark, each with the ticket of
    the send that the row tells of; None where it is another job's effect."""
    return {row["key"]: row["ticket"] for row in await tx.rows(sql.mark, batch=_keyed(marks), now=now)}


async def backfill(tx: Tx, key: str, provider_id: str, now: int, *, was: str | None = None) -> bool:
    """Say what a lookup found. `was`: the id that the row had when the provider was asked."""
    return bool(await tx.rows(sql.backfill, key=key, provider_id=provider_id, was=was, now=now))


async def refuse(tx: Tx, refusals: Iterable[Refusal], now: int) -> set[str]:
    """Say that these sends failed, one a key; return the keys of those that were the last to begin."""
    return {row["key"] for row in await tx.rows(sql.refuse, batch=_keyed(refusals), now=now)}


async def ask(tx: Tx, key: str, error: str, now: int, *, was: str | None = None) -> bool:
    """Only a person can say what happened. `was`: the id of the row that is in doubt, if it has one."""
    return bool(await tx.rows(sql.ask, key=key, error=error, was=was, now=now))


async def answer(tx: Tx, key: str, status: EffectStatus, provider_id: str | None, now: int) -> bool:
    return bool(await tx.rows(sql.answer, key=key, status=status, provider_id=provider_id, now=now))


async def unsent(tx: Tx, key: str, sends: int, now: int, *, was: str | None = None) -> bool:
    """Looked up and not there: a replay of its job may send it. False: somebody began to send meanwhile. `was`: the id
    that the row had when the provider was asked."""
    return bool(await tx.rows(sql.unsent, key=key, sends=sends, was=was, now=now))


async def stage_of(tx: Tx, key: str) -> str:
    """The stage that planned an effect."""
    return str((await tx.rows(sql.stage_of, key=key))[0]["stage"])


async def hand_over(tx: Tx, from_job: str, to_job: str, now: int) -> None:
    """Give the effects that a job has planned and not brought about to another."""
    await tx.rows(sql.hand_over, from_job=from_job, to_job=to_job, now=now)


async def in_doubt(tx: Tx, before: int, limit: int, floor: int = 0) -> list[tuple[EffectRow, int]]:
    """Effects nobody is working on and nobody knows the fate of, with and in the order of their last change."""
    rows = await tx.rows(sql.in_doubt, floor=floor, before=before, limit=limit)
    return [(_effect(row), row["updated_at"]) for row in rows]


async def sample(tx: Tx, provider: str, first_job: str, *, scan: int, limit: int) -> list[EffectRow]:
    """Some of what is marked as sent by the provider, by jobs from `first_job` on."""
    rows = await tx.rows(sql.sample, provider=provider, first_job=first_job, scan=scan, limit=limit)
    return [_effect(row) for row in rows]


async def page(tx: Tx, provider: str, after: str, limit: int) -> list[EffectRow]:
    """What is marked as sent by the provider, after a key."""
    return [_effect(row) for row in await tx.rows(sql.page, provider=provider, after=after, limit=limit)]


class StoredEffect(NamedTuple):
    """An effect of a job, for people."""

    key: str
    stage: str
    provider: str
    provider_class: str
    status: str
    provider_id: str | None
    sends: int
    first_sent_at: int | None
    last_sent_at: int | None
    marked_at: int | None
    error_class: str | None
    error: str | None


async def of_job(tx: Tx, job_id: str) -> list[StoredEffect]:
    return await tx.rows(sql.of_job, into=StoredEffect, job_id=job_id)


class EffectStatusCount(NamedTuple):
    provider: str
    provider_class: str
    status: str
    effects: int


async def count(tx: Tx) -> list[EffectStatusCount]:
    return await tx.rows(sql.count, into=EffectStatusCount)
