"""What a process does by itself once it runs: every duty is begun, and messages go out and come in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast import App, Context, Job, stage
from holdfast.engines.keeper import FORGET_MS, Keeper
from holdfast.engines.run import Duties, _consumers, _workers, run
from holdfast.engines.wakeups import FRESH, Wakeups
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.loop import RUNNING
from holdfast.kernel.submit import submit
from holdfast.stores.clock import SystemClock
from holdfast.stores.seam import Tx
from holdfast.tables import keepers, workers
from holdfast.transports.memory import MemoryTransport
from holdfast.transports.seam import Delivery, HeldMessage, Queue
from tests.kernel.places import Place, close_all

DONE, PEOPLE = Queue("errands.done"), Queue("errands.people", sink=True)
ALL = {
    *("work", "relay", "broker", "consume errands.done", "consume errands.people", "keep", "records", "errands.tidy"),
    *("reap", "sweep", "wake", "breakers", "reconcile", "prune", "schedule"),
}
LATE_S = 30


class Errands:
    """An app that does an errand, says so, and hears that it was said."""

    def __init__(self) -> None:
        self.app = App("errands", queues=[DONE, PEOPLE])
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()

        @self.app.job()
        class Errand(Job[str]):
            @stage()
            async def go(self, ctx: Context, text: str) -> None:
                ctx.emit(DONE.name, {"text": text})

        @self.app.consume(DONE)
        async def hear(kernel: Kernel, delivery: Delivery) -> None:
            self.heard.put_nowait(delivery.body)

        @self.app.consume(PEOPLE)
        async def look(kernel: Kernel, delivery: Delivery) -> None: ...

        @self.app.step(every_s=60)
        async def tidy(kernel: Kernel) -> int:
            return 0

        self.job = Errand


class Noted(dict[str, str]):
    """The duties of a process, which says when these have all begun."""

    def __init__(self, wanted: set[str]) -> None:
        super().__init__()
        self._missing = set(wanted)
        self.begun = asyncio.Event()

    def __setitem__(self, name: str, state: str) -> None:
        super().__setitem__(name, state)
        if state == RUNNING:
            self._missing.discard(name)
        if not self._missing:
            self.begun.set()


class LookedInto(MemoryTransport):
    """A transport whose sinks people look into."""

    @asynccontextmanager
    async def look(self, queue: str) -> AsyncIterator[AsyncIterator[HeldMessage]]:
        raise AssertionError("nobody looks here")
        yield


@pytest.mark.spec("K28", "K10", "K11")
async def test_every_duty_is_begun_and_a_message_goes_out_and_comes_in(place: Place) -> None:
    errands, stop = Errands(), asyncio.Event()
    kernel = place.kernel(errands.app, clock=SystemClock(), transport=MemoryTransport())
    kernel.duties = duties = Noted(ALL)
    running = asyncio.create_task(run(kernel, Duties(concurrency=3, grace_s=1), stop))
    await submit(kernel, errands.job, "x")
    async with asyncio.timeout(LATE_S):
        assert b'"x"' in await errands.heard.get()
        await duties.begun.wait()
    stop.set()
    await asyncio.wait_for(running, LATE_S)
    await close_all(place)


def test_a_sink_that_people_look_into_is_consumed_by_nobody() -> None:
    registry = Registry([Errands().app])
    for transport, consumed in ((MemoryTransport(), [DONE, PEOPLE]), (LookedInto(), [DONE])):
        kernel = Kernel(None, registry, transport=transport)  # type: ignore[arg-type]
        assert [each.queue for each in _consumers(kernel)] == consumed


def test_a_process_without_kinds_has_no_worker() -> None:
    assert _workers(Kernel(None, Registry([App("none")])), Duties()) == []  # type: ignore[arg-type]


class Heard(Wakeups):
    """One that rings may be addressed to, whatever its connection."""

    async def _say(self, tx: Tx, queues: str, declared: str, in_flight: int, now: int) -> bool:
        return True


@pytest.mark.spec("K28")
async def test_who_reported_within_two_renewals_is_counted_on_and_who_did_not_is_not(place: Place) -> None:
    kernel = place.kernel(Errands().app, clock=SystemClock())
    wakeups, now = Heard(kernel, "me", ["errands"], lambda: 1, lambda: None), kernel.now()
    renew_ms = int(kernel.tuning.renew_s * 1_000)
    async with kernel.store.transaction() as tx:
        for name, ago_ms in (("late", 2 * renew_ms), ("gone", int((FRESH + 0.5) * renew_ms))):
            await workers.seen(tx, name, "errands", 0, now - ago_ms, kernel.registry.declared, heeds=True)
        await wakeups.report(tx, 0, now)
    assert "late" in wakeups._roster._names and "gone" not in wakeups._roster._names
    await close_all(place)


async def _nothing(kernel: Kernel) -> int:
    return 0


@pytest.mark.spec("K28")
async def test_leases_of_code_that_runs_no_more_are_forgotten_after_a_day(place: Place) -> None:
    kernel, stop = place.kernel(App("errands"), clock=SystemClock()), asyncio.Event()
    now = kernel.now()
    async with kernel.store.transaction() as tx:
        for name, ago_ms in (("old", FORGET_MS + 1_000), ("young", FORGET_MS - 3_600_000)):
            assert await keepers.take(tx, name, name, now - ago_ms, now)
    keeper = Keeper(kernel, stop)
    keeping = asyncio.create_task(keeper.run())
    async with asyncio.timeout(LATE_S):
        await keeper.only(_nothing)(kernel)
        stop.set()
        await keeping
    async with kernel.store.reading() as tx:
        assert "old" not in (names := await keepers.owners(tx)) and "young" in names
    await close_all(place)
