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

NIL = "00000000-0000-0000-0000-000000000000"


class Ended(NamedTuple):
    """The row of a job that leaves an attempt, as it travels: the fence, the job's columns, its event, its result."""

    attempt: int
    expected: str
    state: str
    stage: str
    run_at: int
    failures: int
    crashes: int
    provider: str | None
    not_before: int | None
    first_failure_at: int | None
    wait_key: str | None
    error: str | None
    hold: str | None
    is_due: int
    done: str | None
    tally: str | None
    event: str
    data: str | None
    from_stage: str
    value: str | None
    goes_on: int


sql = load_statements(Path(__file__).with_suffix(".sql"), Claimed, Ended)


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
    goes_on: bool = False
    """Whether the next stage is to be leased with this end, to whoever holds the job."""


class Claim(NamedTuple):
    """Who asks for how many of which jobs, and for how long: of these queues, at the declared kinds and stages."""

    owner: str
    queues: Sequence[str]
    declared: str
    limit: int
    lease_until: int


NO_CLAIM = Claim("", (), "{}", 0, 0)


class Turned(NamedTuple):
    """What came of a turn: the attempts whose end was accepted, those of them whose next one is leased already, the
    jobs leased besides, and how many were parked instead, because their provider is held."""

    accepted: set[str]
    went_on: set[str]
    leased: list[Claimed]
    parked: int


async def turn(tx: Tx, lefts: Sequence[Left], claim: Claim, now: int, hints: Sequence[str] = ()) -> Turned:
    """End attempts, each behind its own fence, and lease due jobs that are declared, the most urgent first, of these
    the oldest; log both, keep the results, ring the hints. Ids that do not come back were refused. Nothing that is put
    back here is leased here."""
    if tx.dialect == "postgres":
        return await _turn_at_once(tx, lefts, claim, now, hints)
    leased, parked = _parted(await _claim_lane_by_lane(tx, claim, now)) if claim.limit > 0 else ([], 0)
    accepted, went_on = await _end(tx, lefts, claim.lease_until, now) if lefts else (set(), set())
    for channel in hints:
        await tx.hint(channel)
    return Turned(accepted, went_on, leased, parked)


def _parted(rows: Iterable[Row]) -> tuple[list[Claimed], int]:
    taken = [Claimed._make(row) for row in rows]
    leased = [job for job in taken if job.state == State.PROCESSING]
    leased.sort(key=itemgetter(9, 11))  # priority, created_at
    return leased, len(taken) - len(leased)


async def _turn_at_once(tx: Tx, lefts: Sequence[Left], claim: Claim, now: int, hints: Sequence[str]) -> Turned:
    lanes = [(queue, priority) for priority in PRIORITIES for queue in claim.queues] if claim.limit > 0 else []
    rows = await tx.rows(
        sql.turn,
        batch=batch.keyed({left.job.id: _ended(left, now) for left in lefts}),
        queues=[queue for queue, _ in lanes],
        priorities=[priority for _, priority in lanes],
        declared=claim.declared,
        limit=claim.limit,
        owner=claim.owner,
        now=now,
        lease_until=claim.lease_until,
        hints=list(hints),
    )
    taken = [row for row in rows if row["kind"] is not None]
    ended = {job_id for row in rows[len(taken) :] for job_id in (row["id"] or "").split(",")} - {""}
    went_on = {job_id[:-1] for job_id in ended if job_id[-1] == "+"}
    accepted = {job_id.rstrip("+") for job_id in ended} if went_on else ended
    return Turned(accepted, went_on, *_parted(taken))


async def _claim_lane_by_lane(tx: Tx, claim: Claim, now: int) -> Sequence[Row]:
    rows: list[Row] = []
    for queue in claim.queues:
        await promote(tx, queue, now)
    lanes = batch.text([(queue, priority) for priority in PRIORITIES for queue in claim.queues])
    for lane in await tx.rows(sql.due_lanes, lanes=lanes, now=now):
        if len(rows) < claim.limit:
            rows += await tx.rows(
                sql.claim,
                queue=lane["queue"],
                priority=lane["priority"],
                declared=claim.declared,
                limit=claim.limit - len(rows),
                owner=claim.owner,
                now=now,
                lease_until=claim.lease_until,
            )
    if rows:
        kinds = {State.QUEUED.value: "parked", State.PROCESSING.value: "claimed"}
        await events.append(tx, [(row["id"], row["attempt"], kinds[row["state"]], None) for row in rows], now)
    return rows


async def promote(tx: Tx, queue: str, now: int, limit: int = 500) -> int:
    """Let into the ready index what has come due; returns how many jobs that were."""
    return len(await tx.rows(sql.promote, queue=queue, now=now, limit=limit))


async def claim_one(tx: Tx, job_id: str, claim: Claim, now: int) -> Claimed | None:
    """Lease one job, whatever its queue; the caller logs it."""
    lease = {"owner": claim.owner, "lease_until": claim.lease_until}
    rows = await tx.rows(sql.claim_one, id=job_id, declared=claim.declared, now=now, **lease)
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


async def _end(tx: Tx, lefts: Sequence[Left], lease_until: int, now: int) -> tuple[set[str], set[str]]:
    """End attempts; return the jobs whose end was accepted, and those of them that went on."""
    rows = {left.job.id: _ended(left, now) for left in lefts}
    ended = batch.keyed(rows)
    states = {row["id"]: row["state"] for row in await tx.rows(sql.end, batch=ended, lease_until=lease_until, now=now)}
    if len(states) < len(rows):
        ended = batch.keyed({job_id: row for job_id, row in rows.items() if job_id in states})
    if states:
        await tx.rows(sql.log_ends, batch=ended, now=now)
    if any(left.value is not None for left in lefts):
        await tx.rows(sql.keep_values, batch=ended, now=now)
    went_on = {job_id: rows[job_id][0] + 1 for job_id, state in states.items() if state == State.PROCESSING}
    if went_on:
        await events.append(tx, [(job_id, attempt, "claimed", None) for job_id, attempt in went_on.items()], now)
    return set(states), set(went_on)


def _ended(left: Left, now: int) -> tuple[Any, ...]:
    """The fields of `Ended`, in their order. A plain tuple: JSON takes 1.6 times as long to write a named one."""
    job, expected, decision, error, data, value, done, goes_on = left
    return (
        job.attempt,
        expected,
        decision.state,
        decision.stage,
        decision.run_at,
        decision.failures,
        decision.crashes,
        decision.provider,
        decision.not_before,
        decision.first_failure_at,
        decision.wait_key,
        error,
        decision.hold,
        is_due(decision.run_at, now),
        done,
        decision.tally,
        decision.event,
        data,
        job.stage,
        value,
        int(goes_on),
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


async def take_back(tx: Tx, job_id: str, stage: str, error: str, now: int) -> bool:
    """End a job that had succeeded as dead in `stage`; False if it is not a success any more."""
    return bool(await tx.rows(sql.take_back, id=job_id, stage=stage, error=error, now=now))


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
