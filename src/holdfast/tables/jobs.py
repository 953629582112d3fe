"""The jobs table: turns, and what people do to a job. Functions named as the statements in `jobs.sql`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.core.floor import BOTTOM, LATER, NO_FLOORS, SLACK_MS, Floors, Lane, Seen, lowest, reached
from holdfast.core.job import PRIORITIES, Claimed, State
from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch, events, lanes
from holdfast.tables.endings import Endings, Fate, is_due_again, pack, steps_to_write
from holdfast.tables.job_rows import JobDetails, JobLine, RevivedJob
from holdfast.tables.typed import fetch_first

NIL = "00000000-0000-0000-0000-000000000000"


sql = load_statements(Path(__file__).with_suffix(".sql"), Claimed, Fate)
_BY_PLACE = attrgetter("priority", "created_at")


class Claim(NamedTuple):
    """Who asks for how many of which jobs, and for how long: of these queues, at the declared kinds and stages. A lane
    without a floor is scanned from the bottom."""

    owner: str
    queues: Sequence[str]
    declared: str
    limit: int
    lease_until: int
    floors: Floors = NO_FLOORS

    @property
    def lanes(self) -> list[Lane]:
        """In the order of the claim."""
        return [(queue, priority) for priority in PRIORITIES for queue in self.queues] if self.limit > 0 else []


NO_CLAIM = Claim("", (), "{}", 0, 0)


class TurnResult(NamedTuple):
    """What came of a turn: the attempts whose end was accepted, those of them whose next one is leased already, the
    jobs leased besides, and how many were parked instead, because their provider is held or their kind paused; from
    where the next claim must look in each lane, and what has entered lanes."""

    accepted: set[str]
    went_on: set[str]
    leased: list[Claimed]
    parked: int
    reached: Floors
    entered: Floors


async def turn(tx: Tx, endings: Endings, claim: Claim, now: int, channels: Sequence[str] = ()) -> TurnResult:
    """End attempts, each behind its own fence, and lease due jobs that are declared, the most urgent first, of these
    the oldest; log both, keep the results, notify the channels. Ids that do not come back were refused. Nothing
    that is put back here is leased here."""
    if tx.dialect == "postgres":
        return await _turn_at_once(tx, endings, claim, now, channels)
    rows, floors, entered = await _claim_lane_by_lane(tx, claim, now) if claim.limit > 0 else ([], {}, {})
    accepted, went_on = await _end(tx, endings, claim, now) if endings else (set(), set())
    for channel in channels:
        await tx.notify(channel)
    entered = lowest(entered, _put_back(endings, went_on, claim, now))
    return TurnResult(accepted, went_on, *_split_leased(rows), floors, entered)


def _split_leased(rows: Iterable[Row]) -> tuple[list[Claimed], int]:
    taken = [Claimed._make(row) for row in rows]
    leased = sorted((job for job in taken if job.state == State.PROCESSING), key=_BY_PLACE)
    return leased, len(taken) - len(leased)


async def _turn_at_once(tx: Tx, endings: Endings, claim: Claim, now: int, channels: Sequence[str]) -> TurnResult:
    scanned = claim.lanes
    later = claim.queues if scanned else ()
    rows = await tx.rows(
        sql.turn,
        **pack(endings, claim.limit > 0, now),
        queues=[queue for queue, _ in scanned],
        priorities=[str(priority) for _, priority in scanned],
        floors=[str(claim.floors.get(lane, BOTTOM)) for lane in scanned],
        later_queues=list(later),
        later_floors=[str(claim.floors.get((queue, LATER), BOTTOM)) for queue in later],
        declared=claim.declared,
        limit=claim.limit,
        owner=claim.owner,
        now=now,
        lease_until=claim.lease_until,
        channels=list(channels),
    )
    taken = [row for row in rows if row["kind"] is not None]
    words = [row["id"] or "" for row in rows[len(taken) :]]
    seen = json.loads(next((word for word in words if word.startswith("[")), "[]"))
    ended = {job_id for word in words if not word.startswith("[") for job_id in word.split(",")} - {""}
    went_on = {job_id[:-1] for job_id in ended if job_id[-1] == "+"}
    accepted = {job_id.rstrip("+") for job_id in ended} if went_on else ended
    floors, entered = _read_seen(claim, seen, now)
    entered = lowest(entered, _put_back(endings, went_on, claim, now))
    return TurnResult(accepted, went_on, *_split_leased(taken), floors, entered)


def _read_seen(claim: Claim, seen: Sequence[Any], now: int) -> tuple[Floors, Floors]:
    """What a claim saw, in rows of queue, priority, whether they came through the later lane, how many, the highest
    `created_at` and `run_at`, and the lowest `created_at` of those that it left or let in. A row without a priority
    names a queue that is paused: nothing of it was looked at, and its floors stay."""
    paused = {q for q, pr, *_ in seen if pr is None}
    seen = [each for each in seen if each[1] is not None]
    ready = {(q, pr): Seen((q, pr), n, ca, least) for q, pr, is_back, n, ca, _, least in seen if not is_back}
    floors = reached([lane for lane in claim.lanes if lane[0] not in paused], ready, claim.limit, now)
    for queue in set(claim.queues) - paused if claim.limit > 0 else ():
        come = [(n, ra) for q, _, is_back, n, _, ra, _ in seen if is_back and q == queue]
        is_cut = sum(n for n, _ in come) >= lanes.COME_MAX
        floors[queue, LATER] = max(ra for _, ra in come) if is_cut else now - SLACK_MS
    # What was left was locked meanwhile, and other claims have passed over it as if it were not there.
    return floors, lowest(*({(q, pr): least} for q, pr, _, _, _, _, least in seen if least is not None))


def _put_back(endings: Endings, went_on: set[str], claim: Claim, now: int) -> Floors:
    """The lanes that ended attempts entered, and the oldest job of each."""
    queued = [ending for ending in endings if ending.decision.state is State.QUEUED and ending.decision.hold != "limit"]
    back = [
        ending.job for ending in queued if ending.job.id not in went_on and is_due_again(ending, claim.limit > 0, now)
    ]
    return lowest(*({(job.queue, job.priority): job.created_at} for job in back))


async def _claim_lane_by_lane(tx: Tx, claim: Claim, now: int) -> tuple[Sequence[Row], Floors, Floors]:
    rows: list[Row] = []
    seen: dict[Lane, Seen] = {}
    later, entered = await _promote_all(tx, claim, now)
    starts = {lane: min(claim.floors.get(lane, BOTTOM), entered.get(lane, now)) for lane in claim.lanes}
    asked = batch.text([(*lane, starts[lane]) for lane in claim.lanes])
    due_lanes = await tx.rows(sql.due_lanes, lanes=asked, now=now)
    paused = {due["queue"] for due in due_lanes if due["priority"] is None}
    for due in due_lanes:
        lane = (due["queue"], due["priority"])
        if lane[1] is not None and len(rows) < claim.limit:
            place = {"queue": lane[0], "priority": lane[1], "floor": starts[lane], "limit": claim.limit - len(rows)}
            lease = {"declared": claim.declared, "owner": claim.owner, "lease_until": claim.lease_until}
            taken = await tx.rows(sql.claim, now=now, **place, **lease)
            rows += taken
            seen[lane] = Seen(lane, len(taken), max((row["created_at"] for row in taken), default=BOTTOM), None)
    if rows:
        steps = [(row["id"], row["attempt"], "parked", None) for row in rows if row["state"] == State.QUEUED]
        if rows[0]["state"] == State.PROCESSING:  # the rows of the others show their claims
            steps.append((rows[0]["id"], rows[0]["attempt"], "claimed", None))
        await events.append(tx, steps, now)
    floors = reached([lane for lane in claim.lanes if lane[0] not in paused], seen, claim.limit, now)
    # What was let in and not claimed: in a lane that was cut off, it lies above the last job that was.
    left = {lane: max(key, floors.get(lane, key)) for lane, key in entered.items()}
    return rows, {**floors, **later}, left


async def _promote_all(tx: Tx, claim: Claim, now: int) -> tuple[Floors, Floors]:
    later: dict[Lane, int] = {}
    entered: list[Floors] = []
    for queue in claim.queues:
        come = await lanes.promote(tx, queue, now, claim.floors.get((queue, LATER), BOTTOM))
        later[queue, LATER] = max(job.run_at for job in come) if len(come) >= lanes.COME_MAX else now - SLACK_MS
        entered += [{(queue, job.priority): job.created_at} for job in come]
    return later, lowest(*entered)


async def claim_one(tx: Tx, job_id: str, claim: Claim, now: int) -> Claimed | None:
    """Lease one job, whatever its queue, and note it among its events."""
    lease = {"declared": claim.declared, "owner": claim.owner, "lease_until": claim.lease_until}
    rows = await tx.rows(sql.claim_one, id=job_id, now=now, **lease)
    if rows and tx.dialect == "sqlite":
        await events.append(tx, [(job_id, rows[0]["attempt"], "claimed", None)], now)
    return Claimed._make(rows[0]) if rows else None


async def _end(tx: Tx, endings: Endings, claim: Claim, now: int) -> tuple[set[str], set[str]]:
    """End attempts; return the jobs whose end was accepted, and those of them that went on."""
    packed = pack(endings, claim.limit > 0, now)
    ended = await tx.rows(sql.end, **packed, lease_until=claim.lease_until, now=now)
    states = {row["id"]: row["state"] for row in ended}
    accepted = [ending for ending in endings if ending.job.id in states]
    steps = steps_to_write(accepted)
    if steps:
        await tx.rows(sql.log_ends, batch=batch.keyed(steps), now=now)
    valued = [ending for ending in accepted if ending.value is not None]
    if valued:
        await tx.rows(sql.keep_values, **pack(valued, claim.limit > 0, now), now=now)
    return set(states), {job_id for job_id, state in states.items() if state == State.PROCESSING}


async def lock_one(tx: Tx, job_id: str) -> tuple[Claimed, str | None] | None:
    rows = await tx.rows(sql.lock_one, id=job_id)
    return locked(rows[0]) if rows else None


async def lock_waiting(tx: Tx, wait_key: str) -> tuple[Claimed, str | None] | None:
    rows = await tx.rows(sql.lock_waiting, wait_key=wait_key)
    return locked(rows[0]) if rows else None


def locked(row: Iterable[Any]) -> tuple[Claimed, str | None]:
    """A job's row and its stage's provider."""
    *job, provider = row
    return Claimed._make(job), provider


async def revive(
    tx: Tx, job_id: str, stage: str, provider: str | None, run_at: int, now: int, *, done: str | None
) -> RevivedJob | None:
    """Bring a dead job back for a replay; None if it is not dead. `done`: its completed stages, where they change."""
    place = {"stage": stage, "provider": provider, "done": done}
    return await fetch_first(RevivedJob, tx, sql.revive, id=job_id, run_at=run_at, now=now, **place)


async def correct(tx: Tx, job_id: str, payload: str, version: int, now: int) -> bool:
    """Give a dead job another input; False if it is not dead."""
    return bool(await tx.rows(sql.correct, id=job_id, payload=payload, version=version, now=now))


async def unpark(tx: Tx, name: str, limit: int, now: int, floor: int = BOTTOM, is_trial: bool = False) -> Counter[str]:
    """Release up to `limit` held jobs of a provider, the first parked first; return how many of each queue."""
    hold = {"hold": "trial" if is_trial else None, "floor": floor, "limit": limit, "now": now}
    return Counter(row["queue"] for row in await tx.rows(sql.unpark, provider=name, **hold))


async def show(tx: Tx, job_id: str) -> JobDetails | None:
    return await fetch_first(JobDetails, tx, sql.show, id=job_id)


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
) -> list[JobLine]:
    return await tx.rows(sql.page, into=JobLine, before=before, state=state, kind=kind, owner=owner, limit=limit)


async def prune(tx: Tx, after: str, upto: str, before: int, limit: int) -> list[str]:
    return sorted(row["id"] for row in await tx.rows(sql.prune, after=after, upto=upto, before=before, limit=limit))


async def forget(tx: Tx, queue: str, limit: int) -> list[str]:
    """Delete a batch of a queue's jobs that nobody is running."""
    return [row["id"] for row in await tx.rows(sql.forget, queue=queue, limit=limit)]
