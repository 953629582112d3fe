"""A job's life as bars: every gap has its reason, and nothing of it is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.kernel.places import Deploy

from holdfast import App, CallError, Category, Context, Job, Provider, Retry, stage
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
