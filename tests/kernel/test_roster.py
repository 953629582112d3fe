"""Who answers a ring, and who polls when, among workers that know the same names."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from itertools import pairwise

import pytest

from holdfast import App
from holdfast.engines.roster import ROUND_S_MAX, Roster
from holdfast.engines.wakeups import SECOND_LOOK_S, Wakeups
from holdfast.engines.worker import Worker
from holdfast.kernel.kernel import Tuning
from holdfast.stores.listeners import Listeners
from holdfast.testing import HandClock
from tests.kernel.places import Place, close_all

NAMES = [f"host:{number}:1:place:{number:08x}" for number in range(20)]


def rosters(names: list[str]) -> list[Roster]:
    made = [Roster(name) for name in names]
    for roster in made:
        roster.update(names)
    return made


def _after(seconds: float | None, ticket: str) -> float | None:
    return seconds


@pytest.mark.spec("K28")
def test_every_ring_is_answered_by_one_worker_and_all_get_their_share() -> None:
    company = rosters(NAMES)
    answers: Counter[str] = Counter()
    for ticket in range(400):
        (answering,) = [roster.name for roster in company if roster.answers(str(ticket))]
        answers[answering] += 1
    assert len(answers) == len(NAMES)
    assert max(answers.values()) < 3 * min(answers.values())


@pytest.mark.spec("K28")
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_a_message_is_looked_for_by_two_relays_of_many_the_second_a_moment_later(
    place: Place, clock: HandClock
) -> None:
    kernel = place.kernel(App("many"), clock=clock)
    relays = [Wakeups(kernel, name, [], lambda: 1, lambda: None) for name in NAMES]
    for relay in relays:
        relay._roster.update(NAMES)
    for ticket in range(50):
        heard = [relay.heed_outbox(str(ticket)) for relay in relays]
        assert sorted(after for after in heard if after is not None) == [0.0, SECOND_LOOK_S]
    await close_all(place)


@pytest.mark.spec("K28")
async def test_a_listener_answers_at_once_a_moment_later_or_not_at_all() -> None:
    rings = Listeners()
    now, soon, never = (rings.listen("outbox", partial(_after, seconds)) for seconds in (0.0, 0.01, None))
    rings.wake("outbox", "7")
    assert (now.rung.is_set(), soon.rung.is_set()) == (True, False)
    assert await soon.wait(5) and not never.rung.is_set()
    rings.wake("outbox")
    assert never.rung.is_set(), "without a ticket it is for all"


@pytest.mark.spec("K28")
def test_a_worker_that_knows_nobody_answers_everything() -> None:
    assert all(Roster("alone").answers(str(ticket)) for ticket in range(100))


@pytest.mark.spec("K28")
@pytest.mark.parametrize("size", [1, 2, 20])
def test_one_worker_polls_in_each_interval(size: int) -> None:
    company = rosters(NAMES[:size])
    now_ms, round_s = 1_700_000_000_123, float(size)
    polls = sorted(now_ms / 1_000 + roster.until_poll_s(now_ms, 1.0) for roster in company)
    assert polls[-1] - now_ms / 1_000 <= round_s + 1.0
    assert all(0.9 < later - earlier < 1.3 for earlier, later in pairwise(polls))
    for roster in company:  # and again a round later, although the clock was a little early or late
        at_ms = now_ms + int(1_000 * roster.until_poll_s(now_ms, 1.0))
        for off_ms in (-40, 0, 40):
            assert abs(roster.until_poll_s(at_ms + off_ms, 1.0) - round_s) < 0.1


@pytest.mark.spec("K28")
def test_nobody_waits_long_for_its_turn_in_a_large_company() -> None:
    company = rosters([f"worker {number}" for number in range(200)])
    assert all(roster.until_poll_s(5_000, 1.0) <= 1.01 * ROUND_S_MAX for roster in company)


class VisitedWorker(Worker):
    """Somebody comes while it makes its first report."""

    reports = 0
    reported_again: asyncio.Event

    async def renew(self) -> None:
        self.reports += 1
        if self.reports == 1:
            self.wakeups.company_changed.set()
        else:
            self.reported_again.set()


@pytest.mark.spec("K28")
async def test_who_comes_while_a_worker_reports_is_looked_for_again(place: Place, clock: HandClock) -> None:
    worker = VisitedWorker(place.kernel(App("visited"), clock=clock, tuning=Tuning(lease_s=9_000, renew_s=3_000)))
    worker.reported_again = asyncio.Event()
    reporting = asyncio.ensure_future(worker._renew_for_ever())
    async with asyncio.timeout(10):
        await worker.reported_again.wait()
    reporting.cancel()
    await close_all(place)
