"""Calls that cost money: one key on the wire, one answer kept, no second charge for anything that goes wrong here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import App, CallError, Category, Context, Cost, Job, Provider, Retry, stage
from holdfast.errors import StoreUnavailable
from holdfast.kernel import record as recording
from holdfast.kernel.attempt import run_attempt
from holdfast.kernel.ledger import paid
from holdfast.kernel.reap import reap_once
from holdfast.kernel.turn import turn
from holdfast.tables.answers import RunId
from holdfast.testing import World
from tests.kernel.places import Deploy, rows

PATIENT = Retry(attempts=5, base_s=1, jitter="none")


@dataclass(frozen=True)
class Said:
    words: str
    tokens: int


class Model:
    """A provider that charges for each answer; one that honours keys charges once a key."""

    def __init__(self, *, honours: bool = True, runs: int = 2) -> None:
        self.calls: list[str] = []
        self.charged: dict[str, int] = {}
        self.honours = honours
        self.fails: list[CallError | None] = []
        self.provider = Provider("model", timeout_s=10)
        self.app = App("essay")
        self.handler_fails = 0
        self.price: Callable[[Said], Any] = lambda said: Cost(micros=said.tokens)
        model = self

        @self.app.job(name="essay.grade")
        class Grade(Job[str]):
            @stage(provider=model.provider, retry=PATIENT)
            async def grade(self, ctx: Context, text: str) -> list[str]:
                found = []
                for _ in range(runs):
                    said = await ctx.paid_call(
                        lambda key: model.ask(key, text), answer=Said, cost=lambda said: model.price(said)
                    )
                    found.append(said.words)
                if model.handler_fails > 0:
                    model.handler_fails -= 1
                    raise CallError.of(Category.NETWORK, "LATER", "something else went wrong")
                return found

            @stage()
            async def close(self, ctx: Context, text: str, grade: list[str]) -> str:
                return "/".join(grade)

        self.job = Grade

    async def ask(self, key: str, text: str) -> Said:
        self.calls.append(key)
        error = self.fails.pop(0) if self.fails else None
        if error is not None and not error.failure.ambiguous:
            raise error
        if not (self.honours and key in self.charged):
            self.charged[key] = self.charged.get(key, 0) + 1
        if error is not None:
            raise error
        return Said(f"about {text}", 7)

    @property
    def charges(self) -> int:
        return sum(self.charged.values())


async def started(deploy: Deploy, model: Model) -> tuple[World, str]:
    world = await deploy(model.app)
    return world, await world.enqueue(model.job, "text")


async def kept(world: World) -> list[dict[str, Any]]:
    return await rows(world.kernel.store, "SELECT run, tries, value FROM holdfast_answers ORDER BY run")


AFTER_THE_ANSWER = ["call.after", "breaker.before_commit", "paid.after_record", "attempt.after_handler"]
AFTER_THE_ANSWER += ["settle.before_commit", "settle.after_commit"]


@pytest.mark.spec("K18")
@pytest.mark.parametrize("visit", [1, 2])
@pytest.mark.parametrize("failpoint", AFTER_THE_ANSWER)
async def test_a_crash_anywhere_costs_nothing_with_a_provider_that_honours_the_key(
    deploy: Deploy, failpoint: str, visit: int
) -> None:
    model = Model()
    world, job_id = await started(deploy, model)
    world.crash_at(failpoint, visit=visit)
    await world.run_until_idle()
    assert world.crashes == 1 and await world.state(job_id) == "succeeded"
    assert model.charges == 2 and len(set(model.calls)) == 2, "two runs, two keys, whoever asked"
    assert await kept(world) == [], "what was answered goes with the stage's result"


@pytest.mark.spec("K18")
@pytest.mark.parametrize("failpoint", AFTER_THE_ANSWER[2:])
async def test_once_kept_an_answer_is_never_asked_for_again(deploy: Deploy, failpoint: str) -> None:
    model = Model(honours=False)
    world, job_id = await started(deploy, model)
    world.crash_at(failpoint)
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and len(model.calls) == model.charges == 2


@pytest.mark.spec("K18", "K7")
async def test_a_retry_reads_what_was_paid_for_and_the_accounts_show_it_once(deploy: Deploy) -> None:
    model = Model(honours=False)
    model.handler_fails = 2
    world, job_id = await started(deploy, model)
    await world.work()
    assert [row["run"] for row in await kept(world)] == ["#1", "#2"]
    assert json.loads((await kept(world))[0]["value"]) == {"words": "about text", "tokens": 7}
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and model.charges == 2
    (spent,) = await rows(
        world.kernel.store, "SELECT COUNT(*) AS calls, SUM(cost_micros) AS micros FROM holdfast_calls"
    )
    assert (spent["calls"], spent["micros"]) == (2, 14)


WRONG_PRICES: list[Callable[[Said], Any]] = [
    lambda said: {}["usage"],
    lambda said: 5,
    lambda said: Cost(micros=float("nan")),  # type: ignore[arg-type]
    lambda said: Cost(micros=12.5),  # type: ignore[arg-type]
    lambda said: Cost(micros=10**30),
    lambda said: Cost(units={"tokens": float("inf")}),  # type: ignore[dict-item]
]


@pytest.mark.spec("K18", "K30")
@pytest.mark.parametrize("price", WRONG_PRICES, ids=["raises", "number", "nan", "float", "huge", "unit"])
async def test_a_price_that_is_none_loses_no_answer_and_holds_up_nobody(
    deploy: Deploy, price: Callable[[Said], Any]
) -> None:
    model = Model(runs=1, honours=False)
    world, job_id = await started(deploy, model)
    model.price = price
    await world.work()
    assert model.charges == len(await kept(world)) == 1
    model.price = lambda said: Cost(micros=7)
    other_id = await world.enqueue(model.job, "another")
    await world.run_until_idle()
    assert await world.state(other_id) == "succeeded" and not world.kernel.unrecorded
    letters = await world.dead_letters()
    for letter in letters:
        assert (letter["error_class"], letter["attempts_made"]) == ("USAGE_ERROR", 1)
        await world.mend_and_replay(letter["id"])
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded"
    assert model.charges == 2 + len(letters), "a retry reads the answer, a person's replay asks anew"


@pytest.mark.spec("K18")
async def test_a_doubt_is_asked_again_under_the_same_key_and_a_bad_answer_under_another(deploy: Deploy) -> None:
    lost = CallError.of(Category.NETWORK, "NETWORK_TIMEOUT", "no answer", ambiguous=True)
    useless = CallError.of(Category.UPSTREAM, "MALFORMED_ANSWER", "not JSON")
    model = Model(runs=1)
    model.fails = [lost, CallError.of(Category.NETWORK, "NETWORK_UNREACHABLE", "no connection"), useless, None]
    world, job_id = await started(deploy, model)
    await world.run_until_idle()
    first, unreachable, again, other = model.calls
    assert await world.state(job_id) == "succeeded" and first == unreachable == again != other


@pytest.mark.spec("K18")
async def test_keys_are_golden_and_hold_no_attempt() -> None:
    run = RunId("01890a5d-ac96-774b-bcce-b302099a8057", "grade", 0, "#1")
    assert paid.paid_key("essay", run, 0) == "515e0a2c5c5bca923acf151abf46a005e4cbb593"
    others = [run._replace(run="#2"), run._replace(epoch=1), run._replace(stage="x"), run._replace(job_id="y")]
    keys = {paid.paid_key("essay", each, 0) for each in (run, *others)} | {paid.paid_key("other", run, 0)}
    assert len(keys | {paid.paid_key("essay", run, 1)}) == 7


@pytest.mark.spec("K18")
async def test_a_replay_pays_anew_only_for_a_stage_without_a_result(deploy: Deploy) -> None:
    model = Model(honours=False)
    world, job_id = await started(deploy, model)
    model.handler_fails = 9
    await world.run_until_idle()
    assert await world.state(job_id) == "dead" and model.charges == 2
    assert len(await kept(world)) == 2, "a dead job keeps what its stage had found out, for its history"
    model.handler_fails = 0
    (letter,) = await world.dead_letters()
    await world.mend_and_replay(letter["id"])
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and model.charges == 4 and len(set(model.calls)) == 4


@pytest.mark.spec("K18", "K16")
async def test_an_answer_outlives_a_database_that_is_away(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(honours=False, runs=1)
    world, job_id = await started(deploy, model)
    intact, away = recording.record, [True] * 3

    async def record(kernel: Any, report: Any) -> bool:
        if away:
            away.pop()
            raise StoreUnavailable("gone")
        return await intact(kernel, report)

    monkeypatch.setattr(paid, "record", record)
    monkeypatch.setattr(paid, "WRITE_AGAIN_S", (0.0,) * 9)
    await world.work()
    assert await world.state(job_id) == "succeeded" and model.charges == 1
    assert "snoozed" not in await world.events(job_id) and not world.kernel.unwritten


@pytest.mark.spec("K18")
async def test_an_answer_whose_commit_was_in_doubt_is_there_once(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(honours=False, runs=1)
    world, job_id = await started(deploy, model)
    intact, lost = recording.record, [True]

    async def record(kernel: Any, report: Any) -> bool:
        done = await intact(kernel, report)
        if lost:
            lost.pop()
            raise StoreUnavailable("the answer of the commit was lost")
        return done

    monkeypatch.setattr(paid, "record", record)
    monkeypatch.setattr(paid, "WRITE_AGAIN_S", (0.0,) * 9)
    await world.work()
    assert await world.state(job_id) == "succeeded" and model.charges == 1
    assert len(await rows(world.kernel.store, "SELECT id FROM holdfast_calls")) == 1


@pytest.mark.spec("K18")
async def test_whoever_is_cancelled_leaves_the_answer_to_the_next(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is lost while the database is away: the writing goes on, and the next attempt reads."""
    model = Model(honours=False, runs=1)
    world, job_id = await started(deploy, model)
    intact, arrived, back = recording.record, asyncio.Event(), asyncio.Event()

    async def record(kernel: Any, report: Any) -> bool:
        arrived.set()
        await back.wait()
        return await intact(kernel, report)

    monkeypatch.setattr(paid, "record", record)
    (taken,), _ = await turn(world.kernel, "w1", world.kernel.registry.queues, [], 1)
    attempt = asyncio.create_task(run_attempt(world.kernel, taken))
    await arrived.wait()
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert len(world.kernel.unwritten) == 1
    world.clock.advance(61)
    await reap_once(world.kernel)
    world.clock.advance(300)
    (taken,), _ = await turn(world.kernel, "w2", world.kernel.registry.queues, [], 1)
    again = asyncio.create_task(run_attempt(world.kernel, taken))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not again.done(), "what is only in memory is not used"
    back.set()
    outcome = await again
    assert len(await kept(world)) == 1 and not world.kernel.unwritten
    assert outcome is not None
    await turn(world.kernel, "w2", world.kernel.registry.queues, [outcome], 0)
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and model.charges == 1


@pytest.mark.spec("K18")
@pytest.mark.parametrize("answer, word", [("x" * 5_000_000, "5,000,002 bytes"), (7, "does not fit")])
async def test_an_answer_that_cannot_be_kept_is_not_paid_for_again(deploy: Deploy, answer: Any, word: str) -> None:
    app, asked = App("big"), list[str]()

    async def ask(key: str) -> Any:
        asked.append(key)
        return answer

    @app.job()
    class Big(Job[str]):
        @stage(provider=Provider("model"))
        async def run(self, ctx: Context, text: str) -> str:
            return await ctx.paid_call(ask, answer=str)

    world = await deploy(app)
    job_id = await world.enqueue(Big, "text")
    await world.run_until_idle()
    error = json.loads((await world.job(job_id))["error"])
    assert await world.state(job_id) == "dead" and len(asked) == 1
    assert error["error_class"] == "ANSWER_NOT_KEPT" and word in error["message"]
