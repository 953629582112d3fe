"""The jobs table. Functions named as the statements in `jobs.sql`; nobody else writes this table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.core.decide import Decision
from holdfast.core.job import PRIORITIES, Claimed, State, is_due
from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch, events

sql = load_statements(Path(__file__).with_suffix(".sql"))

NIL = "00000000-0000-0000-0000-000000000000"


class Left(NamedTuple):
    """One attempt's end, fenced: the job must still be in `expected` at `attempt`."""

    job: Claimed
    expected: State
    decision: Decision
    error: str | None
    data: str | None
    value: str | None = None
    """The stage's result as JSON, if it is one to keep."""
    done: str | None = None
    """The stages completed so far, if that has changed."""


class Stepped(NamedTuple):
    """What came of a step: the attempts whose end was accepted, the jobs leased, and how many were parked instead."""

    accepted: set[str]
    leased: list[Claimed]
    parked: int


async def claim(
    tx: Tx, queues: Sequence[str], declared: str, limit: int, owner: str, now: int, lease_until: int
) -> tuple[list[Claimed], int]:
    """Lease up to `limit` due jobs that are `declared`, the most urgent first, of these the oldest, and log it.

    Also returns how many were parked instead, because their provider is held."""
    if tx.dialect == "postgres":
        found = await step(tx, (), queues, declared, limit, owner, now, lease_until)
        return found.leased, found.parked
    return _parted(await _claim_lane_by_lane(tx, queues, declared, limit, owner, now, lease_until))


def _parted(rows: Iterable[Row]) -> tuple[list[Claimed], int]:
    taken = [Claimed._make(row) for row in rows]
    leased = [job for job in taken if job.state == State.PROCESSING]
    leased.sort(key=itemgetter(9, 11))  # priority, created_at
    return leased, len(taken) - len(leased)


async def step(
    tx: Tx,
    lefts: Sequence[Left],
    queues: Sequence[str],
    declared: str,
    limit: int,
    owner: str,
    now: int,
    lease_until: int,
    hints: Sequence[str] = (),
) -> Stepped:
    """`settle`, `claim` and the ringing of `hints` in one statement. PostgreSQL only."""
    lanes = [(queue, priority) for priority in PRIORITIES for queue in queues] if limit > 0 else []
    rows = await tx.rows(
        sql.step,
        batch=batch.keyed({left.job.id: _settled_row(left, now) for left in lefts}),
        queues=[queue for queue, _ in lanes],
        priorities=[priority for _, priority in lanes],
        declared=declared,
        limit=limit,
        owner=owner,
        now=now,
        lease_until=lease_until,
        hints=list(hints),
    )
    taken = [row for row in rows if row["kind"] is not None]
    accepted = {job_id for row in rows[len(taken) :] for job_id in (row["id"] or "").split(",")} - {""}
    return Stepped(accepted, *_parted(taken))


async def _claim_lane_by_lane(
    tx: Tx, queues: Sequence[str], declared: str, limit: int, owner: str, now: int, lease_until: int
) -> Sequence[Row]:
    rows: list[Row] = []
    for queue in queues:
        await promote(tx, queue, now)
    lanes = batch.text([(queue, priority) for priority in PRIORITIES for queue in queues])
    for lane in await tx.rows(sql.due_lanes, lanes=lanes, now=now):
        if len(rows) < limit:
            rows += await tx.rows(
                sql.claim,
                queue=lane["queue"],
                priority=lane["priority"],
                declared=declared,
                limit=limit - len(rows),
                owner=owner,
                now=now,
                lease_until=lease_until,
            )
    if rows:
        kinds = {State.QUEUED.value: "parked", State.PROCESSING.value: "claimed"}
        await events.append(tx, [(row["id"], row["attempt"], kinds[row["state"]], None) for row in rows], now)
    return rows


async def promote(tx: Tx, queue: str, now: int, limit: int = 500) -> int:
    """Let into the ready index what has come due; returns how many jobs that were."""
    return len(await tx.rows(sql.promote, queue=queue, now=now, limit=limit))


async def claim_one(tx: Tx, job_id: str, declared: str, owner: str, now: int, lease_until: int) -> Claimed | None:
    rows = await tx.rows(sql.claim_one, id=job_id, declared=declared, owner=owner, now=now, lease_until=lease_until)
    return Claimed._make(rows[0]) if rows else None


async def due_ids(tx: Tx, queue: str, declared: str, now: int, limit: int) -> list[tuple[str, int]]:
    """Up to `limit` due jobs of a queue, the most urgent first, each with its attempt. Parks what is held."""
    rows: list[Row] = []
    await promote(tx, queue, now, max(limit, 500))
    for priority in PRIORITIES:
        if len(rows) < limit:
            rows += await tx.rows(
                sql.due_ids, queue=queue, priority=priority, declared=declared, now=now, limit=limit - len(rows)
            )
    held = {row["id"]: row["attempt"] for row in rows if row["held"]}
    if held:
        await park(tx, held, now)
    return [(row["id"], row["attempt"]) for row in rows if not row["held"]]


async def park(tx: Tx, jobs: Mapping[str, int], now: int) -> None:
    """Set due jobs aside until their provider's breaker lets them go, and log it."""
    batched = batch.keyed({job_id: [attempt] for job_id, attempt in sorted(jobs.items())})
    parked = await tx.rows(sql.park, batch=batched, now=now)
    if parked:
        await events.append(tx, [(row["id"], row["attempt"], "parked", None) for row in parked], now)


async def settle(tx: Tx, lefts: Sequence[Left], now: int) -> set[str]:
    """End attempts, each behind its own fence, log it, keep their results. Ids that do not come back were refused."""
    if tx.dialect == "postgres":
        return (await step(tx, lefts, (), "{}", 0, "", now, now)).accepted
    rows = {left.job.id: _settled_row(left, now) for left in lefts}
    ended = batch.keyed(rows)
    accepted = {row["id"] for row in await tx.rows(sql.settle, batch=ended, now=now)}
    if len(accepted) < len(rows):
        ended = batch.keyed({job_id: row for job_id, row in rows.items() if job_id in accepted})
    if accepted:
        await tx.rows(sql.log_settled, batch=ended, now=now)
    if any(left.value is not None for left in lefts):
        await tx.rows(sql.keep_values, batch=ended, now=now)
    return accepted


def _settled_row(left: Left, now: int) -> tuple[Any, ...]:
    d = left.decision
    return (
        left.job.attempt,
        left.expected,
        d.state,
        d.stage,
        d.run_at,
        d.failures,
        d.crashes,
        d.provider,
        d.not_before,
        d.first_failure_at,
        d.wait_key,
        left.error,
        d.hold,
        d.event,
        left.data,
        left.job.stage,
        left.value,
        is_due(d.run_at, now),
        left.done,
        d.tally,
    )


async def renew(tx: Tx, leases: Mapping[str, int], lease_until: int) -> set[str]:
    """Extend every lease that is still held; ids that do not come back are lost."""
    rows = {job_id: [attempt] for job_id, attempt in sorted(leases.items())}
    return {row["id"] for row in await tx.rows(sql.renew, batch=batch.keyed(rows), lease_until=lease_until)}


async def renew_owned(tx: Tx, owner: str, lease_until: int) -> int:
    """Extend every lease in this name; returns how many there are."""
    return len(await tx.rows(sql.renew_owned, owner=owner, lease_until=lease_until))


async def expired(tx: Tx, queues: Sequence[str], now: int, limit: int) -> list[tuple[Claimed, str | None]]:
    """Jobs whose lease ran out, locked, each with its stage's provider."""
    return [_locked(row) for row in await tx.rows(sql.expired, queues=batch.ids(queues), now=now, limit=limit)]


async def held_by(tx: Tx, owner: str) -> list[tuple[Claimed, str | None]]:
    """Every job leased to this worker, locked."""
    return [_locked(row) for row in await tx.rows(sql.held_by, owner=owner)]


async def overdue(tx: Tx, queues: Sequence[str], now: int, limit: int) -> list[tuple[Claimed, str | None]]:
    """Live jobs past their deadline, locked."""
    return [_locked(row) for row in await tx.rows(sql.overdue, queues=batch.ids(queues), now=now, limit=limit)]


async def unanswered(tx: Tx, queues: Sequence[str], now: int, limit: int) -> list[tuple[Claimed, str | None]]:
    """Jobs that nobody called back in time, locked."""
    return [_locked(row) for row in await tx.rows(sql.unanswered, queues=batch.ids(queues), now=now, limit=limit)]


async def lock_one(tx: Tx, job_id: str) -> tuple[Claimed, str | None] | None:
    rows = await tx.rows(sql.lock_one, id=job_id)
    return _locked(rows[0]) if rows else None


async def lock_waiting(tx: Tx, wait_key: str) -> tuple[Claimed, str | None] | None:
    rows = await tx.rows(sql.lock_waiting, wait_key=wait_key)
    return _locked(rows[0]) if rows else None


def _locked(row: Row) -> tuple[Claimed, str | None]:
    values = list(row)
    return Claimed._make(values[:-1]), values[-1]


async def revive(
    tx: Tx, job_id: str, stage: str, provider: str | None, run_at: int, now: int, *, done: str | None
) -> Row | None:
    """Bring a dead job back for a replay; None if it is not dead. `done`: its completed stages from now on, None if
    they are what they were."""
    rows = await tx.rows(sql.revive, id=job_id, stage=stage, provider=provider, run_at=run_at, now=now, done=done)
    return rows[0] if rows else None


async def correct(tx: Tx, job_id: str, payload: str, version: int, now: int) -> bool:
    """Give a dead job another input; False if it is not dead."""
    return bool(await tx.rows(sql.correct, id=job_id, payload=payload, version=version, now=now))


async def unpark(tx: Tx, provider: str, hold: str | None, limit: int, now: int) -> Counter[str]:
    """Release up to `limit` held jobs of a provider, the oldest first; return how many of each queue."""
    rows = await tx.rows(sql.unpark, provider=provider, hold=hold, limit=limit, now=now)
    return Counter(row["queue"] for row in rows)


async def show(tx: Tx, job_id: str) -> Row | None:
    rows = await tx.rows(sql.show, id=job_id)
    return rows[0] if rows else None


async def page(
    tx: Tx,
    *,
    before: str | None = None,
    state: str | None = None,
    kind: str | None = None,
    owner: str | None = None,
    limit: int = 50,
) -> Sequence[Row]:
    return await tx.rows(sql.page, before=before, state=state, kind=kind, owner=owner, limit=limit)


async def depth(tx: Tx) -> Sequence[Row]:
    return await tx.rows(sql.depth)


async def standing(tx: Tx, queues: Sequence[str]) -> Sequence[Row]:
    """How many live jobs of these queues stand at each kind, stage and version of input."""
    return await tx.rows(sql.standing, queues=batch.ids(queues))


async def due_first(tx: Tx, queue: str, now: int, limit: int) -> list[Row]:
    """Where the jobs stand that a claim of the queue meets first, at most `limit` of each priority: kind, stage,
    version, and how many."""
    found = [*await tx.rows(sql.come_due, queue=queue, now=now, limit=limit)]
    for priority in PRIORITIES:
        found += await tx.rows(sql.lane_head, queue=queue, priority=priority, limit=limit)
    return found


async def finished_since(tx: Tx, since: int) -> Sequence[Row]:
    return await tx.rows(sql.finished_since, since=since)


async def prune(tx: Tx, after: str, upto: str, before: int, limit: int) -> list[str]:
    return sorted(row["id"] for row in await tx.rows(sql.prune, after=after, upto=upto, before=before, limit=limit))


async def forget(tx: Tx, queue: str, limit: int) -> list[str]:
    """Delete a batch of a queue's jobs that nobody is running."""
    return [row["id"] for row in await tx.rows(sql.forget, queue=queue, limit=limit)]
