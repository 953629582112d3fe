"""Tasks that write alike at the same time share a commit, and nothing else: no failure, no end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.kernel.gather import Gather


class Desk:
    """Writes numbers down. Waits at the door until it is opened; refuses what it cannot write."""

    def __init__(self, *, odd: frozenset[int] = frozenset(), away: bool = False) -> None:
        self.written: list[list[int]] = []
        self.tries = 0
        self.door = asyncio.Event()
        self._odd, self._away = odd, away

    async def write(self, given: Sequence[int]) -> list[str | Exception]:
        self.tries += 1
        await self.door.wait()
        if self._away:
            raise StoreUnavailable("away")
        if self._odd & set(given):
            raise ValueError(f"cannot write {sorted(self._odd & set(given))}")
        self.written.append(list(given))
        return [LookupError(str(one)) if one < 0 else f"wrote {one}" for one in given]


async def asked(gather: Gather[int, str], numbers: Sequence[int]) -> list[asyncio.Task[str]]:
    """A task for each number, each waiting for its answer."""
    tasks = [asyncio.ensure_future(gather.put(number)) for number in numbers]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


@pytest.mark.spec("K12")
async def test_those_that_come_during_a_write_share_the_next() -> None:
    desk = Desk()
    gather = Gather(desk.write)
    tasks = await asked(gather, [1]) + await asked(gather, [2, 3, 4])
    desk.door.set()
    assert await asyncio.gather(*tasks) == ["wrote 1", "wrote 2", "wrote 3", "wrote 4"]
    assert desk.written == [[1], [2, 3, 4]]


async def test_a_write_has_a_most() -> None:
    desk = Desk()
    tasks = await asked(Gather(desk.write, rows_max=2), [1, 2, 3])
    desk.door.set()
    await asyncio.gather(*tasks)
    assert desk.written == [[1, 2], [3]]


async def test_one_that_is_refused_alone_is_told_alone() -> None:
    desk = Desk()
    tasks = await asked(Gather(desk.write), [1, -2, 3])
    desk.door.set()
    one, two, three = await asyncio.gather(*tasks, return_exceptions=True)
    assert (one, three) == ("wrote 1", "wrote 3") and isinstance(two, LookupError)
    assert desk.written == [[1, -2, 3]]


async def test_one_that_cannot_be_written_fails_no_neighbour() -> None:
    desk = Desk(odd=frozenset({2}))
    tasks = await asked(Gather(desk.write), [1, 2, 3])
    desk.door.set()
    one, two, three = await asyncio.gather(*tasks, return_exceptions=True)
    assert (one, three) == ("wrote 1", "wrote 3") and isinstance(two, ValueError)
    assert desk.written == [[1], [3]]


async def test_a_database_that_is_away_is_not_asked_again_for_each() -> None:
    desk = Desk(away=True)
    tasks = await asked(Gather(desk.write), [1, 2])
    desk.door.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in found] == [StoreUnavailable, StoreUnavailable] and desk.tries == 1


async def test_a_caller_that_goes_away_takes_only_its_own_along() -> None:
    desk = Desk()
    gather = Gather(desk.write)
    first, second, third = await asked(gather, [1]) + await asked(gather, [2, 3])
    first.cancel()  # its write is under way, and goes on
    second.cancel()  # its write has not begun
    desk.door.set()
    assert await third == "wrote 3"
    assert desk.written == [[1], [3]]
    assert await gather.put(4) == "wrote 4"
