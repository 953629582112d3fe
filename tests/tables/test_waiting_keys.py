"""Whose turn is next: the keys that wait in one lane, in their order, each once, and nobody else's."""

from __future__ import annotations

import pytest

from holdfast import App, Context, Job, stage
from holdfast.stores.statement import _statement
from holdfast.tables import turns
from holdfast.tables.turns import WaitingLane
from tests.kernel.places import Deploy, rows

app = App("waiting")
ELSEWHERE = {
    "b": "queue = 'elsewhere'",
    "d": "priority = 1",
    "e": "hold = 'pause'",
    "g": "run_at = run_at - 1000",
    "i": "queue = 'elsewhere'",
    "j": "priority = 1",
    "k": "hold = 'pause'",
    "l": "run_at = run_at - 1000",
}


@app.job(fair_by="owner")
class Wait(Job[str]):
    @stage()
    async def wait(self, ctx: Context, text: str) -> None: ...


@pytest.mark.spec("K25")
async def test_the_keys_of_a_lane_come_in_turn_each_once_and_no_others(deploy: Deploy) -> None:
    world = await deploy(app)
    for owner in "abcdefghijkl" * 2:
        await world.enqueue(Wait, "x", owner=owner)
    for owner, change in ELSEWHERE.items():
        async with world.kernel.store.transaction() as tx:
            text = f"UPDATE holdfast_jobs SET {change} WHERE owner = :owner"
            await tx.rows(_statement("elsewhere", {None: text}), owner=owner)
    jobs = await rows(world.kernel.store, "SELECT owner, fair_key, queue, run_at FROM holdfast_jobs")
    keys = {job["owner"]: job["fair_key"] for job in jobs}
    here = next(job for job in jobs if job["owner"] == "a")
    lane = WaitingLane(here["queue"], 2, here["run_at"], 0)

    async def following(after: str, limit: int) -> str:
        async with world.kernel.store.reading() as tx:
            known = {key: owner for owner, key in keys.items()}
            return "".join(known[key] for key in await turns.next_keys(tx, lane, after, limit))

    assert await following(keys["f"], 9) == "ca" + "hf"
    assert await following(keys["a"], 9) == "hfca"
    assert await following(keys["h"] + "z", 9) == "hfca"
    assert await following(keys["h"], 9) == "fca" + "h"
    assert await following("", 9) == "hfca"
    assert [await following(keys["c"], limit) for limit in (1, 2, 3)] == ["a", "ah", "ahf"]
