"""Retries and stages, seen on the job's row: when it runs again, what a failure costs, what is never done twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from holdfast import App, CallError, Category, Context, Discard, Done, Job, Provider, Retry, Snooze, stage
from holdfast.errors import BadDeclaration, ProviderHeld, StoreUnavailable
from holdfast.testing import World
from holdfast.transports.seam import Queue
from tests.kernel.places import Deploy, rows

app = App("stages", queues=[Queue("told", sink=True)])
api = Provider("api")
ran: Counter[str] = Counter()
script: dict[str, list[Any]] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()
    script.clear()


def play(name: str) -> Any:
    """Raise or return what the test has laid out for this stage."""
    ran[name] += 1
    planned = script.get(name)
    answer = planned.pop(0) if planned else None
    if isinstance(answer, BaseException):
        raise answer
    return answer


@app.job(deadline_s=3_600)
class Pipeline(Job[str]):
    @stage(retry=Retry(attempts=3, base_s=10, jitter="none", ceiling_s=300))
    async def fetch(self, ctx: Context, text: str) -> str:
        return play("fetch") or "page"

    @stage(retry=Retry(attempts=2, base_s=5, jitter="none"))
    async def digest(self, ctx: Context, text: str, fetch: str) -> dict[str, int] | None:
        return play("digest") or {"letters": len(fetch)}

    @stage(provider=api, retry=Retry(attempts=2, base_s=1, jitter="none", ceiling_s=300))
    async def send(self, ctx: Context, text: str, fetch: str, digest: dict[str, int]) -> str:
        return await ctx.call(lambda: as_called(fetch, digest))


async def as_called(fetch: str, digest: dict[str, int]) -> str:
    return play("send") or f"{fetch}:{digest['letters']}"


def network(**more: Any) -> CallError:
    return CallError.of(Category.NETWORK, "NETWORK_BROKEN", "the line broke", **more)


@pytest.mark.spec("K4", "001.9")
async def test_a_retry_is_the_row_with_a_later_time_and_one_failure_more(deploy: Deploy) -> None:
    world = await deploy(app)
    script["fetch"] = [network(), network()]
    job_id = await world.enqueue(Pipeline, "x")
    await world.work()
    row = await world.job(job_id)
    now = world.clock.now_ms()
    assert (row["state"], row["failures"], row["run_at"]) == ("queued", 1, now + 10_000)
    assert (row["lease_owner"], row["last_attempt_at"], row["first_failure_at"]) == (None, now, now)
    assert row["not_before"] is None and json.loads(row["error"])["error_class"] == "NETWORK_BROKEN"
    await world.work()
    assert ran["fetch"] == 1, "not before its time"
    world.clock.advance(10)
    await world.work()
    row = await world.job(job_id)
    assert (row["failures"], row["run_at"]) == (2, world.clock.now_ms() + 20_000)
    assert row["first_failure_at"] == now


@pytest.mark.spec("K4")
async def test_retry_after_lengthens_the_wait_up_to_the_ceiling(deploy: Deploy) -> None:
    world = await deploy(app)
    script["fetch"] = [network(retry_after_ms=40_000), network(retry_after_ms=9_999_000)]
    job_id = await world.enqueue(Pipeline, "x")
    await world.work()
    row = await world.job(job_id)
    assert row["run_at"] == row["not_before"] == world.clock.now_ms() + 40_000
    world.clock.advance(40)
    await world.work()
    row = await world.job(job_id)
    assert row["run_at"] == row["not_before"] == world.clock.now_ms() + 300_000


@pytest.mark.spec("K4", "004.3")
async def test_jitter_is_drawn_afresh_for_each_attempt(deploy: Deploy) -> None:
    dicey = App("dicey")

    @dicey.job()
    class Jittered(Job[int]):
        @stage(retry=Retry(attempts=2, base_s=60, jitter="full"))
        async def run(self, ctx: Context, number: int) -> None:
            raise network()

    world = await deploy(dicey)
    for number in range(12):
        await world.enqueue(Jittered, number)
    await world.work()
    found = await rows(world.kernel.store, "SELECT DISTINCT run_at FROM holdfast_jobs")
    now = world.clock.now_ms()
    assert len(found) == 12 and all(now <= row["run_at"] <= now + 60_000 for row in found)


@pytest.mark.spec("K4", "K5")
@pytest.mark.parametrize(
    "error, error_class, calls",
    [
        (CallError.of(Category.VALIDATION, "UPSTREAM_UNPROCESSABLE", "no"), "UPSTREAM_UNPROCESSABLE", 1),
        (CallError.of(Category.AUTH, "AUTH_INVALID", "no"), "AUTH_INVALID", 1),
        (CallError.from_status(429, "no money", {}, now_ms=0, code="insufficient_quota"), "QUOTA_EXHAUSTED", 1),
        (BadDeclaration("no provider"), "USAGE_ERROR", 1),
        (ZeroDivisionError("a bug"), "BUG", 3),
        (CallError.of(Category.CONFLICT, "UPSTREAM_CONFLICT", "busy"), "UPSTREAM_CONFLICT", 3),
        (CallError.from_status(503, "down", {}, now_ms=0), "UPSTREAM_UNAVAILABLE", 3),
        (ConnectionResetError("gone"), "NETWORK_BROKEN", 3),
        (TimeoutError(), "NETWORK_TIMEOUT", 3),
    ],
)
async def test_a_failure_is_retried_only_if_its_class_says_so(
    deploy: Deploy, error: Exception, error_class: str, calls: int
) -> None:
    world = await deploy(app)
    script["fetch"] = [error] * 9
    job_id = await world.enqueue(Pipeline, "x")
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    assert (letter["job_id"], letter["error_class"], ran["fetch"]) == (job_id, error_class, calls)
    assert letter["failure_reason"] == ("permanent" if calls == 1 else "exhausted")
    assert letter["attempts_made"] == calls


@pytest.mark.spec("K5", "004.5")
async def test_a_failure_that_turns_permanent_stops_at_once(deploy: Deploy) -> None:
    world = await deploy(app)
    script["fetch"] = [network(), CallError.of(Category.NOT_FOUND, "UPSTREAM_NOT_FOUND", "gone")]
    await world.enqueue(Pipeline, "x")
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    assert (letter["error_class"], letter["attempts_made"], ran["fetch"]) == ("UPSTREAM_NOT_FOUND", 2, 2)


@pytest.mark.spec("K6")
async def test_a_failure_in_one_stage_costs_another_nothing(deploy: Deploy) -> None:
    world = await deploy(app)
    script["fetch"] = [network(), network()]
    script["digest"] = [network()]
    script["send"] = [network()]
    job_id = await world.enqueue(Pipeline, "x")
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded"
    assert ran == {"fetch": 3, "digest": 2, "send": 2}
    assert (await world.results(job_id))["send"] == '"page:4"'


@pytest.mark.spec("K6")
@pytest.mark.parametrize("failpoint", ["settle.before_commit", "settle.after_commit", "claim.after_commit"])
@pytest.mark.parametrize("visit", [1, 2, 3])
async def test_a_finished_stage_never_runs_again_whatever_dies(deploy: Deploy, failpoint: str, visit: int) -> None:
    world = await deploy(app)
    world.crash_at(failpoint, visit=visit)
    job_id = await world.enqueue(Pipeline, "x")
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded"
    runs = [entry for entry in await world.events(job_id) if entry == "advanced"]
    assert len(runs) == 2, "each stage is finished once"
    crashed_before_commit = failpoint == "settle.before_commit" and world.crashes
    assert sum(ran.values()) == (4 if crashed_before_commit else 3)


@pytest.mark.spec("K6", "K8", "004.15")
async def test_a_replay_starts_at_the_failed_stage_with_a_fresh_budget(deploy: Deploy) -> None:
    world = await deploy(app)
    script["send"] = [network(), network()]
    job_id = await world.enqueue(Pipeline, "x")
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    assert letter["stage"] == "send"
    script["send"] = [network()]
    await world.mend_and_replay(letter["id"])
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and ran == {"fetch": 1, "digest": 1, "send": 4}
    assert (await world.job(job_id))["epoch"] == 1


@pytest.mark.spec("K4", "K14")
async def test_a_retry_that_would_pass_the_deadline_is_not_waited_for(deploy: Deploy) -> None:
    world = await deploy(app)
    script["fetch"] = [network()]
    exact = await world.enqueue(Pipeline, "x", deadline_s=10)
    await world.work()
    assert await world.state(exact) == "queued", "due at the very deadline is in time"
    script["fetch"] = [network()]
    short = await world.enqueue(Pipeline, "x", deadline_s=9.999)
    await world.work()
    assert await world.state(short) == "dead"
    (letter,) = await world.dead_letters()
    assert (letter["failure_reason"], letter["error_class"]) == ("no_time", "NETWORK_BROKEN")


@pytest.mark.spec("K6")
async def test_a_stage_that_takes_too_long_is_stopped_and_retried(deploy: Deploy) -> None:
    slow = App("slow")

    @slow.job()
    class Slow(Job[str]):
        @stage(timeout_s=0.02, retry=Retry(attempts=2, base_s=0, jitter="none"))
        async def hang(self, ctx: Context, text: str) -> None:
            await asyncio.Event().wait()

    world = await deploy(slow)
    await world.enqueue(Slow, "x")
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    assert (letter["error_class"], letter["attempts_made"]) == ("STAGE_TIMEOUT", 2)
    assert "0.02 s" in letter["last_error"]


def answers() -> tuple[App, type[Job[str]]]:
    made = App("answers", queues=[Queue("told", sink=True)])

    @made.job()
    class Answering(Job[str]):
        @stage(retry=Retry(attempts=2, base_s=1, jitter="none"))
        async def one(self, ctx: Context, text: str) -> Any:
            ctx.emit("told", {"try": ctx.attempt})
            return play("one")

        @stage()
        async def two(self, ctx: Context, text: str) -> str:
            return play("two") or "two"

    return made, Answering


async def answered(deploy: Deploy, *planned: Any) -> tuple[World, str]:
    made, job = answers()
    world = await deploy(made)
    script["one"] = list(planned)
    return world, await world.enqueue(job, "x")


@pytest.mark.spec("K6")
async def test_done_ends_the_job_and_skips_what_would_follow(deploy: Deploy) -> None:
    world, job_id = await answered(deploy, Done({"early": True}))
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and ran == {"one": 1}
    assert await world.results(job_id) == {"one": '{"early":true}'}


@pytest.mark.spec("K6")
async def test_a_snooze_costs_nothing_of_the_budget(deploy: Deploy) -> None:
    world, job_id = await answered(deploy, *[Snooze(5, "not yet")] * 6)
    await world.work()
    row = await world.job(job_id)
    assert (row["failures"], row["run_at"]) == (0, world.clock.now_ms() + 5_000)
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and ran["one"] == 7


@pytest.mark.spec("K5", "K7")
async def test_a_discard_is_a_dead_letter_at_once(deploy: Deploy) -> None:
    world, _ = await answered(deploy, Discard("not ours", "NOT_OURS"))
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    assert (letter["error_class"], letter["failure_reason"], ran["one"]) == ("NOT_OURS", "discarded", 1)


@pytest.mark.spec("K6")
async def test_a_result_that_does_not_fit_its_annotation_is_a_dead_letter(deploy: Deploy) -> None:
    world = await deploy(app)
    script["digest"] = [{"letters": "many"}]
    await world.enqueue(Pipeline, "x")
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    assert (letter["error_class"], letter["stage"]) == ("RESULT_INVALID", "digest")


@pytest.mark.spec("K1", "K10")
async def test_a_failed_attempt_publishes_nothing(deploy: Deploy) -> None:
    world, job_id = await answered(deploy, network())
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded"
    found = await rows(world.kernel.store, "SELECT payload, status FROM holdfast_outbox")
    assert found == [{"payload": '{"try":2}', "status": "published"}]


@pytest.mark.spec("K4", "K19")
async def test_a_database_that_is_away_during_a_handler_costs_the_job_nothing(deploy: Deploy) -> None:
    world, job_id = await answered(deploy, *[StoreUnavailable("gone")] * 3)
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and ran["one"] == 4


@pytest.mark.spec("K5")
async def test_a_handler_that_cancels_itself_fails_like_any_other(deploy: Deploy) -> None:
    world, _ = await answered(deploy, asyncio.CancelledError(), asyncio.CancelledError())
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    assert letter["error_class"] == "BUG"


@pytest.mark.spec("K13")
async def test_progress_is_noted_once_in_a_stage_and_epoch_however_often_it_is_tried(deploy: Deploy) -> None:
    """A held attempt told its progress again."""
    app, first = App("told"), list[bool]()

    @app.job()
    class Told(Job[str]):
        @stage(retry=Retry(attempts=1))
        async def run(self, ctx: Context, name: str) -> str:
            async with ctx.transaction() as tx:
                first.append(await ctx.note_progress(tx, status="HALF", share=0.5))
            if len(first) < 4:
                raise ProviderHeld("somebody", "busy", ctx.now() + 1_000)
            raise ValueError("dead")

    world = await deploy(app)
    job_id = await world.enqueue(Told, "ann")
    await world.run_until_idle()
    assert first == [True, False, False, False] and await world.state(job_id) == "dead"
    (letter,) = await world.dead_letters()
    await world.mend_and_replay(letter["id"])
    await world.run_until_idle()
    assert first[4:] == [True], "a replay is a new epoch"
    assert (await world.events(job_id)).count("progress") == 2
