"""The lights: what asks for a person, and what does not. Every notice is shown by a look that has it and one that just
has not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.breaker import BreakerState, Gate
from holdfast.core.failure import Category
from holdfast.kernel.questions.deploy import Undeclared
from holdfast.operator.attention import TO_DO, AttentionNotice, Severity, Topic, what_asks
from holdfast.operator.overview import light_of
from holdfast.operator.snapshot import AtRisk, BreakerView, DyingJobs, Lane, PauseView, Snapshot
from holdfast.tables.horizon import Horizon
from holdfast.tables.incidents import Hit
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


def untried(*, parked: int = 0, idle_s: float = 60.0, **more: Any) -> Snapshot:
    """Down for twenty minutes, and half open now."""
    state = BreakerState(gate=Gate.HALF_OPEN, opened_at=NOW - 90_000, down_since=NOW - 1_200_000, **more)
    return replace(WELL, breakers=[BreakerView("llm", state, parked, None, NOW - int(idle_s * 1_000))])


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
    ("takes no writes", replace(WELL, write_trouble="the database is read only"), Topic.STORE, Severity.PAGE),
    ("broker away", replace(WELL, broker_trouble="cannot connect"), Topic.BROKER, Severity.PAGE),
    ("provider down", breaker(10), Topic.PROVIDER, Severity.TICKET),
    ("provider half open", breaker(10, gate=Gate.HALF_OPEN), Topic.PROVIDER, Severity.TICKET),
    ("down for long, tried a moment ago", breaker(10, down_s_ago=1_200), Topic.PROVIDER, Severity.PAGE),
    ("down, and nobody tries it", untried(), Topic.UNTRIED, Severity.TICKET),
    ("a trial is under way", untried(permits=(("a", NOW + 1),)), Topic.PROVIDER, Severity.PAGE),
    ("a job waits for it", untried(parked=1), Topic.PROVIDER, Severity.PAGE),
    ("it may be tried since a moment ago", untried(idle_s=59.9), Topic.PROVIDER, Severity.PAGE),
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
    assert {case[2] for case in CASES} == set(Topic)


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
    assert waiting.sentence.startswith("At least 10,000 jobs are queued in 'essays'")
    assert what_asks(lane("queued", 9_999, 1.0))[0].sentence.startswith("9,999 jobs")


def test_a_database_that_does_not_answer_is_red() -> None:
    (notice,) = what_asks(None)
    assert (notice.topic, light_of([notice])) == (Topic.STORE, "red")
    (notice,) = what_asks(None, NOW)
    assert notice.since_at == NOW and " has not answered since 00:00 UTC: nothing is accepted" in notice.sentence


def test_waiting_is_judged_by_what_is_usual() -> None:
    view = lane("queued", 9, 100.0, "essays")
    assert what_asks(replace(view, usual_age_s=30.0)) == [], "a queue that mostly waits half a minute"
    (notice,) = what_asks(replace(view, usual_age_s=2.0))
    assert notice.topic is Topic.WAITING and "(usually 2 s)" in notice.sentence
    assert what_asks(replace(lane("queued", 9, 59.0, "essays"), usual_age_s=0.0)) == [], (
        "less than a minute is never news"
    )


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


def test_a_bug_is_told_with_the_stage_that_has_most_of_it() -> None:
    view = replace(
        letters("open", Category.BUG, "service"), bugs_in=[("order", "charge"), ("order", "send"), ("x", "y")]
    )
    (notice,) = what_asks(view)
    assert " in 'charge' of 'order' and 2 other stages, and nobody" in notice.sentence


def test_a_job_that_came_too_late_is_nobodys_bug() -> None:
    view = replace(letters("open", Category.BUG, "service"), letters_late=2)
    (notice,) = what_asks(view)
    assert (notice.topic, notice.severity, notice.number) == (Topic.LETTERS, Severity.TICKET, 2)


def test_a_paused_queue_asks_once_and_its_wait_is_no_news() -> None:
    view = replace(lane("queued", 500, 1_801.0), pauses=[PauseView(PAUSE, 500)])
    (notice,) = what_asks(view)
    assert (notice.topic, notice.number, notice.subject) == (Topic.PAUSED, 500, "queue:essays")
    assert "paused by olga" in notice.sentence and "prices are wrong" in notice.sentence


TOLD: dict[str, tuple[str, int, str, int | None, int | None]] = {
    "queued, nobody works": (
        "500 jobs are queued in 'essays', the oldest has been due for 1 s, and no worker serves it: start "
        "`holdfast worker`.",
        *(500, "essays", -1_000, None),
    ),
    "nobody declares it": (
        "3 jobs are due: no running worker declares the stage 's' of 'k'. Start a worker whose code has it.",
        *(3, "k/s", None, None),
    ),
    "waits long": (
        "The oldest job of the queue 'essays' has been due for 5 min; 9 jobs are queued: start more workers, or see "
        "what the running ones do.",
        *(9, "essays", -301_000, None),
    ),
    "at risk": (
        "4 jobs have used three quarters of their time; the first misses its deadline at 00:01 UTC.",
        *(4, "", None, 60_000),
    ),
    "outbox lags": (
        "3 messages are not yet published, the oldest for 61 s: see whether a relay runs and the broker answers.",
        *(3, "", -61_000, None),
    ),
    "set aside": ("1 message is set aside after the last try: publish again or let go.", 1, "", None, None),
    "broker away": (
        "The message broker cannot be used (cannot connect): messages wait and go on later.",
        *(3, "", None, None),
    ),
    "provider half open": (
        "Provider 'llm' has been down since 23:59 UTC; 400 jobs wait for it and spend nothing; it is being tried.",
        *(400, "llm", -10_000, None),
    ),
    "down for long, tried a moment ago": (
        "Provider 'llm' has been down since 23:40 UTC; 400 jobs wait for it and spend nothing; it is being tried.",
        *(400, "llm", -1_200_000, None),
    ),
    "in doubt": (
        "2 effects of 'mail' are in doubt: only a person can know whether they happened.",
        *(2, "mail", None, None),
    ),
    "escalated": ("2 dead letters are escalated: fixed, replayed, and dead again in the same way.", 2, "", None, None),
    "a bug": ("2 jobs died of a bug or a wrong configuration, and nobody has looked yet.", 2, "", None, None),
    "many die of one thing": (
        "11 jobs of 'shop.order' died of SERVER_OVERLOADED in 'charge' since 23:59 UTC, and nobody has looked yet.",
        *(11, "shop.order/charge/SERVER_OVERLOADED", -60_000, None),
    ),
    "letters": ("2 dead letters to work on.", 2, "", None, None),
    "paused": (
        "The queue 'essays' has been paused by olga since 23:59 UTC (prices are wrong); 3 jobs wait for it.",
        *(3, "queue:essays", -60_000, None),
    ),
    "old snapshot": (
        "A transaction has been open for 14 min (session 'dump', pid 7) and keeps 9 old row versions from being "
        "removed: tables and indexes grow until it ends.",
        *(9, "", None, None),
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_a_notice_says_what_since_when_and_of_how_many(name: str) -> None:
    (view,) = [case[1] for case in CASES if case[0] == name]
    (notice,) = what_asks(view)
    since = None if notice.since_at is None else notice.since_at - NOW
    late = None if notice.late_at is None else notice.late_at - NOW
    assert (notice.sentence, notice.number, notice.subject, since, late) == TOLD[name]
    assert notice.to_do == TO_DO[notice.topic] and notice.next_at is None


HIT = Hit(owners=7, late_at=NOW + 120_000, answer="503 busy")


def test_who_is_hit_and_when_it_hurts_is_in_the_notices_of_queues_and_providers() -> None:
    (queued,) = what_asks(replace(lane("queued", 1, 1.0), due_in={"essays": HIT}))
    assert (queued.owners, queued.late_at) == (7, NOW + 120_000)
    down = breaker(10, open_until=NOW + 60_000, reason="13 of 20 failed")
    (left,) = what_asks(replace(down, held_for={"llm": HIT}))
    assert (left.owners, left.late_at, left.answer, left.next_at) == (7, NOW + 120_000, "503 busy", NOW + 60_000)
    assert "(13 of 20 failed; it answered 503 busy)" in left.sentence
    other = {"other": HIT}
    assert what_asks(replace(down, held_for=other))[0].owners == 0
    assert what_asks(replace(lane("queued", 1, 1.0), due_in=other))[0].owners == 0


def test_what_comes_next_for_a_provider_is_a_trial_or_a_person() -> None:
    trial = {"open_until": NOW + 60_000}
    assert what_asks(breaker(10, gate=Gate.HALF_OPEN, **trial))[0].sentence.endswith("; it is being tried.")
    (forced,) = what_asks(breaker(10, forced=True, **trial))
    assert forced.sentence.endswith("; a person opened its breaker, and a person must close it.")
    assert what_asks(breaker(10, gate=Gate.CLOSED)) == []


@pytest.mark.parametrize(
    ("view", "severity"),
    [
        (lane("queued", 9, 300.0, "essays"), Severity.TICKET),
        (lane("queued", 9, 1_799.0, "essays"), Severity.TICKET),
        (lane("queued", 9, 1_800.0, "essays"), Severity.PAGE),
        (breaker(899.0), Severity.TICKET),
        (breaker(900.0), Severity.PAGE),
    ],
)
def test_from_which_moment_on_it_is_worse(view: Snapshot, severity: Severity) -> None:
    assert [notice.severity for notice in what_asks(view)] == [severity]


def test_waiting_is_unusual_from_five_times_the_usual_on_and_a_minute() -> None:
    assert what_asks(replace(lane("queued", 9, 499.0, "essays"), usual_age_s=100.0)) == []
    assert len(what_asks(replace(lane("queued", 9, 500.0, "essays"), usual_age_s=100.0))) == 1
    assert len(what_asks(replace(lane("queued", 9, 60.0, "essays"), usual_age_s=0.0))) == 1


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (lane("queued", 1, 119.0), "1 job is queued in 'essays', the oldest has been due for 119 s,"),
        (lane("queued", 2, 120.0), "due for 2 min,"),
        (lane("queued", 2, 7_199.0), "due for 120 min,"),
        (lane("queued", 2, 7_200.0), "due for 2 h,"),
        (replace(WELL, at_risk=AtRisk(1, NOW + 1)), "1 job has used three quarters of its time; the first misses its"),
        (replace(WELL, at_risk=AtRisk(2, NOW)), "2 jobs have used three quarters of their time; the first missed its"),
        (replace(WELL, effects=[("mail", "review", 1)]), "whether it happened."),
        (replace(WELL, pauses=[PauseView(PAUSE, 1)]), "1 job waits for it."),
    ],
)
def test_it_is_said_in_good_english(view: Snapshot, words: str) -> None:
    assert words in what_asks(view)[0].sentence


def test_a_paused_queue_is_not_without_a_worker_and_a_paused_kind_stops_no_queue() -> None:
    kind = PAUSE._replace(sort="kind")
    assert [each.topic for each in what_asks(replace(lane("queued", 9, 1.0), pauses=[PauseView(PAUSE, 9)]))] == [
        Topic.PAUSED
    ]
    both = what_asks(replace(lane("queued", 9, 1.0), pauses=[PauseView(kind, 9)]))
    assert [each.topic for each in both] == [Topic.NO_WORKER, Topic.PAUSED]
