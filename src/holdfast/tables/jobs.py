"""The jobs table. Functions named as the statements in `jobs.sql`; nobody else writes this table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.core.decide import Decision
from holdfast.core.job import PRIORITIES, Claimed, State
from holdfast.stores.seam import LoadingTx, Row, Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch, events

sql = load_statements(Path(__file__).with_suffix(".sql"))

NIL = "00000000-0000-0000-0000-000000000000"


class NewJob(NamedTuple):
    """A row to insert; the order is the statement's."""

    kind: str
    queue: str
    stage: str
    provider: str | None
    priority: int
    run_at: int
    deadline_at: int | None
    job_key: str | None
    fingerprint: str | None
    owner: str | None
    trace: str | None
    payload: str


LOADED = ("id", *NewJob._fields[:-1], "created_at", "updated_at", "payload")


class Left(NamedTuple):
    """One attempt's end, fenced: the job must still be in `expected` at `attempt`."""

    job: Claimed
    expected: State
    decision: Decision
    error: str | None
    data: str | None
    value: str | None = None
    """The stage's result as JSON, if it is one to keep."""


class Stepped(NamedTuple):
    """What came of a step: the attempts whose end was accepted, the jobs leased, and how many were parked instead."""

    accepted: set[str]
    leased: list[Claimed]
    parked: int


async def insert(tx: Tx, jobs: Mapping[str, NewJob], now: int) -> set[str]:
    """Insert what is new and wake its queues; return the ids that were. A taken id or key inserts nothing."""
    if tx.dialect == "postgres" and len(jobs) == 1:
        ((job_id, job),) = jobs.items()
        rows = await tx.rows(sql.insert_one, id=job_id, now=now, **_plain(job))
    else:
        rows = await tx.rows(sql.insert, batch=batch.keyed(jobs), now=now)
    added = {row["id"] for row in rows}
    if tx.dialect == "sqlite" and added:
        for queue in sorted({job.queue for job in jobs.values()}):
            await tx.hint(f"queue:{queue}")
    return added


def _plain(job: NewJob) -> dict[str, Any]:
    """The row by column name; what strangers wrote as the database can hold it."""
    named = job._asdict()
    for name in ("job_key", "owner", "trace", "payload"):
        if named[name] is not None:
            named[name] = batch.storable(named[name])
    return named


async def load(tx: LoadingTx, jobs: Sequence[tuple[str, NewJob]], now: int) -> None:
    """`insert` of many new jobs by the database's own bulk load. `StoreConflict` if an id or key is there already."""
    await tx.load("holdfast_jobs", LOADED, _pieces(jobs, now))
    for queue in sorted({job.queue for _, job in jobs}):
        await tx.hint(f"queue:{queue}")


def _pieces(jobs: Sequence[tuple[str, NewJob]], now: int, rows: int = 200) -> Iterator[str]:
    """The text form of COPY, some rows at a time. Jobs of one bulk differ in little else than their payloads: the rest
    is written once."""
    written: tuple[Any, ...] = ()
    middle = ""
    for start in range(0, len(jobs), rows):
        lines = []
        for job_id, job in jobs[start : start + rows]:
            if written != job[:-1]:
                written = job[:-1]
                middle = "\t".join(map(batch.copied, (*written, now, now)))
            lines.append(f"{job_id}\t{middle}\t{batch.copied(job.payload)}\n")
        yield batch.storable("".join(lines))


async def by_key(tx: Tx, kind: str, job_key: str) -> Row | None:
    rows = await tx.rows(sql.by_key, kind=kind, job_key=job_key)
    return rows[0] if rows else None


async def claim(
    tx: Tx, queues: Sequence[str], limit: int, owner: str, now: int, lease_until: int
) -> tuple[list[Claimed], int]:
    """Lease up to `limit` due jobs, the most urgent first, and log it.

    Also returns how many were parked instead, because their provider is held."""
    if tx.dialect == "postgres":
        found = await step(tx, (), queues, limit, owner, now, lease_until)
        return found.leased, found.parked
    return _parted(await _claim_lane_by_lane(tx, queues, limit, owner, now, lease_until))


def _parted(rows: Iterable[Row]) -> tuple[list[Claimed], int]:
    taken = [Claimed._make(row) for row in rows]
    leased = [job for job in taken if job.state == State.PROCESSING]
    leased.sort(key=itemgetter(9, 10))  # priority, run_at
    return leased, len(taken) - len(leased)


async def step(
    tx: Tx,
    lefts: Sequence[Left],
    queues: Sequence[str],
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
        batch=batch.keyed({left.job.id: _settled_row(left) for left in lefts}),
        queues=[queue for queue, _ in lanes],
        priorities=[priority for _, priority in lanes],
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
    tx: Tx, queues: Sequence[str], limit: int, owner: str, now: int, lease_until: int
) -> Sequence[Row]:
    rows: list[Row] = []
    lanes = batch.text([(queue, priority) for priority in PRIORITIES for queue in queues])
    for lane in await tx.rows(sql.due_lanes, lanes=lanes, now=now):
        if len(rows) < limit:
            rows += await tx.rows(
                sql.claim,
                queue=lane["queue"],
                priority=lane["priority"],
                limit=limit - len(rows),
                owner=owner,
                now=now,
                lease_until=lease_until,
            )
    if rows:
        kinds = {State.QUEUED.value: "parked", State.PROCESSING.value: "claimed"}
        await events.append(tx, [(row["id"], row["attempt"], kinds[row["state"]], None) for row in rows], now)
    return rows


async def claim_one(tx: Tx, job_id: str, owner: str, now: int, lease_until: int) -> Claimed | None:
    rows = await tx.rows(sql.claim_one, id=job_id, owner=owner, now=now, lease_until=lease_until)
    return Claimed._make(rows[0]) if rows else None


async def due_ids(tx: Tx, queue: str, now: int, limit: int) -> list[tuple[str, int]]:
    """Up to `limit` due jobs of a queue, the most urgent first, each with its attempt. Parks what is held."""
    rows: list[Row] = []
    for priority in PRIORITIES:
        if len(rows) < limit:
            rows += await tx.rows(sql.due_ids, queue=queue, priority=priority, now=now, limit=limit - len(rows))
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
        return (await step(tx, lefts, (), 0, "", now, now)).accepted
    rows = {left.job.id: _settled_row(left) for left in lefts}
    ended = batch.keyed(rows)
    accepted = {row["id"] for row in await tx.rows(sql.settle, batch=ended, now=now)}
    if len(accepted) < len(rows):
        ended = batch.keyed({job_id: row for job_id, row in rows.items() if job_id in accepted})
    if accepted:
        await tx.rows(sql.log_settled, batch=ended, now=now)
    if any(left.value is not None for left in lefts):
        await tx.rows(sql.keep_values, batch=ended, now=now)
    return accepted


def _settled_row(left: Left) -> tuple[Any, ...]:
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
    )


async def renew(tx: Tx, leases: Mapping[str, int], lease_until: int) -> set[str]:
    """Extend every lease that is still held; ids that do not come back are lost."""
    rows = {job_id: [attempt] for job_id, attempt in sorted(leases.items())}
    return {row["id"] for row in await tx.rows(sql.renew, batch=batch.keyed(rows), lease_until=lease_until)}


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
    return Claimed._make(values[:18]), values[18]


async def revive(tx: Tx, job_id: str, stage: str, provider: str | None, run_at: int, now: int) -> Row | None:
    """Bring a dead job back for a replay; None if it is not dead."""
    rows = await tx.rows(sql.revive, id=job_id, stage=stage, provider=provider, run_at=run_at, now=now)
    return rows[0] if rows else None


async def correct(tx: Tx, job_id: str, payload: str, now: int) -> bool:
    """Give a dead job another input; False if it is not dead."""
    return bool(await tx.rows(sql.correct, id=job_id, payload=payload, now=now))


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


async def finished_since(tx: Tx, since: int) -> Sequence[Row]:
    return await tx.rows(sql.finished_since, since=since)


async def prune(tx: Tx, after: str, upto: str, before: int, limit: int) -> list[str]:
    return sorted(row["id"] for row in await tx.rows(sql.prune, after=after, upto=upto, before=before, limit=limit))


async def forget(tx: Tx, queue: str, limit: int) -> list[str]:
    """Delete a batch of a queue's jobs that nobody is running."""
    return [row["id"] for row in await tx.rows(sql.forget, queue=queue, limit=limit)]
