"""A floor is a hint: what enters below it is claimed all the same, at once where somebody knows of it, else soon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from holdfast import App, Breaker, Context, Job, Provider, stage
from holdfast.core.failure import Category
from holdfast.core.floor import BOTTOM, LOOK_MS, QUICK_MS
from holdfast.core.outcome import Failed, Next, Released
from holdfast.errors import CallError, StoreUnavailable
from holdfast.kernel import operate
from holdfast.kernel.hold import force, hold_once
from holdfast.kernel.relay import relay, relay_once
from holdfast.kernel.settle import Ending
from holdfast.kernel.submit import submit
from holdfast.kernel.turn import end, turn
from holdfast.kernel.upkeep.floors import OUTBOX
from holdfast.tables import jobs, outbox
from holdfast.testing import HandClock
from tests.kernel.places import Deploy, Place, close_all, rows, take
from tests.proof.mutants_floors import stalls_put_looks_off

pytestmark = pytest.mark.spec("K21")
app = App("below")
api = Provider("api", breaker=Breaker())
LANE = ("below", 2)
Planted = Callable[[], AbstractContextManager[None]]


@app.job()
class Note(Job[str]):
    @stage()
    async def write(self, ctx: Context, text: str) -> str:
        return text

    @stage(provider=api)
    async def send(self, ctx: Context, text: str, write: str) -> None: ...


async def test_a_transaction_that_commits_late_is_seen_when_the_look_comes_round(
    place: Place, clock: HandClock
) -> None:
    slow = HandClock(clock.now_ms())
    kernel, caller = place.kernel(app, clock=clock), place.kernel(app, clock=slow, seed=2)
    clock.advance(60)
    assert await take(kernel) == []
    late = await submit(caller, Note, "a minute ago")
    fresh = await submit(kernel, Note, "now")
    assert [job.id for job in await take(kernel)] == [fresh], "it lies below the floor"
    clock.advance(LOOK_MS / 1_000)
    assert [job.id for job in await take(kernel)] == [late]
    await close_all(place)


async def test_an_error_forgets_the_floors(place: Place, clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = HandClock(clock.now_ms())
    kernel, caller = place.kernel(app, clock=clock), place.kernel(app, clock=slow, seed=2)
    clock.advance(60)
    assert await take(kernel) == []
    late = await submit(caller, Note, "a minute ago")
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "turn", _unavailable)
        with pytest.raises(StoreUnavailable):
            await take(kernel)
    assert [job.id for job in await take(kernel)] == [late]
    await close_all(place)


async def _unavailable(*_: Any, **__: Any) -> Any:
    raise StoreUnavailable("away")


async def test_what_comes_back_is_above_every_floor(place: Place, clock: HandClock) -> None:
    ours, theirs = place.kernel(app, clock=clock), place.kernel(app, clock=clock, seed=2)
    ids = [await submit(ours, Note, str(number)) for number in range(4)]
    released, replayed, parked, advanced = await take(ours)
    assert [released.id, replayed.id, parked.id, advanced.id] == ids
    clock.advance(60)
    assert await take(ours) == await take(theirs) == []
    bug = Failed(CallError.of(Category.VALIDATION, "BAD", "never").failure)
    async with ours.store.transaction() as tx:
        await end(ours, tx, [Ending(released, Released()), Ending(replayed, bug)])
    assert [job.id for job in await take(theirs)] == [released.id]
    (case,) = await rows(ours.store, "SELECT CAST(id AS TEXT) AS id FROM holdfast_dead_letters")
    await operate.triage(ours, case["id"], cause="code", actor="ann")
    await operate.remediate(ours, case["id"], evidence="mended", actor="ann")
    await operate.replay(ours, case["id"], actor="ann")
    assert [job.id for job in await take(theirs)] == [replayed.id]
    await force(ours, "api", open=True, actor="ann", reason="outage")
    await turn(ours, "w1", ["below"], [Ending(parked, Next("x"), '"x"')], 9)
    assert await take(ours) == []
    clock.advance(0.9)
    await force(ours, "api", open=False, actor="ann", reason="over")
    assert await hold_once(ours) == 1
    assert [job.id for job in await take(theirs)] == [parked.id], "it was let through, and is seen by everybody"
    await turn(ours, "w1", ["below"], [Ending(advanced, Next("x"), '"x"')], 9)
    assert [job.id for job in await take(ours)] == [advanced.id], "whoever puts it back knows of it"
    await close_all(place)


@pytest.mark.parametrize("left_is_new", [True, False], ids=["new", "came back"])
async def test_what_a_claim_leaves_is_not_passed_over_by_another_that_was_under_way(
    place: Place, clock: HandClock, left_is_new: bool
) -> None:
    """A claim locks what competes for its places, and leaves some of it: whoever claims beside it skips those rows."""
    kernel = place.kernel(app, clock=clock)
    await submit(kernel, Note, "older")
    clock.advance(1)
    await submit(kernel, Note, "younger")
    older, younger = await take(kernel)
    clock.advance(1)
    async with kernel.store.transaction() as tx:
        back = [older] if left_is_new else [older, younger]
        await end(kernel, tx, [Ending(job, Released()) for job in back])
    left = await submit(kernel, Note, "new") if left_is_new else younger.id
    claims = kernel.floors.claims
    beside = claims.begin(clock.now_ms())
    ((leased,), _) = await turn(kernel, "w1", ["below"], [], 1)
    assert leased.job.id == older.id
    clock.advance(0.9)
    beside.reached = {LANE: clock.now_ms()}
    claims.end(beside, clock.now_ms())
    assert [job.id for job in await take(kernel)] == [left]
    await close_all(place)


async def test_a_look_that_takes_long_is_made_beside_the_claims(place: Place, clock: HandClock) -> None:
    slow = HandClock(clock.now_ms())
    kernel, caller = place.kernel(app, clock=clock), place.kernel(app, clock=slow, seed=2)
    clock.advance(60)
    assert await take(kernel) == []
    kernel.floors.claims._rhythm.took_ms = kernel.floors.outbox._rhythm.took_ms = QUICK_MS * 2
    late = await submit(caller, Note, "a minute ago")
    clock.advance(QUICK_MS * 2 * 20 / 1_000)
    assert await take(kernel) == [], "a claim does not wait for the look"
    await asyncio.gather(*kernel.looking)
    assert BOTTOM < kernel.floors.claims.floors[LANE] < clock.now_ms() - 60_000
    assert [job.id for job in await take(kernel)] == [late]
    await close_all(place)


@pytest.mark.parametrize(
    "planted, is_seen",
    [(nullcontext, True), (stalls_put_looks_off, False)],
    ids=["intact", "stalls put looks off"],
)
async def test_after_a_look_that_stood_still_what_lies_below_is_seen_within_a_minute(
    place: Place, clock: HandClock, planted: Planted, is_seen: bool
) -> None:
    async def stand_still(name: str) -> None:
        if name == "claim.before_commit" and kernel.floors.claims.floors == {}:
            clock.advance(200)

    slow = HandClock(clock.now_ms())
    kernel, caller = place.kernel(app, clock=clock, failpoint=stand_still), place.kernel(app, clock=slow, seed=2)
    with planted():
        assert await take(kernel) == [], "the first claim is a look, and takes 200 seconds"
        assert await take(kernel) == [], "the floor moves up to now"
        late = await submit(caller, Note, "minutes ago")
        found: list[str] = []
        for _ in range(62):
            clock.advance(1)
            found += [job.id for job in await take(kernel)]
            await asyncio.gather(*kernel.looking)
    assert (found == [late]) is is_seen
    await close_all(place)


async def test_a_message_below_the_floor_is_published_when_the_look_comes_round(deploy: Deploy) -> None:
    world = await deploy(app)
    kernel = world.kernel
    world.clock.advance(60)
    assert await relay_once(kernel) == 0 and kernel.floors.outbox.floors[OUTBOX] > BOTTOM
    async with kernel.store.transaction() as tx:
        message = (kernel.new_uuid4(), "a", "nowhere", "told", "{}", "{}")
        await outbox.put(tx, [message], world.clock.now_ms() - 50_000)
    assert await relay_once(kernel) == 0 and await retries(kernel) == [0]
    world.clock.advance(LOOK_MS / 1_000)
    await relay_once(kernel)
    assert await retries(kernel) == [1], "it was found, and nobody has declared its queue"


@pytest.mark.spec("K10", "000.35")
async def test_an_idle_relay_whose_looks_take_long_finds_a_message_below_its_floor(deploy: Deploy) -> None:
    """A message that is committed late, on a busy machine, is the last for a while: no other comes and shows it."""
    world = await deploy(app)
    kernel = world.kernel
    world.clock.advance(60)
    assert await relay(kernel) == 0 and kernel.floors.outbox.floors[OUTBOX] > BOTTOM
    kernel.floors.outbox._rhythm.took_ms = QUICK_MS * 2
    async with kernel.store.transaction() as tx:
        message = (kernel.new_uuid4(), "a", "nowhere", "told", "{}", "{}")
        await outbox.put(tx, [message], world.clock.now_ms() - 50_000)
    world.clock.advance(QUICK_MS * 2 * 20 / 1_000)
    for _ in range(2):
        await relay(kernel)
        await asyncio.gather(*kernel.looking)
    assert await retries(kernel) == [1], "it was found, and nobody has declared its queue"


async def retries(kernel: Any) -> list[int]:
    return [row["retry_count"] for row in await rows(kernel.store, "SELECT retry_count FROM holdfast_outbox")]
