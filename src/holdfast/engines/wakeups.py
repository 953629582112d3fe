"""When a worker looks for work: at a ring that is its own to answer, at its turn to poll, when another has too much."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

import holdfast
from holdfast.engines.roster import Roster
from holdfast.errors import StoreError
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.loop import pause
from holdfast.stores.seam import Listener, Tx
from holdfast.tables import workers

FRESH = 2.5
"""A worker that has not renewed for so many of its intervals is not counted on to answer."""
COMPANY = "company"
"""The channel on which workers say that they have come or go."""
SIGN_OFF_S = 1.0
SECOND_LOOK_S = 0.5
LOOK_ROUND_S = 2.0
"""Within this time the others look who is there now: one look for all that come together."""


class Wakeups:
    """The rings, polls and surplus of one worker. `room` says how much it could take now, `look` makes it look."""

    def __init__(
        self, kernel: Kernel, name: str, queues: Sequence[str], room: Callable[[], int], look: Callable[[], None]
    ) -> None:
        self._kernel = kernel
        self._name = name
        self._queues = queues
        self._room = room
        self._look = look
        self._roster = Roster(name)
        self._surplus = asyncio.Event()
        self._heeds: bool | None = None
        self.is_drained = False
        """Whether a person has asked this worker to take nothing more."""
        self.company_changed = asyncio.Event()
        """Others have come or gone, or rings arrive here now, or do no longer: it is time for a report."""

    def start(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Listen from now on; the tasks run until they are cancelled."""
        store = self._kernel.store
        listening = [self._listen(store.listen(f"queue:{queue}", self._heed)) for queue in self._queues]
        rest = [self._watch_company(store.listen(COMPANY)), self._poll(), self._pass_on()]
        return [group.create_task(each) for each in (*listening, *rest)]

    async def report(self, tx: Tx, in_flight: int, now: int) -> None:
        """Tell the others that this worker is there, and learn who they are. They are counted on from then."""
        queues, declared = ",".join(self._queues), self._kernel.registry.declared
        was_drained = self.is_drained
        heeds = await self._say(tx, queues, declared, in_flight, now)
        if self.is_drained != was_drained:
            heeds = await self._say(tx, queues, declared, in_flight, now)
            self._look()
        lately = now - int(FRESH * self._kernel.tuning.renew_s * 1_000)
        self._roster.update(await workers.company(tx, queues, declared, lately) if heeds else [])
        if heeds != bool(self._heeds):
            await tx.notify(COMPANY)
        self._heeds = heeds

    async def _say(self, tx: Tx, queues: str, declared: str, in_flight: int, now: int) -> bool:
        """Write the report; returns whether rings may be addressed to this worker."""
        heeds = self._kernel.store.is_heard() and not self.is_drained
        release = holdfast.__version__
        report = (self._name, queues, in_flight, now, declared)
        until = now + int(self._kernel.tuning.lease_s * 1_000)
        self.is_drained = await workers.seen(tx, *report, heeds=heeds, release=release, holds_until=until)
        return heeds

    async def sign_off(self) -> None:
        """Tell the others that this worker goes; not for longer than a second."""
        try:
            async with asyncio.timeout(SIGN_OFF_S), self._kernel.store.transaction() as tx:
                await workers.gone(tx, self._name, self._kernel.now() - 3_600_000)
                await tx.notify(COMPANY)
        except (StoreError, TimeoutError):
            await pause(asyncio.Event(), 0)  # its row is for people only, and goes with the next prune

    def note_surplus(self) -> None:
        """There may be more than this worker takes."""
        self._surplus.set()

    async def _listen(self, listener: Listener) -> None:
        try:
            while True:
                if await listener.wait(60.0):
                    self._look()
        finally:
            listener.close()

    async def _watch_company(self, listener: Listener) -> None:
        store = self._kernel.store
        try:
            while True:
                if await listener.wait(self._kernel.tuning.renew_s) and store.is_heard():
                    await asyncio.sleep(self._roster.share() * LOOK_ROUND_S)
                    self.company_changed.set()
                if self._heeds is not None and (store.is_heard() and not self.is_drained) != self._heeds:
                    self.company_changed.set()
        finally:
            listener.close()

    def _heed(self, ticket: str) -> float | None:
        """A ring for one of many is for the worker that ranks first. If it has no room, all the others hear of it."""
        if not self._roster.answers(ticket):
            return None
        if self._room() <= 0:
            self.note_surplus()
        return 0.0

    def heed_outbox(self, ticket: str) -> float | None:
        """A message is looked for by one relay of many, and a moment later by a second one: the first may have died, or
        have no way to the broker, and relays poll seldom."""
        return {0: 0.0, 1: SECOND_LOOK_S}.get(self._roster.rank(ticket))

    async def _poll(self) -> None:
        """The safety net of the rings, and how what has come due is seen. Workers that hear each other take turns."""
        while True:
            in_turns = self._takes_turns()
            await asyncio.sleep(self.until_poll_s(self._kernel.tuning.poll_s))
            if in_turns and self._room() <= 0:
                self.note_surplus()
            self._look()

    def until_poll_s(self, poll_s: float) -> float:
        """How long until this process asks for what one of them asks for all, once in `poll_s`."""
        return self._roster.until_poll_s(self._kernel.store.now(), poll_s) if self._takes_turns() else poll_s

    def _takes_turns(self) -> bool:
        return len(self._roster) > 1 and self._kernel.store.is_heard()

    async def _pass_on(self) -> None:
        """Wake the others for what this worker does not take, once in a while."""
        while True:
            await self._surplus.wait()
            if len(self._roster) > 1:
                with suppress(StoreError):
                    async with self._kernel.store.transaction() as tx:
                        for queue in self._queues:
                            await tx.notify(f"queue:{queue}", to_all=True)
            await asyncio.sleep(self._kernel.tuning.poll_s)
            self._surplus.clear()
