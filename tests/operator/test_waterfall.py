"""A job's life as bars: every gap has its reason, and nothing of it is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.kernel.places import Deploy

from holdfast import App, CallError, Category, Context, Job, Provider, Retry, stage
from holdfast.core.family import JOIN_KEY
from holdfast.errors import NotAllowed
from holdfast.operator.desk import Desk
from holdfast.operator.story import answer_job, shape_bar, show_job
from holdfast.operator.waterfall import Bar, Call, EffectBar, JobEvent, draw_waterfall
from holdfast.system import OpenSystem, System

pytestmark = pytest.mark.spec("K17")
bank = Provider("bank")
app = App("shop")


@app.job()
class Pack(Job[dict[str, Any]]):
    @stage()
    async def wrap(self, ctx: Context, order: dict[str, Any]) -> str:
        return "wrapped"


@app.job()
class Sell(Job[dict[str, Any]]):
    @stage(provider=bank, retry=Retry(attempts=2, base_s=60, jitter="none"))
    async def charge(self, ctx: Context, order: dict[str, Any]) -> str:
        return await ctx.call(lambda: _charge(ctx.attempt))

    @stage()
    async def approve(self, ctx: Context, order: dict[str, Any]) -> str:
        answer = await ctx.wait_for("approval", timeout_s=900)
        return "no" if answer is None else str(answer.value["by"])

    @stage()
    async def pack(self, ctx: Context, order: dict[str, Any]) -> int:
        return len(await ctx.gather(Pack, [{"n": 1}, {"n": 2}]))


async def _charge(attempt: int) -> str:
    if attempt == 1:
        raise CallError.of(Category.UPSTREAM, "BANK_BROKEN", "The bank answered 500 to secret=hunter2222.", status=500)
    return "paid"


def event(seq: int, attempt: int, type: str, at: int, **data: Any) -> JobEvent:
    return JobEvent(seq, attempt, type, at, json.dumps(data) if data else None)


async def test_attempts_calls_and_gaps_stand_on_one_axis_and_a_person_answers(deploy: Deploy) -> None:
    world = await deploy(app)
    desk = Desk([OpenSystem(System("shop", "shop", "DATABASE_URL", lambda env: app), world.kernel, {})])
    job = await world.enqueue(Sell, {"order_id": 7})
    with pytest.raises(NotAllowed, match="only a job that waits for an answer"):
        await answer_job(desk, job, {}, "olga")
    await world.tick()
    world.clock.advance(60)
    await world.tick()
    story = await show_job(desk, job)
    bars = [(bar["what"], bar["title"], bar["tone"]) for bar in story["waterfall"]]
    assert bars == [
        ("attempt", "attempt 1: charge", "warn"),
        ("call", "bank", "warn"),
        ("gap", "pause before the next try", "warn"),
        ("attempt", "attempt 2: charge", "good"),
        ("call", "bank", ""),
        ("attempt", "attempt 3: approve", ""),
        ("gap", "waits for an answer", ""),
    ]
    failed, pause, waits = story["waterfall"][0], story["waterfall"][2], story["waterfall"][-1]
    assert failed["reason"].startswith("retried: BANK_BROKEN: The bank answered 500")
    assert "hunter2222" not in str(story["waterfall"])
    assert (pause["reason"], waits["reason"], waits["until"]) == ("after BANK_BROKEN", "approval", None)
    answered = await answer_job(desk, job, {"by": "ann"}, "olga")
    assert answered["delivered"] is True
    await world.run_until_idle()
    story = await show_job(desk, job)
    assert story["state"] == "succeeded"
    assert [entry["action"] for entry in story["audit"]] == ["job.answered"]
    assert [child["state"] for child in story["children"]] == ["succeeded", "succeeded"]
    assert (await show_job(desk, story["children"][0]["id"]))["parent"] == job


def test_a_gap_is_named_by_what_ended_before_it() -> None:
    events = [
        event(0, 0, "created", 0),
        event(1, 1, "claimed", 1_000),
        event(2, 1, "lost", 30_000, run_at=31_000),
        event(3, 1, "parked", 31_000),
        event(4, 2, "claimed", 60_000),
        event(5, 2, "buried", 61_000, error_class="BAD", message="no"),
        event(6, 2, "replayed", 90_000, stage="charge"),
        event(7, 3, "claimed", 95_000),
    ]
    call = Call("charge", 1, "bank", 1_500, 10, "ok", None, None, 0, None)
    bars = [bar for bar in draw_waterfall(events, [call], [], {}, "charge") if bar.what != "call"]
    assert [(bar.title, bar.since, bar.until) for bar in bars] == [
        ("waits for a worker", 0, 1_000),
        ("attempt 1: charge", 1_000, 30_000),
        ("worker lost", 30_000, 31_000),
        ("held", 31_000, 60_000),
        ("attempt 2: charge", 60_000, 61_000),
        ("dead letter", 61_000, 90_000),
        ("waits for a worker", 90_000, 95_000),
        ("attempt 3: charge", 95_000, None),
    ]


def test_the_reason_of_a_bar_is_redacted() -> None:
    assert "hunter2222" not in str(shape_bar(Bar("gap", "put off", 0, 1, reason="password=hunter2222")))


def test_an_effect_stands_in_the_attempt_that_sent_it_and_only_once() -> None:
    events = [event(1, 1, "claimed", 0), event(2, 1, "retried", 50, run_at=60), event(3, 2, "claimed", 60)]
    effect = EffectBar("shop:/mail/1", "notify", "post", "token", "sent", "m-1", 2, 10, 70, 80, None, None)
    call = Call("send", 2, "post", 70, 10, "ok", None, None, 0, None)
    bars = draw_waterfall(events, [call], [effect], {}, "send")
    assert [bar.what for bar in bars] == ["attempt", "gap", "attempt", "effect", "call"]
    assert (bars[3].since, bars[3].until, bars[3].reason) == (10, 80, "sent, 2 sends")


GAPS: list[tuple[str, dict[str, Any], tuple[str, str, str]]] = [
    ("created", {}, ("", "waits for a worker", "")),
    ("replayed", {"stage": "a"}, ("", "waits for a worker", "replayed")),
    ("advanced", {"stage": "b"}, ("", "waits for a worker", "")),
    ("resumed", {}, ("", "waits for a worker", "")),
    ("released", {}, ("", "waits for a worker", "the one before was stopping")),
    ("retried", {"error_class": "BAD"}, ("warn", "pause before the next try", "after BAD")),
    ("retried", {}, ("warn", "pause before the next try", "after a failure")),
    ("retried", {"note": "it asked for it"}, ("warn", "pause before the next try", "it asked for it")),
    ("parked", {}, ("warn", "held", "its provider's breaker is not closed, or its limit is reached")),
    ("held", {"note": "by a limit"}, ("warn", "held", "by a limit")),
    ("snoozed", {"note": "later"}, ("", "put off", "later")),
    ("lost", {}, ("warn", "worker lost", "the pause after a lost worker")),
    ("waiting", {"note": "approval"}, ("", "waits for an answer", "approval")),
    ("waiting", {"note": f"{JOIN_KEY}7"}, ("", "waits for its children", "")),
    ("buried", {}, ("error", "dead letter", "until a person replays it")),
    ("expired", {}, ("error", "dead letter", "until a person replays it")),
    ("taken_back", {}, ("error", "dead letter", "until a person replays it")),
]


@pytest.mark.parametrize(("type", "data", "expected"), GAPS)
def test_every_gap_has_its_tone_its_name_and_its_reason(
    type: str, data: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    (bar,) = draw_waterfall([event(1, 1, type, 5, **data)], [], [], {}, "s")
    assert bar == Bar("gap", expected[1], 5, None, expected[0], expected[2])


@pytest.mark.parametrize("type", ["succeeded", "cancelled"])
def test_after_the_end_there_is_no_gap(type: str) -> None:
    assert draw_waterfall([event(1, 1, type, 5)], [], [], {}, "s") == []


ENDS: list[tuple[str, dict[str, Any], str, str]] = [
    ("succeeded", {}, "good", "succeeded"),
    ("advanced", {}, "good", "advanced"),
    ("rewound", {}, "", "rewound"),
    ("snoozed", {"note": "later"}, "", "snoozed: later"),
    ("held", {}, "warn", "held"),
    ("retried", {"error_class": "BAD", "message": "no"}, "warn", "retried: BAD: no"),
    ("cancelled", {}, "warn", "cancelled"),
    ("expired", {"error_class": "LATE"}, "error", "expired: LATE: "),
    ("taken_back", {}, "error", "taken back"),
    ("waiting", {"note": "approval"}, "", "waits for an answer"),
    ("waiting", {"note": f"{JOIN_KEY}7"}, "", "waits for its children"),
]


@pytest.mark.parametrize(("type", "data", "tone", "reason"), ENDS)
def test_every_attempt_says_how_it_ended(type: str, data: dict[str, Any], tone: str, reason: str) -> None:
    drawn = draw_waterfall([event(1, 3, "claimed", 5), event(2, 3, type, 9, **data)], [], [], {3: "s"}, "s")
    assert drawn[0] == Bar("attempt", "attempt 3: s", 5, 9, tone, reason, 3)
    going_on = draw_waterfall([event(1, 3, "claimed", 5), event(2, 4, type, 9)], [], [], {3: "s"}, "s")[0]
    assert going_on == Bar("attempt", "attempt 3: s", 5, None, "", "under way", 3)


def test_a_pause_that_is_over_before_a_worker_comes_is_two_gaps() -> None:
    retried = event(1, 1, "retried", 10, run_at=20, error_class="BAD")
    bars = draw_waterfall([retried, event(2, 2, "claimed", 30)], [], [], {}, "s")[:2]
    assert [(bar.title, bar.since, bar.until) for bar in bars] == [
        ("pause before the next try", 10, 20),
        ("waits for a worker", 20, 30),
    ]
    assert bars[1].reason == "due, and no worker was free"
    for due in (10, 30, 40):
        events = [event(1, 1, "retried", 10, run_at=due), event(2, 2, "claimed", 30)]
        assert [(bar.since, bar.until) for bar in draw_waterfall(events, [], [], {}, "s")][:1] == [(10, 30)]
    assert (
        draw_waterfall([event(1, 0, "created", 10), event(2, 1, "claimed", 10)], [], [], {}, "s")[0].what == "attempt"
    )


@pytest.mark.parametrize("ends", ["cancelled", "expired", "parked", "resumed"])
def test_a_gap_lasts_until_the_job_moves_and_not_until_something_else_is_noted(ends: str) -> None:
    events = [event(1, 1, "retried", 10, error_class="BAD"), event(2, 1, "noted", 12), event(3, 1, ends, 17)]
    assert [(bar.since, bar.until) for bar in draw_waterfall(events, [], [], {}, "s")][:1] == [(10, 17)]


def test_calls_and_effects_say_what_came_of_them() -> None:
    call = Call("s", 1, "bank", 6, 3, "failed", 503, "UPSTREAM_503", 7, None)
    fine = call._replace(outcome="ok", status=None, error_class=None, started_at=5)
    bars = draw_waterfall([event(1, 1, "claimed", 5)], [call, fine, call._replace(attempt=2)], [], {}, "s")
    assert bars[1:] == [
        Bar("call", "bank", 5, 8, "", "ok", 1),
        Bar("call", "bank", 6, 9, "warn", "failed 503, UPSTREAM_503", 1),
    ]
    effect = EffectBar("k", "s", "post", "token", "sent", "m-1", 1, 10, 11, 12, None, None)
    drawn = [
        effect,
        effect._replace(key="f", status="failed", sends=2, marked_at=None),
        effect._replace(key="u", status="unknown", last_sent_at=None, marked_at=None),
        effect._replace(key="p", first_sent_at=None),
    ]
    assert draw_waterfall([], [], drawn, {}, "s") == [
        Bar("effect", "k", 10, 12, "good", "sent, 1 send"),
        Bar("effect", "f", 10, 11, "error", "failed, 2 sends"),
        Bar("effect", "u", 10, 10, "warn", "unknown, 1 send"),
    ]


def test_the_stage_of_an_attempt_is_known_by_what_led_to_it_its_result_or_its_neighbours() -> None:
    events = [
        *(event(1, 1, "claimed", 1), event(2, 1, "retried", 2), event(3, 2, "claimed", 3)),
        *(event(4, 2, "advanced", 4, stage="b"), event(5, 3, "claimed", 5), event(6, 3, "rewound", 6, stage="a")),
        *(event(7, 4, "claimed", 7), event(8, 4, "buried", 8), event(9, 4, "replayed", 9)),
        event(10, 5, "claimed", 10),
    ]
    titles = [bar.title for bar in draw_waterfall(events, [], [], {2: "a"}, "now") if bar.what == "attempt"]
    assert titles == [f"attempt {number}: {name}" for number, name in enumerate(["a", "a", "b", "a", "now"], 1)]
    nameless = draw_waterfall(events[:4], [], [], {}, "now")
    assert [bar.title for bar in nameless if bar.what == "attempt"] == ["attempt 1", "attempt 2"]
