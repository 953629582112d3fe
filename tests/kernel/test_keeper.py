"""One process keeps for all: who has the lease, who takes it over, and what is swept meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import App
from holdfast.engines.keeper import Keeper, lease_name
from holdfast.kernel.kernel import Kernel, Registry, Tuning
from holdfast.stores.clock import SystemClock
from holdfast.tables import keepers
from tests.kernel.places import Place

TUNING = Tuning(keeper_s=0.6)


class Process:
    """A keeper and a step that only it does."""

    def __init__(self, place: Place, seed: int) -> None:
        self.kernel = place.kernel(App("kept"), clock=SystemClock(), seed=seed, tuning=TUNING)
        self.stop = asyncio.Event()
        self.keeper = Keeper(self.kernel, self.stop)
        self.swept = asyncio.Event()
        self.task = asyncio.ensure_future(self.keeper.run())
        self.sweeping = asyncio.ensure_future(self.keeper.only(self._sweep)(self.kernel))

    async def _sweep(self, kernel: Kernel) -> int:
        self.swept.set()
        return 1

    async def end(self) -> None:
        self.stop.set()
        await asyncio.wait_for(asyncio.gather(self.task, self.sweeping), 10)

    def die(self) -> None:
        self.task.cancel()
        self.sweeping.cancel()


@pytest.mark.spec("K28", "K3")
async def test_one_process_sweeps_and_another_takes_over_when_it_ends_or_dies(place: Place) -> None:
    first = Process(place, 1)
    await asyncio.wait_for(first.swept.wait(), 10)
    second, third = Process(place, 2), Process(place, 3)
    await asyncio.sleep(2 * TUNING.keeper_s)  # time enough for a lease that is not renewed to be over
    assert first.keeper.is_keeping() and not second.swept.is_set() and not third.swept.is_set()
    first.die()
    waiting = [asyncio.ensure_future(each.swept.wait()) for each in (second, third)]
    done, _ = await asyncio.wait(waiting, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1, "nobody, or everybody, took over from the dead keeper"
    keeping, other = (second, third) if second.swept.is_set() else (third, second)
    await keeping.end()
    await asyncio.wait_for(other.swept.wait(), 10)
    await other.end()
    for each in (first, second, third):
        await each.kernel.store.close()


@pytest.mark.spec("K28", "K22")
async def test_code_that_sweeps_differently_has_a_keeper_of_its_own(place: Place) -> None:
    old, new = App("kept"), App("kept")

    @new.step(every_s=1)
    async def more(kernel: Kernel) -> int:
        return 0

    kernels = [place.kernel(app, clock=SystemClock()) for app in (old, new)]
    assert lease_name(kernels[0]) != lease_name(kernels[1])
    assert lease_name(kernels[0]) == lease_name(Kernel(kernels[0].store, Registry([App("kept")])))
    for kernel in kernels:
        async with kernel.store.single_statement() as tx:
            assert await keepers.take(tx, lease_name(kernel), "a", 10**15, kernel.now())
        async with kernel.store.single_statement() as tx:
            assert not await keepers.take(tx, lease_name(kernel), "b", 10**15, kernel.now())
        async with kernel.store.transaction() as tx:
            await keepers.release_owned(tx, "a")
        async with kernel.store.single_statement() as tx:
            assert await keepers.take(tx, lease_name(kernel), "b", 10**15, kernel.now())
        await kernel.store.close()
