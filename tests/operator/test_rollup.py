"""The past by the minute: counted once, whoever counts, from what is stored; and drawn alike by every process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kernel.places import Deploy, rows
from tests.tables.test_rare_rows import write

from holdfast import App, Context, Cost, Job, Provider, stage
from holdfast.core.failure import Category
from holdfast.errors import CallError
from holdfast.kernel.operate import cancel
from holdfast.operator.charts import OWNERS_SHOWN, ChartFilter, choose_stretch, outages, percentiles, read_charts
from holdfast.operator.desk import Desk
from holdfast.operator.rollup import OWNERS_MAX, roll_up_once
from holdfast.operator.snapshot import snapshot
from holdfast.stores.statement import statement_of
from holdfast.system import OpenSystem, System
from holdfast.tables import rollups
from holdfast.tables.providers import GateMove
from holdfast.tables.rollups import BOUNDS, HOUR_MS, MINUTE_MS, Cell
from holdfast.testing import HandClock, World

app = App("past")
api = Provider("past.api")
TOLL = 70


@app.job()
class Trip(Job[str]):
    @stage()
    async def pack(self, ctx: Context, text: str) -> str:
        return text

    @stage(provider=api)
    async def drive(self, ctx: Context, text: str, pack: str) -> None:
        await ctx.call(lambda: asyncio.sleep(0), cost=lambda _: Cost(micros=TOLL))
        if text == "lost":
            raise CallError.of(Category.VALIDATION, "NO_ROAD", "there is no road")


def desk_of(world: World) -> Desk:
    return Desk([OpenSystem(System("past", "Past", "DATABASE_URL", lambda env: app), world.kernel, {})])


async def draw(world: World, minutes: int = 10, **which: Any) -> dict[str, Any]:
    item: dict[str, Any] = (await read_charts(desk_of(world), minutes, None, ChartFilter(**which)))["items"][0]
    return item


def total(chart: dict[str, Any], name: str) -> int:
    return sum(point[name] for point in chart["points"])


@pytest.mark.spec("K17")
async def test_stages_and_jobs_are_counted_once_by_kind_stage_and_outcome(deploy: Deploy, clock: HandClock) -> None:
    world = await deploy(app)
    for text in ("a", "b", "lost"):
        await world.enqueue(Trip, text, owner="ann")
    await world.run_until_idle()
    clock.advance(10)
    kernel = world.kernel
    await asyncio.gather(roll_up_once(kernel), roll_up_once(kernel))
    await roll_up_once(kernel)
    chart = await draw(world)
    assert (total(chart, "jobs"), total(chart, "died"), total(chart, "stages"), total(chart, "failed")) == (2, 1, 5, 1)
    by_stage = {row["stage"]: (row["done"], row["failed"]) for row in chart["stages"]}
    assert by_stage == {"pack": (3, 0), "drive": (2, 1)}
    assert chart["errors"] == [{"name": "NO_ROAD", "number": 1}]
    assert total(await draw(world, kind="past.trip", stage="pack"), "stages") == 3
    assert total(await draw(world, kind="past.other"), "stages") == 0


@pytest.mark.spec("K17")
async def test_the_largest_owners_have_charts_of_their_own_and_all_others_one(deploy: Deploy, clock: HandClock) -> None:
    world = await deploy(app)
    for number in range(3):
        await world.enqueue(Trip, "lost" if number == 2 else "a", owner="ann")
        await world.enqueue(Trip, "a")
    await world.run_until_idle()
    clock.advance(6)
    await roll_up_once(world.kernel)
    for number in range(2 * OWNERS_MAX):
        await world.enqueue(Trip, "lost", owner=f"o{number}")
        await world.enqueue(Trip, "a", owner="bo")
    await world.run_until_idle()
    clock.advance(6)
    await asyncio.gather(roll_up_once(world.kernel), roll_up_once(world.kernel))
    await roll_up_once(world.kernel)
    owners = (await draw(world))["owners"]
    by_name = {owner["name"]: (owner["submitted"], owner["failed"], owner["died"]) for owner in owners}
    assert (by_name["bo"], by_name["ann"]) == ((2 * OWNERS_MAX, 0, 0), (3, 1, 1))
    ended = {owner["name"]: (owner["done"], owner["calls"], owner["cost_micros"]) for owner in owners}
    assert (ended["bo"], ended["ann"]) == ((2 * OWNERS_MAX, 2 * OWNERS_MAX, 2 * OWNERS_MAX * TOLL), (2, 3, 3 * TOLL))
    assert sum(done for done, _, _ in ended.values()) == 2 + 2 * OWNERS_MAX
    assert {owner["name"] for owner in owners if owner["took_ms"] is not None} == {"bo", "ann"}
    assert owners[0]["name"] == "bo" and owners[-1]["name"] is None and len(owners) == OWNERS_SHOWN + 1
    assert sum(submitted for submitted, _, _ in by_name.values()) == 3 + 4 * OWNERS_MAX
    assert sum(died for _, _, died in by_name.values()) == 1 + 2 * OWNERS_MAX
    assert [sum(point["died"] for point in owner["points"]) for owner in owners] == [owner["died"] for owner in owners]
    assert [owner["name"] for owner in (await draw(world, owner="ann"))["owners"]] == ["ann"]
    asked = "SELECT DISTINCT name FROM holdfast_rollups WHERE series IN ('owner', 'spent')"
    names = {row["name"] for row in await rows(world.kernel.store, asked)}
    assert len(names) <= 2 * OWNERS_MAX + 1, "an owner of few jobs has no cell"


def test_an_outage_is_two_marks_however_often_it_was_tried() -> None:
    gates = ["open", "half_open", "open", "half_open", "open", "half_open", "closed", "open"]
    changes = [GateMove("llm", gate, at, "") for at, gate in enumerate(gates)] + [GateMove("bank", "open", 9, "")]
    assert [(row.name, row.gate, row.at) for row in outages(changes)] == [
        ("llm", "open", 0),
        ("llm", "closed", 6),
        ("llm", "open", 7),
        ("bank", "open", 9),
    ]


async def test_what_was_written_a_moment_ago_is_counted_later_and_not_lost(deploy: Deploy, clock: HandClock) -> None:
    world = await deploy(app)
    await world.enqueue(Trip, "a")
    await world.run_until_idle()
    await roll_up_once(world.kernel)
    assert total(await draw(world), "jobs") == 0, "its neighbours may not be committed yet"
    clock.advance(6)
    await roll_up_once(world.kernel)
    assert total(await draw(world), "jobs") == 1


async def test_successes_that_share_an_event_are_all_counted(deploy: Deploy, clock: HandClock) -> None:
    world = await deploy(app)
    for number in range(12):
        await world.enqueue(Trip, str(number))
    await world.run_until_idle()
    clock.advance(10)
    await roll_up_once(world.kernel)
    chart = await draw(world)
    assert (total(chart, "jobs"), total(chart, "stages")) == (12, 24)


async def usual_age_s(world: World) -> float | None:
    return (await snapshot(world.kernel)).usual_age_s


async def test_depth_and_age_are_kept_and_what_is_usual_is_known(deploy: Deploy, clock: HandClock) -> None:
    world = await deploy(app)
    for _ in range(30):
        clock.advance(60)
        await roll_up_once(world.kernel)
    assert await usual_age_s(world) == 0, "of minutes in which nothing was due too"
    first = await world.enqueue(Trip, "a")
    for _ in range(30):
        clock.advance(60)
        await roll_up_once(world.kernel)
    assert await usual_age_s(world) == 0, "a wait that goes on is not what is usual"
    for _ in range(2):
        clock.advance(60)
        await roll_up_once(world.kernel)
    assert await usual_age_s(world) is None, "too few minutes before it to tell"
    chart = await draw(world, 40)
    assert [point["waiting"] for point in chart["points"][-5:-1]] == [1] * 4
    assert chart["points"][-1]["oldest_age_s"] == 1_920
    kept = await rows(world.kernel.store, "SELECT DISTINCT number FROM holdfast_rollups WHERE part = 'all'")
    assert [row["number"] for row in kept] == [1], "what waits is kept as one number, beside its lanes"
    await cancel(world.kernel, first, "olga")
    await world.enqueue(Trip, "b")
    assert await usual_age_s(world) == 120, "what is over counts, minute by minute"


async def test_long_stretches_are_drawn_from_hours_that_are_written_once(deploy: Deploy, clock: HandClock) -> None:
    world = await deploy(app)
    for _ in range(5):
        await world.enqueue(Trip, "a")
        await world.run_until_idle()
        clock.advance(HOUR_MS / 1_000)
        await roll_up_once(world.kernel)
    await roll_up_once(world.kernel)
    week = await draw(world, 7 * 24 * 60)
    assert len(week["points"]) <= 240 and week["step_s"] == 3_600
    assert (total(week, "jobs"), total(week, "stages")) == (5, 10), "none twice where hours and minutes meet"
    clock.advance(31 * 86_400)
    await roll_up_once(world.kernel)
    left = await rows(world.kernel.store, "SELECT DISTINCT series FROM holdfast_rollups WHERE series <> 'depth'")
    assert left == [], "thirty days are kept"


def test_percentiles_are_the_bounds_of_their_buckets() -> None:
    cells = [
        Cell(0, "stage", "k", "s", "succeeded", bound, number, 0) for bound, number in ((10, 90), (50, 8), (500, 2))
    ]
    assert percentiles(cells) == {"p50": 10, "p95": 50, "p99": 500}
    assert percentiles([]) is None
    assert list(BOUNDS) == sorted(set(BOUNDS)) and BOUNDS[0] == 1


def test_no_stretch_has_more_points_than_can_be_drawn() -> None:
    now = 1_800_000_000_123
    for minutes in (1, 15, 60, 240, 241, 1_440, 2_880, 2_881, 10_080, 43_200):
        stretch = choose_stretch(now, minutes)
        assert len(stretch.points) <= 241 and stretch.since <= now - minutes * MINUTE_MS + stretch.step
        assert stretch.until > now >= stretch.until - stretch.step


@pytest.mark.spec("K17")
async def test_a_history_comes_to_these_cells(deploy: Deploy, clock: HandClock) -> None:
    """Written by hand: what ran in which attempt, with every way in which a claim is known."""
    world = await deploy(app)
    begun = world.kernel.now() // MINUTE_MS * MINUTE_MS
    died = await world.enqueue(Trip, "lost", owner="ann")
    done = await world.enqueue(Trip, "a", owner="ann")
    set_job = (
        "UPDATE holdfast_jobs SET state = :state, stage = 'drive', attempt = :attempt, created_at = :created,"
        " started_at = :started, last_attempt_at = :last, finished_at = :last WHERE id = CAST(:id AS /*id*/)"
    )
    times = {"created": begun, "started": begun + 20}
    await write(world, set_job, state="dead", attempt=3, last=begun + 6_000, id=died, **times)
    await write(world, set_job, state="succeeded", attempt=1, last=begun + 7_000, id=done, **times)
    await write(world, "DELETE FROM holdfast_job_events")
    event = (
        "INSERT INTO holdfast_job_events (job_id, attempt, type, at, data, claimed_at) VALUES"
        " (CAST(:id AS /*id*/), :attempt, :type, :at, :data, CAST(:claimed_at AS BIGINT))"
    )
    for job_id, attempt, kind, after_ms, data, claimed_ms in [
        (died, 1, "claimed", 20, None, None),
        (died, 1, "retried", 120, '{"error_class":"BUSY"}', None),  # by the event of its own claim
        (died, 2, "claimed", 5_000, None, None),
        (died, 2, "advanced", 5_050, '{"stage":"drive"}', 5_010),  # by what it says itself
        (died, 3, "buried", 6_200, '{"error_class":"NO_ROAD"}', None),  # by the row of the job
        (done, 1, "succeeded", MINUTE_MS + 500, "2", MINUTE_MS + 450),
    ]:
        claimed_at = None if claimed_ms is None else begun + claimed_ms
        at = begun + after_ms
        await write(world, event, id=job_id, attempt=attempt, type=kind, at=at, data=data, claimed_at=claimed_at)
    call = (
        "INSERT INTO holdfast_calls (id, job_id, attempt, provider, started_at, duration_ms, outcome, cost_micros)"
        " VALUES (CAST(:id AS /*id*/), CAST(:job_id AS /*id*/), :attempt, 'past.api', 0, :took, :outcome, :cost)"
    )
    for job_id, attempt, took, outcome, cost in [(died, 1, 50, "failed", 7), (done, 1, 51, "ok", 5)]:
        new_id = world.kernel.new_id()
        await write(world, call, id=new_id, job_id=job_id, attempt=attempt, took=took, outcome=outcome, cost=cost)
    async with world.kernel.store.reading() as tx:
        seqs = [row["seq"] for row in await tx.rows(statement_of("SELECT seq FROM holdfast_job_events ORDER BY seq"))]
        cells = await rollups.read(tx, seqs[0], seqs[-1])
        assert await rollups.read(tx, seqs[-1], seqs[-1]) == [], "the end before is not counted again"
    assert sorted((cell.at - begun, *cell[1:]) for cell in cells) == [
        (0, "call", "past.api", "past.trip", "failed", 50, 1, 7),
        (0, "error", "past.trip", "", "BUSY", 0, 1, 0),
        (0, "error", "past.trip", "drive", "NO_ROAD", 0, 1, 0),
        (0, "job", "past.trip", "past", "buried", 20, 1, 20),
        (0, "owner", "ann", "", "buried", 0, 1, 6_200),
        (0, "owner", "ann", "", "retried", 0, 1, 120),
        (0, "spent", "ann", "", "", 0, 1, 7),
        (0, "stage", "past.trip", "", "advanced", 50, 1, 40),
        (0, "stage", "past.trip", "", "retried", 100, 1, 100),
        (0, "stage", "past.trip", "drive", "buried", 200, 1, 200),
        (MINUTE_MS, "call", "past.api", "past.trip", "ok", 100, 3, 15),
        (MINUTE_MS, "job", "past.trip", "past", "succeeded", 20, 3, 60),
        (MINUTE_MS, "owner", "ann", "", "succeeded", 100_000, 3, 3 * (MINUTE_MS + 500)),
        (MINUTE_MS, "spent", "ann", "", "", 0, 3, 15),
        (MINUTE_MS, "stage", "past.trip", "drive", "succeeded", 50, 3, 150),
    ]
