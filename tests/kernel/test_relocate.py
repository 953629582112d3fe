"""A kind's queue, or whether it takes turns, changes with a deploy or a rollback: no job is left where nobody looks."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import App, Context, Job, Limit, stage
from holdfast.engines.worker import Worker
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.observe.watch import LogWatch
from holdfast.kernel.questions.deploy import stranded
from holdfast.kernel.questions.explain import explain
from holdfast.kernel.reap import reap_once
from holdfast.kernel.submit import submit
from holdfast.kernel.upkeep.relocate import relocate_once
from holdfast.operator.attention import Topic, what_asks
from holdfast.operator.snapshot import snapshot
from holdfast.tables import workers
from holdfast.testing import HandClock
from tests.kernel.places import Place, close_all, rows, take

pytestmark = pytest.mark.spec("K22", "K2")


class Moves(LogWatch):
    """Remembers which queues were left."""

    def __init__(self) -> None:
        super().__init__()
        self.left: list[dict[str, Any]] = []

    def log(self, event: str, **fields: Any) -> None:
        if event == "queue.left":
            self.left.append(fields)


def release(queue: str | None = None, *, fair: bool = False, limited: bool = False) -> tuple[App, type[Job[int]]]:
    """One release of a shop: in which queue its job waits, and whether it takes turns."""
    app = App("shop")

    class Order(Job[int]):
        @stage()
        async def pay(self, ctx: Context, number: int) -> None: ...

        @stage()
        async def ship(self, ctx: Context, number: int) -> None: ...

    limit = Limit(per="owner", at_once=1) if limited else None
    return app, app.job(queue=queue, fair_by="owner" if fair else None, limit=limit)(Order)


async def leave(kernel: Kernel) -> None:
    """The workers of a release have gone, in order."""
    async with kernel.store.transaction() as tx:
        for worker in await workers.read_every(tx):
            await workers.gone(tx, worker.name, 0)


async def queues(kernel: Kernel) -> list[str]:
    return [row["queue"] for row in await rows(kernel.store, "SELECT queue FROM holdfast_jobs ORDER BY queue")]


async def test_jobs_of_a_queue_that_nobody_serves_go_to_that_of_their_kind(place: Place, clock: HandClock) -> None:
    """Also those for later and those in line; and back again, when the deploy is taken back."""
    (old, order), (new, _) = release("slow"), release("fast", fair=True)
    moves = Moves()
    before, after = place.kernel(old, clock=clock, seed=1), place.kernel(new, clock=clock, seed=2, watch=moves)
    await Worker(before).renew()
    for delay_s in (0, 0, 60):
        await submit(before, order, 1, delay_s=delay_s)
    assert await relocate_once(after) == 0, "the old release serves it"
    clock.advance(1)
    await leave(before)
    assert await relocate_once(after) == 3 and await queues(after) == ["shop.fast"] * 3
    assert len(await take(after)) == 2 and await relocate_once(after) == 0
    assert moves.left == [{"queue": "shop.slow", "jobs": 3, "homes": ["shop.fast"]}], "once, when it was left"
    clock.advance(60)
    assert len(await take(after)) == 1, "one for later comes at its time"
    in_line = await submit(after, new.kinds["shop.order"].instance.__class__, 2)
    assert await relocate_once(before) > 0
    assert [job.id for job in await take(before)] == [in_line], "a rollback without turns finds it too"
    await close_all(place)


async def test_a_queue_that_the_code_names_no_more_is_kept_and_shown(place: Place, clock: HandClock) -> None:
    """What a worker of before held there is taken back, and a kind that nobody declares stands there in sight."""
    (old, order), (new, _) = release("slow"), release("fast")

    @old.job(queue="slow")
    class Gone(Job[int]):
        @stage()
        async def go(self, ctx: Context, number: int) -> None: ...

    before, after = place.kernel(old, clock=clock, seed=1), place.kernel(new, clock=clock, seed=2)
    await submit(before, order, 1)
    (held,) = await take(before, "killed")
    gone = await submit(before, Gone, 1)
    clock.advance(100)
    assert "'shop.slow'" in (await explain(after, gone)).sentence
    assert [(each.kind, each.jobs) for each in await stranded(after)] == [("shop.gone", 1)]
    asking = [each for each in what_asks(await snapshot(after)) if each.topic is Topic.NO_WORKER]
    assert [each.subject for each in asking] == ["shop.slow"]
    assert await reap_once(after) == 1
    clock.advance(100)
    assert (await explain(after, held.id)).facts["code"] == "LEFT"
    assert await relocate_once(after) == 1, "the other kind has no other queue"
    assert [job.id for job in await take(after)] == [held.id]
    await close_all(place)


@pytest.mark.spec("K25")
async def test_nobody_waits_for_a_turn_that_is_not_taken_any_more(place: Place, clock: HandClock) -> None:
    """But a worker that takes turns, of whatever release, keeps its limits."""
    (limited, order), (free, _) = release(limited=True), release()
    before, after = place.kernel(limited, clock=clock, seed=1), place.kernel(free, clock=clock, seed=2)
    await Worker(before).renew()
    for number in range(3):
        await submit(before, order, number, owner="ann")
    assert await relocate_once(after) == 0 and await take(after) == []
    await leave(before)
    clock.advance(120)
    assert await relocate_once(before) == 0, "code that takes turns lets nobody go without"
    assert await relocate_once(after) == 3
    assert len(await take(after)) == 3
    await close_all(place)


async def test_queues_of_other_apps_are_left_alone(place: Place, clock: HandClock) -> None:
    (app, order), other = release(), App("shopping")

    @other.job(queue="slow")
    class Buy(Job[int]):
        @stage()
        async def go(self, ctx: Context, number: int) -> None: ...

    ours, theirs = place.kernel(app, clock=clock, seed=1), place.kernel(other, clock=clock, seed=2)
    await submit(theirs, Buy, 1)
    await submit(ours, order, 1)
    clock.advance(600)
    assert await relocate_once(ours) == 0 and ours.queues == ["shop"]
    assert await queues(ours) == ["shop", "shopping.slow"]
    await close_all(place)
