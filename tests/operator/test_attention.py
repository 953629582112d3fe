"""The lights: what asks for a person, and what does not. Every notice is shown by a look that has it and one that just
has not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.breaker import BreakerState, Gate
from holdfast.core.failure import Category
from holdfast.kernel.questions.deploy import Undeclared
from holdfast.operator.attention import AttentionNotice, Severity, Topic, what_asks
from holdfast.operator.overview import light_of
from holdfast.operator.snapshot import AtRisk, BreakerView, DyingJobs, Lane, PauseView, Snapshot
from holdfast.tables.horizon import Horizon
from holdfast.tables.pauses import Pause

pytestmark = pytest.mark.spec("K17")

NOW = 1_767_225_600_000
WELL = Snapshot(
    now=NOW,
    lanes=[Lane("essays", "queued", 500, 4.0), Lane("essays", "processing", 50, 9.0)],
    outbox_pending=3,
    outbox_lag_s=2.0,
    letters={("resolved", "network", "service"): 7},
    breakers=[BreakerView("llm", BreakerState(), 0, None, None)],
    effects=[("mail", "sent", 90)],
    workers_alive=2,
    served_queues=frozenset({"essays"}),
)


def breaker(opened_s_ago: float, *, down_s_ago: float | None = None, gate: Gate = Gate.OPEN, **more: Any) -> Snapshot:
    down_since = None if down_s_ago is None else NOW - int(down_s_ago * 1_000)
    state = BreakerState(gate=gate, opened_at=NOW - int(opened_s_ago * 1_000), down_since=down_since, **more)
    return replace(WELL, breakers=[BreakerView("llm", state, 400, None, None)])


PAUSE = Pause("queue", "essays", True, NOW - 60_000, "olga", "prices are wrong")


def lane(state: str, jobs: int, age_s: float, *served: str) -> Snapshot:
    return replace(WELL, lanes=[Lane("essays", state, jobs, age_s)], served_queues=frozenset(served))


def letters(state: str, category: Category, cause: str) -> Snapshot:
    return replace(WELL, letters={(state, category, cause): 2})


def dying(number: int, category: Category = Category.UPSTREAM) -> Snapshot:
    jobs = DyingJobs("shop.order", "charge", "SERVER_OVERLOADED", category, number, NOW - 60_000)
    return replace(WELL, dying=[jobs], letters={("open", category, "service"): number})


CASES: list[tuple[str, Snapshot, Topic, Severity]] = [
    ("queued, nobody works", lane("queued", 500, 1.0), Topic.NO_WORKER, Severity.PAGE),
    ("workers of another queue", lane("queued", 500, 1.0, "mails"), Topic.NO_WORKER, Severity.PAGE),
    ("nobody declares it", replace(WELL, undeclared=[Undeclared("k", "s", 3)]), Topic.UNDECLARED, Severity.PAGE),
    ("waits long", lane("queued", 9, 301.0, "essays"), Topic.WAITING, Severity.TICKET),
    ("waits too long", lane("queued", 9, 1_801.0, "essays"), Topic.WAITING, Severity.PAGE),
    ("at risk", replace(WELL, at_risk=AtRisk(4, NOW + 60_000)), Topic.DEADLINES, Severity.TICKET),
    ("outbox lags", replace(WELL, outbox_lag_s=61.0), Topic.OUTBOX, Severity.PAGE),
    ("set aside", replace(WELL, messages_aside=1), Topic.ASIDE, Severity.TICKET),
    ("broker away", replace(WELL, broker_trouble="cannot connect"), Topic.BROKER, Severity.PAGE),
    ("provider down", breaker(10), Topic.PROVIDER, Severity.TICKET),
    ("provider half open", breaker(10, gate=Gate.HALF_OPEN), Topic.PROVIDER, Severity.TICKET),
    ("down for long, tried a moment ago", breaker(10, down_s_ago=1_200), Topic.PROVIDER, Severity.PAGE),
    ("in doubt", replace(WELL, effects=[("mail", "review", 2)]), Topic.DOUBT, Severity.TICKET),
    ("escalated", letters("escalated", Category.NETWORK, "service"), Topic.ESCALATED, Severity.PAGE),
    ("a bug", letters("open", Category.BUG, "service"), Topic.BUG, Severity.PAGE),
    ("many die of one thing", dying(11), Topic.DYING, Severity.PAGE),
    ("a bug in work", letters("triaged", Category.BUG, "service"), Topic.LETTERS, Severity.TICKET),
    ("letters", letters("open", Category.AUTH, "service"), Topic.LETTERS, Severity.TICKET),
    ("paused", replace(WELL, pauses=[PauseView(PAUSE, 3)]), Topic.PAUSED, Severity.TICKET),
    ("old snapshot", replace(WELL, horizon=Horizon("session", "dump", 7, 840.0, 9)), Topic.HORIZON, Severity.TICKET),
]


@pytest.mark.parametrize("name, view, topic, severity", CASES, ids=[case[0] for case in CASES])
def test_a_trouble_asks_for_a_person(name: str, view: Snapshot, topic: Topic, severity: Severity) -> None:
    (notice,) = what_asks(view)
    assert (notice.topic, notice.severity) == (topic, severity)
    assert notice.sentence.endswith(".") and notice.sentence[0].isupper() | notice.sentence[0].isdigit()
    assert light_of([notice]) == ("red" if severity is Severity.PAGE else "yellow")


def test_a_breaker_that_a_person_opened_is_not_said_to_close_by_itself() -> None:
    (itself,) = what_asks(breaker(10))
    view = breaker(10)
    (only,) = view.breakers
    forced = replace(view, breakers=[replace(only, state=replace(only.state, forced=True))])
    (by_hand,) = what_asks(forced)
    assert "go on by themselves" in itself.to_do
    assert by_hand.to_do.startswith("Close its breaker") and by_hand.next_at is None


def test_every_topic_is_shown_by_a_case() -> None:
    assert {case[2] for case in CASES} | {Topic.STORE} == set(Topic)


CALM = {
    "busy and well": WELL,
    "nothing due yet": lane("queued", 500, 0.0),
    "held for a provider, no worker needed": lane("parked", 500, 900.0),
    "waits a little": lane("queued", 9, 299.0, "essays"),
    "the outbox is a minute old": replace(WELL, outbox_lag_s=60.0),
    "callers' own mistakes": replace(
        WELL, letters={("open", Category.VALIDATION, "input"): 9, ("escalated", Category.BUG, "input"): 1}
    ),
    "a short report": replace(WELL, horizon=Horizon("session", "report", 7, 299.0, 9)),
    "all letters resolved": replace(
        WELL, letters={("resolved", Category.BUG, "x"): 9, ("replayed", Category.BUG, "x"): 1}
    ),
}


@pytest.mark.parametrize("view", CALM.values(), ids=CALM.keys())
def test_what_goes_on_by_itself_asks_for_nobody(view: Snapshot) -> None:
    assert what_asks(view) == [] and light_of([]) == "green"


def test_a_burst_of_deaths_is_named_once_and_the_other_letters_beside_it() -> None:
    view = dying(3_110)
    burst, rest = what_asks(replace(view, letters={("open", Category.UPSTREAM, "service"): 3_112}))
    assert "3,110 jobs of 'shop.order' died of SERVER_OVERLOADED in 'charge' since 23:59 UTC" in burst.sentence
    assert (burst.number, rest.topic, rest.number) == (3_110, Topic.LETTERS, 2)
    assert [notice.topic for notice in what_asks(dying(10))] == [Topic.LETTERS], "a few wait for the morning"
    assert [notice.topic for notice in what_asks(dying(11, Category.BUG))] == [Topic.BUG], "a bug is named as such"


def test_what_was_not_counted_to_its_end_is_at_least_so_many() -> None:
    (waiting,) = what_asks(lane("queued", 10_000, 1.0))
    assert waiting.sentence.startswith("At least 10,000 jobs of the queue 'essays' queued")
    assert what_asks(lane("queued", 9_999, 1.0))[0].sentence.startswith("9,999 jobs")


def test_a_database_that_does_not_answer_is_red() -> None:
    (notice,) = what_asks(None)
    assert (notice.topic, light_of([notice])) == (Topic.STORE, "red")


def test_waiting_is_judged_by_what_is_usual() -> None:
    view = lane("queued", 9, 100.0, "essays")
    assert what_asks(view, usual_age_s=30.0) == [], "a queue that mostly waits half a minute"
    (notice,) = what_asks(view, usual_age_s=2.0)
    assert notice.topic is Topic.WAITING and "(usually 2 s)" in notice.sentence
    assert what_asks(lane("queued", 9, 59.0, "essays"), usual_age_s=0.0) == [], "less than a minute is never news"


def test_the_outage_says_since_when_whom_it_holds_and_what_comes_next() -> None:
    view = breaker(10, down_s_ago=720, open_until=NOW + 180_000, reason="13 of 20 calls failed")
    (notice,) = what_asks(view)
    assert notice.sentence == (
        "Provider 'llm' has been down since 23:48 UTC (13 of 20 calls failed); 400 jobs wait for it and spend "
        "nothing; next trial 00:03 UTC."
    )


def test_what_wakes_somebody_comes_first() -> None:
    view = replace(WELL, outbox_lag_s=61.0, messages_aside=1, effects=[("mail", "review", 2)])
    assert [notice.severity for notice in what_asks(view)] == [Severity.PAGE, Severity.TICKET, Severity.TICKET]


def test_notices_count_what_they_are_about() -> None:
    notices: list[AttentionNotice] = what_asks(lane("queued", 500, 1.0))
    assert [(notice.number, notice.subject) for notice in notices] == [(500, "essays")]


def test_a_job_that_came_too_late_is_nobodys_bug() -> None:
    view = replace(letters("open", Category.BUG, "service"), letters_late=2)
    (notice,) = what_asks(view)
    assert (notice.topic, notice.severity, notice.number) == (Topic.LETTERS, Severity.TICKET, 2)


def test_a_paused_queue_asks_once_and_its_wait_is_no_news() -> None:
    view = replace(lane("queued", 500, 1_801.0), pauses=[PauseView(PAUSE, 500)])
    (notice,) = what_asks(view)
    assert (notice.topic, notice.number, notice.subject) == (Topic.PAUSED, 500, "queue:essays")
    assert "paused by olga" in notice.sentence and "prices are wrong" in notice.sentence
