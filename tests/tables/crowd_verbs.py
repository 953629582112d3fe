"""Statements that choose among many jobs: whoever waits for a turn, stands in a wrong queue, or is to be parked."""

from __future__ import annotations

from typing import Any

from holdfast.core.floor import BOTTOM
from holdfast.stores.seam import Tx
from holdfast.tables import jobs, lanes, relocate, turns
from holdfast.tables.turns import WaitingLane
from holdfast.testing import World
from tests.tables.verbs import Asked, loose

STAGES = '{"fences.note run":"api"}'
BEGUN = (
    "UPDATE holdfast_jobs SET fair_key = owner, turn_at = run_at"
    " WHERE (hold = 'turn' AND parked = 1) OR state IN ('processing', 'dead')"
)
IN_LINE = "UPDATE holdfast_jobs SET fair_key = owner WHERE hold = 'turn'"
OF_THE_CROWD: dict[str, Asked] = {
    "relocate.queues": lambda tx, w: relocate.queues(tx, ["q0"]),
    "relocate.queues of none that is known": lambda tx, w: relocate.queues(tx, []),
    "relocate.bring_home": lambda tx, w: loose(
        relocate.bring_home(tx, "q0", {"fences.note": "home"}, 99, w.kernel.now())
    ),
    "relocate.bring_home of three of each sort": lambda tx, w: loose(
        relocate.bring_home(tx, "q0", {"fences.note": "home"}, 3, w.kernel.now())
    ),
    "relocate.let_go": lambda tx, w: relocate.let_go(
        tx, "q0", 2, {"fences.note run": "other"}, 99, w.kernel.now(), BOTTOM
    ),
    "relocate.let_go of two from a floor": lambda tx, w: relocate.let_go(
        tx, "q0", 2, {"fences.note run": None}, 2, w.kernel.now(), w.kernel.now() - 1_950
    ),
    "turns.lanes": lambda tx, w: turns.lanes(tx, ["q0", "q1"], 99, {}, w.kernel.now()),
    "turns.lanes from floors": lambda tx, w: turns.lanes(
        tx, ["q0", "q1"], 2, {("q0", 2): w.kernel.now() - 500, ("q1", 3): w.kernel.now() - 1_500}, w.kernel.now()
    ),
    "turns.next_keys": lambda tx, w: turns.next_keys(tx, line(w), "owner1", 9),
    "turns.next_keys of two from a floor": lambda tx, w: turns.next_keys(tx, line(w, 500), "owner9", 2),
    "turns.begun": lambda tx, w: turns.begun(tx, ["owner0", "owner1"], {}, w.kernel.now()),
    "turns.begun and counted": lambda tx, w: counted(tx, w),
    "turns.admit": lambda tx, w: loose(
        turns.admit(tx, line(w), {"owner0": 1, "owner1": 9}, STAGES, w.kernel.now())
    ),
    "turns.admit of other stages": lambda tx, w: turns.admit(tx, line(w), {"owner0": 1}, "{}", w.kernel.now()),
    "lanes.park": lambda tx, w: parked(tx, w),
}  # fmt: skip


def line(world: World, ago_ms: int = 5_000) -> WaitingLane:
    return WaitingLane("q0", 2, world.kernel.now() - ago_ms, 0)


async def counted(tx: Tx, world: World) -> list[Any]:
    counts: turns.Counts = {}
    for_the_first_time = await turns.begun(tx, ["owner0"], counts, world.kernel.now())
    return [for_the_first_time, await turns.begun(tx, ["owner0", "owner1"], counts, world.kernel.now() + 59_000)]


async def parked(tx: Tx, world: World) -> list[Any]:
    free = [row for row in await jobs.page(tx, state="queued", limit=99) if row.hold is None][:2]
    await lanes.park(tx, {row.id: (row.attempt, hold) for row, hold in zip(free, ("breaker", "pause"), strict=True)},
                     world.kernel.now() + 5)  # fmt: skip
    return [row.id for row in free]


STANDING_CROWD = {
    **{
        f"turns.{name}": IN_LINE
        for name in (
            "lanes",
            "lanes from floors",
            "next_keys",
            "next_keys of two from a floor",
            "admit",
            "admit of other stages",
        )
    },
    "turns.begun": BEGUN,
    "turns.begun and counted": BEGUN,
}
"""How the jobs must stand for these to do anything."""
