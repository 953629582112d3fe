"""One process does the sweeps for all: a lease in the database says which.

    waiting --nobody has it, or its time is over--> keeping --renewed in time--> keeping
       ^------------------- it is another's, or was not renewed in time ----------/

A keeper that ends lets the next one have it at once; one that dies is replaced when its lease is over. Two at once, as
when one was paused, are harmless: every step claims or locks what it works on. Code that sweeps differently, as of
another release, has a lease of its own.

Why so: docs/decisions/0025-wake-one-sweep-once.md
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import blake2b

from holdfast.engines.presence import name_here
from holdfast.errors import StoreError
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.loop import RUNNING, pause, unless_stopped
from holdfast.tables import keepers

KEEP = "keep"
CHANNEL = "keeper"
RELEASE_S = 1.0
FORGET_MS = 86_400_000
Step = Callable[[Kernel], Awaitable[int]]


class Keeper:
    """This process's part in it. `only` makes a step that waits until this process keeps."""

    def __init__(self, kernel: Kernel, stop: asyncio.Event) -> None:
        self._kernel = kernel
        self._stop = stop
        self._name = lease_name(kernel)
        self._owner = name_here(kernel.new_uuid4()[:8])
        self._until = 0.0
        self._taken = asyncio.Event()

    def is_keeping(self) -> bool:
        """Whether the lease, as far as this process knows, is not over yet."""
        return asyncio.get_running_loop().time() < self._until

    def only(self, step: Step) -> Step:
        async def step_of_keeper(kernel: Kernel) -> int:
            while not self.is_keeping():
                self._taken.clear()
                await unless_stopped(self._stop, self._taken.wait())
                if self._stop.is_set():
                    return 0
            return await step(kernel)

        return step_of_keeper

    async def run(self) -> None:
        """Take the lease when it is to be had, and renew it, until the stop."""
        listener = self._kernel.store.listen(CHANNEL)
        lease_s = self._kernel.tuning.keeper_s
        try:
            while not self._stop.is_set():
                try:
                    wait_s = await self._take()
                except StoreError as error:
                    self._kernel.duties[KEEP] = f"failed, tries again in {lease_s / 3:g} s: {error}"
                    wait_s = lease_s / 3
                await unless_stopped(self._stop, listener.wait(wait_s))
        finally:
            listener.close()
        await self._release()

    async def _take(self) -> float:
        """Take, renew or look; return after how long to do it again."""
        kernel = self._kernel
        lease_s = kernel.tuning.keeper_s
        began, now = asyncio.get_running_loop().time(), kernel.now()
        if not self.is_keeping():
            async with kernel.store.reading() as tx:
                lease = await keepers.look(tx, self._name)
            if lease is not None and lease.owner != self._owner and lease.until >= now:
                kernel.duties[KEEP] = f"kept by {lease.owner}"
                return min(lease_s, (lease.until - now) / 1_000 + 0.001)
        async with kernel.store.single_statement() as tx:
            if not await keepers.take(tx, self._name, self._owner, now + int(lease_s * 1_000), now):
                self._until = 0.0
                return lease_s / 3
        if not self.is_keeping():
            kernel.watch.log("keeper.taken", owner=self._owner)
        self._until = began + lease_s
        self._taken.set()
        kernel.duties[KEEP] = RUNNING
        return lease_s / 3

    async def _release(self) -> None:
        if not self.is_keeping():
            return
        self._until = 0.0
        try:
            async with asyncio.timeout(RELEASE_S), self._kernel.store.transaction() as tx:
                await keepers.release(tx, self._name, self._owner)
                await keepers.forget(tx, self._kernel.now() - FORGET_MS)
                await tx.notify(CHANNEL)
        except (StoreError, TimeoutError):
            await pause(asyncio.Event(), 0)  # the lease runs out


def lease_name(kernel: Kernel) -> str:
    """The queues, and a digest of everything that is swept: processes of the same code have the same name."""
    registry = kernel.registry
    swept = [
        registry.declared,
        *sorted(registry.providers),
        *sorted(step.name for app in registry.apps for step in app.steps),
        *sorted(f"{each.name} {each.cron}" for app in registry.apps for each in app.schedules),
    ]
    digest = blake2b("\n".join(swept).encode(), digest_size=5).hexdigest()
    return f"{','.join(registry.queues)}:{digest}"
