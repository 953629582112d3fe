"""How attempts end: each column that an end writes has a value of its own here."""

from __future__ import annotations

from typing import Any

from holdfast.core.breaker import BreakerState, Gate
from holdfast.core.decide import Decision
from holdfast.core.job import State
from holdfast.stores.seam import Tx
from holdfast.tables import jobs, providers
from holdfast.tables.endings import EndingRow
from holdfast.tables.jobs import Claim
from holdfast.testing import World
from tests.tables.verbs import Asked


async def some(tx: Tx, number: int) -> list[jobs.Claimed]:
    """The first that are processing, as whoever holds them knows them."""
    rows = sorted(await jobs.page(tx, state="processing", limit=99), key=lambda row: (row.created_at, row.id))
    locked = [await jobs.lock_one(tx, row.id) for row in rows[:number]]
    return [each[0] for each in locked if each is not None]


async def ended(tx: Tx, world: World, state: State, event: str, *, number: int = 1, later: int = 0, **row: Any) -> Any:
    """End some attempts, `later` than the ones that are held; `row` says how, beside what all have."""
    now = world.kernel.now()
    told = {name: row.pop(name) for name in ("wait_key", "hold", "stage") if name in row}
    decision = Decision(
        state=state, event=event, stage=told.pop("stage", "next"), run_at=now + 7, failures=3, crashes=4,
        provider="other", not_before=now + 8, first_failure_at=now - 9, tally='{"tally":5}', **told,
    )  # fmt: skip
    held = [job._replace(attempt=job.attempt + later) for job in await some(tx, number)]
    rows = {"error": None, "data": None} | row
    claim = Claim("another", [], world.kernel.registry.declared, 0, now + 30_000)
    turn = await jobs.turn(tx, [EndingRow(job, State.PROCESSING, decision, **rows) for job in held], claim, now)
    return [turn.accepted, turn.went_on]


async def kept_back(tx: Tx, world: World) -> Any:
    """An end that would go on to a provider that is held."""
    await providers.ensure(tx, "other", world.kernel.now())
    await providers.swap(tx, "other", BreakerState(), BreakerState(gate=Gate.OPEN), world.kernel.now())
    return await ended(tx, world, State.QUEUED, "advanced", goes_on=True)


ENDS: dict[str, Asked] = {
    "jobs.turn to the next stage": lambda tx, w: ended(tx, w, State.QUEUED, "advanced", value='"v"', done="run"),
    "jobs.turn that goes on": lambda tx, w: ended(tx, w, State.QUEUED, "advanced", value='"v"', goes_on=True),
    "jobs.turn that goes on while something is paused": lambda tx, w: ended(
        tx, w, State.QUEUED, "advanced", value='"v"', goes_on=True
    ),
    "jobs.turn that goes on to a provider that is held": kept_back,
    "jobs.turn to a retry": lambda tx, w: ended(
        tx, w, State.QUEUED, "retried", error='{"e":1}', data='{"d":2}', stage="run"
    ),
    "jobs.turn held by a limit": lambda tx, w: ended(tx, w, State.QUEUED, "held", hold="limit", stage="run"),
    "jobs.turn to a wait": lambda tx, w: ended(tx, w, State.WAITING, "waiting", wait_key="key of a wait"),
    "jobs.turn to success": lambda tx, w: ended(tx, w, State.SUCCEEDED, "succeeded", value='"v"', stage="run"),
    "jobs.turn to three successes": lambda tx, w: ended(tx, w, State.SUCCEEDED, "succeeded", number=4, stage="run"),
    "jobs.turn to death": lambda tx, w: ended(
        tx, w, State.DEAD, "buried", error='{"e":1}', data='{"d":2}', stage="run"
    ),
    "jobs.turn too late": lambda tx, w: ended(tx, w, State.DEAD, "expired", value='"late"', stage="run"),
    "jobs.turn of a later attempt": lambda tx, w: ended(tx, w, State.SUCCEEDED, "succeeded", later=1),
}
NOTHING_PAUSED = "UPDATE holdfast_pauses SET is_paused = 0"
HAS_FAILED = (
    "UPDATE holdfast_jobs SET error = 'of before', done = 'before', last_attempt_at = 7 WHERE state = 'processing'"
)
STANDING_ENDS = {
    name: NOTHING_PAUSED if name.startswith("jobs.turn that goes on") and "while" not in name else HAS_FAILED
    for name in ENDS
}
