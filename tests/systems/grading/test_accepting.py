"""Submissions that arrive together share a commit, and nothing else: each has its own fate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from holdfast.errors import StoreError, StoreUnavailable
from holdfast.kit import Kernel, Registry
from holdfast.stores.postgres import PostgresStore
from holdfast.tables import outbox
from holdfast.tables.idempotency import Reserved
from holdfast_systems.grading import submissions
from holdfast_systems.grading.accepting import Accepting
from holdfast_systems.grading.main_app import build_main, prepared
from holdfast_systems.grading.settings import MainSettings
from holdfast_systems.grading.submissions import Arrival

pytestmark = pytest.mark.slow
WORDS = {"text": "Cities grow because people look for work. ", "taskType": "essay", "questionId": "q"}


@pytest.fixture
async def kernel(postgres_url: str) -> AsyncIterator[Kernel]:
    made = Kernel(PostgresStore(postgres_url), Registry([build_main({})]))
    await made.migrate()
    yield made
    await made.store.close()


def arrival(kernel: Kernel, key: str) -> Arrival:
    new, message, _ = prepared(kernel, MainSettings(), "ann", "writing", WORDS)
    return Arrival(new, message, Reserved("ann", key, "f"), 201, f'{{"id":"{new.id}"}}')


async def there(kernel: Kernel, one: Arrival) -> tuple[bool, int]:
    """Whether the submission is kept, and how many messages tell of it."""
    async with kernel.store.reading() as tx:
        kept = await submissions.show(tx, one.new.id)
        assert kept in (None, one.new), "as it was answered, so it lies there"
        return kept is not None, len(await outbox.of_aggregate(tx, one.new.id))


@pytest.mark.spec("G1", "000.1")
async def test_all_that_arrive_together_are_kept_each_with_its_message(kernel: Kernel) -> None:
    accepting = Accepting(kernel)
    arrivals = [arrival(kernel, f"k{n}") for n in range(40)]
    assert await asyncio.gather(*map(accepting.put, arrivals)) == [True] * 40
    assert [await there(kernel, one) for one in arrivals] == [(True, 1)] * 40


@pytest.mark.spec("G1", "K13")
async def test_of_equal_keys_one_wins_whether_they_come_together_or_through_two_processes(kernel: Kernel) -> None:
    doors = [Accepting(kernel), Accepting(kernel)]
    arrivals = [arrival(kernel, f"k{n % 5}") for n in range(40)]
    won = await asyncio.gather(*[doors[n % 2].put(one) for n, one in enumerate(arrivals)])
    assert sorted(one.reserved.key for one, first in zip(arrivals, won, strict=True) if first) == [
        f"k{n}" for n in range(5)
    ]
    assert [await there(kernel, one) for one in arrivals] == [(True, 1) if first else (False, 0) for first in won]


async def test_one_that_cannot_be_written_fails_alone(kernel: Kernel) -> None:
    accepting = Accepting(kernel)
    good = [arrival(kernel, f"k{n}") for n in range(3)]
    bad = replace(
        good[0], new=replace(arrival(kernel, "x").new, skill="juggling"), reserved=Reserved("ann", "bad", "f")
    )
    answers = await asyncio.gather(*map(accepting.put, [good[0], bad, good[1], good[2]]), return_exceptions=True)
    assert [answers[0], *answers[2:]] == [True] * 3 and isinstance(answers[1], StoreError)
    assert [await there(kernel, one) for one in good] == [(True, 1)] * 3


async def test_a_caller_that_goes_away_takes_nobody_along(kernel: Kernel) -> None:
    accepting = Accepting(kernel)
    arrivals = [arrival(kernel, f"k{n}") for n in range(6)]
    tasks = [asyncio.ensure_future(accepting.put(one)) for one in arrivals]
    await asyncio.sleep(0)
    tasks[0].cancel()
    assert await asyncio.gather(*tasks[1:]) == [True] * 5


async def test_a_database_that_is_away_is_told_to_everybody() -> None:
    kernel = Kernel(PostgresStore("postgresql://nobody@127.0.0.1:1/none"), Registry([build_main({})]))
    accepting = Accepting(kernel)
    answers = await asyncio.gather(*[accepting.put(arrival(kernel, f"k{n}")) for n in range(3)], return_exceptions=True)
    assert all(isinstance(one, StoreUnavailable) for one in answers)
