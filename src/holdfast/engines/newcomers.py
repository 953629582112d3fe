"""Some places of a worker are kept for keys that it runs nothing of, where new jobs take turns by a key.

    ring --> is anybody resting? --no--> newcomers let in --> each claimed by its id --> run

Otherwise a key's first job waits until a job of another key ends, and for the turn that is under way: with jobs of a
minute that is a second of a worker of fifty, with short ones it is most of what a newcomer waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from holdfast.core.job import Claimed
from holdfast.errors import StoreError
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.settle import LeasedJob
from holdfast.kernel.turn import claim_one
from holdfast.kernel.upkeep.taking_turns import key_of, let_newcomers_in

PLACES_MIN = 10
"""A worker of fewer places keeps none: each is too large a part of it."""
KEPT_OF = 20
"""One place in so many is kept."""
REST = 4
"""After a look that came upon nobody none is made for so many times what it took: a backlog's own rings cost a fifth of
the time at most."""


def kept_places(kernel: Kernel, queues: Sequence[str], concurrency: int) -> int:
    """How many places newcomers have to themselves; none where nobody takes turns."""
    fair = kernel.registry.fair
    if fair is None or concurrency < PLACES_MIN or not fair.queues.intersection(queues):
        return 0
    return max(1, concurrency // KEPT_OF)


class Newcomers:
    """Looks for them at every ring that nobody else of the worker answers at once. `places` says how many it may start
    now (none while a stream rests, which looks by itself), `running` what runs, `start` runs what was leased, `doubt`
    hears of a lost answer."""

    def __init__(
        self,
        kernel: Kernel,
        name: str,
        queues: Sequence[str],
        places: Callable[[], int],
        running: Callable[[], Iterable[Claimed]],
        start: Callable[[Sequence[LeasedJob]], None],
        doubt: Callable[[], None],
    ) -> None:
        self._kernel, self._name, self._queues = kernel, name, queues
        self._places, self._running, self._start, self._doubt = places, running, start, doubt
        self.rung = asyncio.Event()
        self.is_looking = False

    async def look_for_ever(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            await self.rung.wait()
            self.rung.clear()
            began = clock()
            if (places := self._places()) > 0 and not await self.look(places):
                await asyncio.sleep(REST * (clock() - began))

    async def look(self, places: int) -> int:
        """Start what newcomers there are, up to so many; return how many. What was let in and not leased is claimed by
        the next turn, as any other."""
        started = 0
        self.is_looking = True
        try:
            held = {key for job in self._running() if (key := key_of(self._kernel, job)) is not None}
            for job_id in await let_newcomers_in(self._kernel, self._queues, places, held):
                if taken := await claim_one(self._kernel, self._name, job_id):
                    self._start([taken])
                    started += 1
        except StoreError as error:
            self._kernel.watch.log("worker.newcomers_failed", error=str(error))
            self._doubt()
        finally:
            self.is_looking = False
        return started
