"""The engines' small rules, each by itself: whom a blocked loop is blamed on, who is rung again, what a name covers."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import App, Client, Context, Job, Provider, stage
from holdfast.engines.cpu_child import Portable
from holdfast.engines.doorbell import RungRecently
from holdfast.engines.keeper import lease_name
from holdfast.engines.renewal import LATE, Renewal
from holdfast.engines.run import Duties, _workers
from holdfast.engines.wakeups import Wakeups
from holdfast.kernel.kernel import Kernel, Registry, Tuning
from holdfast.kernel.observe.watch import LogWatch
from holdfast.tables import callbacks
from holdfast.testing import HandClock
from tests.kernel.places import Place, close_all, rows

app = App("rules")


@app.job()
class Wait(Job[str]):
    @stage()
    async def run(self, ctx: Context, text: str) -> None:
        await ctx.wait_for(text, timeout_s=60)


class Told(LogWatch):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.counted: list[dict[str, str]] = []

    def log(self, event: str, **fields: Any) -> None:
        self.lines.append(event)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self.counted.append(labels)


class Standing(Renewal):
    """Counts how often it would stand in for the loop."""

    stood_in = 0

    def _stand_in(self) -> None:
        self.stood_in += 1


@pytest.fixture
async def kernel(place: Place, clock: HandClock) -> AsyncIterator[Kernel]:
    yield place.kernel(app, clock=clock)
    await close_all(place)


async def test_a_loop_that_does_not_run_is_stood_in_for_and_named_once(kernel: Kernel) -> None:
    watch = kernel.watch = Told()
    tuning, began = kernel.tuning, time.monotonic()
    late_s = LATE * tuning.renew_s
    renewal = Standing(kernel, "w", lambda: True)
    renewal.renewed(took_s=2.0)
    renewal._look(began + late_s - 2.5, 0.0)
    assert renewal.stood_in == 0
    renewal._look(time.monotonic() + late_s - 1.9, 0.0)
    assert renewal.stood_in == 1, "leases last from when their renewal began"
    renewal.renewed()
    now = time.monotonic()
    renewal._asked_at = now - tuning.blocked_say_s - 1
    renewal._look(now, tuning.blocked_say_s + renewal._tick_s + 1)
    assert watch.lines == [] and renewal._asked_at == now, "the whole process stood still"
    for more_s in (0.1, 0.2):
        renewal._look(now + tuning.blocked_say_s + more_s, 0.0)
    assert (watch.lines, watch.counted) == (["loop.blocked"], [{"kind": ""}])
    assert renewal._blockage is not None and renewal._blockage.since == now
    renewal._look(now + tuning.blocked_max_s + late_s, 0.0)
    assert renewal.stood_in == 1, "what is blocked for too long loses its leases"
    renewal._asked_at = None
    renewal._look(now + tuning.blocked_say_s + 1, 0.0)
    assert watch.lines == ["loop.blocked", "loop.unblocked"] and renewal._blockage is None


async def test_what_stood_in_for_a_loop_closes_its_connection(kernel: Kernel) -> None:
    closed: list[str] = []

    class Spare:
        async def close(self) -> None:
            closed.append("closed")

    renewal = Renewal(kernel, "w", lambda: True)
    renewal._spare, renewal._own_loop = Spare(), asyncio.new_event_loop()  # type: ignore[assignment]
    await asyncio.to_thread(renewal._close)
    assert closed == ["closed"]


async def test_a_worker_that_ends_just_after_its_last_job_leaves_no_thread(kernel: Kernel) -> None:
    class EndedMeanwhile(Renewal):
        def _look(self, now: float, waited_s: float) -> None:
            super()._look(now, waited_s)
            self._over.set()
            self._begun.set()

    renewal = EndedMeanwhile(kernel, "w", lambda: False)
    renewal._tick_s = 0.01
    renewal.start()
    renewal.begin()
    await asyncio.to_thread(renewal.join, 5)
    assert not renewal.is_alive()


def test_a_bell_is_rung_again_after_a_while_and_what_is_due_no_longer_is_forgotten() -> None:
    bells = RungRecently("q", again_s=30.0)
    due = [("a", 1), ("b", 1)]
    assert bells.fresh(due, 1_000) == due
    bells.rung.update(dict.fromkeys(due, 1_000))
    assert bells.fresh(due, 30_999) == [] and bells.fresh(due, 31_000) == due
    assert bells.fresh([("a", 2), ("b", 1)], 2_000) == [("a", 2)], "another attempt is rung for at once"
    assert bells.rung == {("b", 1): 1_000}


def test_a_keeper_keeps_for_those_who_sweep_the_same() -> None:
    def named(change: str) -> str:
        other = App("kept")

        @other.job(name="kept.job" if change != "kind" else "kept.another")
        class Kept(Job[str]):
            @stage(provider=Provider("api") if change == "provider" else None)
            async def run(self, ctx: Context, text: str) -> None: ...

        for name in {"schedule": ["tick", "tock"], "turned": ["tock", "tick"]}.get(change, []):
            other.schedule("* * * * *", Kept, "x", name=name)
        return lease_name(Kernel(None, Registry([other])))  # type: ignore[arg-type]

    names = [named(change) for change in ("", "kind", "provider", "schedule")]
    assert len(set(names)) == 4 and named("") == names[0] and named("turned") == names[3]


async def test_a_ring_that_finds_no_room_is_passed_on(kernel: Kernel) -> None:
    room = [1]
    wakeups = Wakeups(kernel, "a", ["rules"], lambda: room[0], lambda: None)
    assert wakeups._heed("ticket") == 0 and not wakeups._surplus.is_set()
    room[0] = 0
    assert wakeups._heed("ticket") == 0 and wakeups._surplus.is_set()
    wakeups._surplus.clear()
    wakeups._roster.update([f"w{number}" for number in range(50)])
    mine = [ticket for ticket in map(str, range(200)) if wakeups._heed(ticket) is not None]
    assert 0 < len(mine) < 50, "a ring for another is left to it"


async def test_two_workers_poll_in_turns_where_rings_arrive_and_each_by_itself_elsewhere(
    kernel: Kernel, place: Place
) -> None:
    rings_arrive = place.dialect == "postgres"
    listener = kernel.store.listen("rules")
    async with asyncio.timeout(10):
        while kernel.store.is_heard() != rings_arrive:
            await listener.wait(0.01)
    first, second = (Wakeups(kernel, name, ["rules"], lambda: 1, lambda: None) for name in "ab")
    assert first.until_poll_s(1.0) == 1.0
    for wakeups in (first, second):
        wakeups._roster.update(["a", "b"])
    apart_s = abs(first.until_poll_s(1.0) - second.until_poll_s(1.0))
    assert apart_s == pytest.approx(1.0, abs=0.2) if rings_arrive else apart_s == 0
    listener.close()


async def test_a_worker_that_no_longer_heeds_rings_reports_it_at_once(place: Place, clock: HandClock) -> None:
    kernel = place.kernel(app, clock=clock, tuning=Tuning(lease_s=9, renew_s=0.01))
    wakeups = Wakeups(kernel, "a", ["rules"], lambda: 1, lambda: None)
    wakeups.is_drained = True
    watching = asyncio.ensure_future(wakeups._watch_company(kernel.store.listen("nobody")))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await wakeups.company_changed.wait()  # it has not said yet that it heeds any
    wakeups._heeds = True
    async with asyncio.timeout(10):
        await wakeups.company_changed.wait()
    watching.cancel()
    await close_all(place)


async def test_queues_that_are_not_declared_here_have_no_worker(kernel: Kernel) -> None:
    named = Duties(queues={"rules": 3, "others": 5}, concurrency=50, grace_s=7)
    assert [(each.queues, each.concurrency, each.grace_s) for each in _workers(kernel, named)] == [(["rules"], 3, 7)]
    assert [each.concurrency for each in _workers(kernel, Duties(concurrency=9))] == [9]
    assert _workers(kernel, Duties(work=False)) == []


class Odd(Exception):
    def __init__(self, first: str, *, second: int) -> None:
        super().__init__(first)
        self.second = second


def test_an_exception_of_a_process_is_made_again_with_all_that_it_holds() -> None:
    again = pickle.loads(pickle.dumps(Portable(Odd("one", second=2))))
    assert (type(again), again.args, again.second) == (Odd, ("one",), 2)


async def test_a_client_says_who_acts_and_knows_a_message_again(kernel: Kernel) -> None:
    client = Client(kernel)
    job_id = await client.enqueue(Wait, "k")
    await client.cancel(job_id, actor="ann")
    assert await rows(kernel.store, "SELECT actor FROM holdfast_audit") == [{"actor": "ann"}]
    assert await client.answer("early", {"n": 1}, message_id="m1") is False
    async with kernel.store.transaction() as tx:
        assert await callbacks.take(tx, "early") == '{"n": 1}'
    await client.answer("early", {"n": 2}, message_id="m1")
    await client.answer("early", {"n": 1}, message_id="m2")
    kept = await rows(kernel.store, "SELECT body FROM holdfast_callbacks")
    assert [row["body"] for row in kept] == ['{"n": 1}'], "the same message again changes nothing"
