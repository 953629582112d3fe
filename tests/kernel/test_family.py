"""Children, joins, checkpoints and waits: rows, so that no crash, replay or early answer makes them differ."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import Answered, App, Context, Discard, Failure, Job, Retry, Success, SyncContext, Wait, stage
from holdfast.core.family import child_id
from holdfast.errors import InvalidInput, LeaseLost
from holdfast.kernel import operate
from holdfast.kernel.compose.waiting import answer
from holdfast.kernel.compose.wake import wake_once
from holdfast.testing import World
from tests.kernel.places import Deploy, rows

app = App("family")
runs: list[str] = []
found: list[Any] = []
attempts: list[Context] = []


@pytest.fixture(autouse=True)
def clean() -> None:
    runs.clear()
    found.clear()
    attempts.clear()


@app.job()
class Child(Job[int]):
    @stage()
    async def work(self, ctx: Context, number: int) -> int | Discard:
        runs.append(f"child {number}")
        return Discard("it is odd") if number % 2 else number * 10


@app.job()
class Parent(Job[int]):
    @stage()
    async def fan_out(self, ctx: Context, size: int) -> int:
        runs.append("parent")
        outcomes = await ctx.gather(Child, range(size))
        found.append(outcomes)
        return sum(one.value for one in outcomes if isinstance(one, Success))


@app.job()
class EvenParent(Job[int]):
    @stage()
    async def fan_out(self, ctx: Context, size: int) -> None:
        found.append(await ctx.gather(Child, range(0, 2 * size, 2)))


@app.job()
class Stalled(Job[int]):
    @stage()
    async def fan_out(self, ctx: Context, size: int) -> None:
        attempts.append(ctx)
        found.append(await ctx.gather(Child, range(0, 2 * size, 2)))


@app.job()
class SyncParent(Job[int]):
    @stage()
    def fan_out(self, ctx: SyncContext, size: int) -> int:
        base = ctx.checkpoint("base", lambda: 100)
        return sum((one.value for one in ctx.gather(Child, range(0, size * 2, 2)) if isinstance(one, Success)), base)


@app.job()
class Loose(Job[int]):
    @stage()
    async def go(self, ctx: Context, number: int) -> str:
        child = await ctx.spawn(Child, number, delay_s=3_600)
        if number == 7 and ctx.attempt == 1:
            raise OSError("again")
        return child if number else str(await ctx.wait_for("never", timeout_s=86_400))


@app.job()
class Asks(Job[str]):
    @stage()
    async def ask(self, ctx: Context, key: str) -> Any:
        runs.append("asked")
        reply = await ctx.wait_for(key, timeout_s=600)
        found.append(reply)
        return None if reply is None else reply.value

    @stage()
    async def then(self, ctx: Context, key: str, ask: Any) -> Any:
        return ask


@app.job()
class Waits(Job[str]):
    @stage()
    async def ask(self, ctx: Context, key: str) -> Wait:
        return Wait(key, within_s=600)


@app.job()
class Careful(Job[int]):
    @stage()
    async def loop(self, ctx: Context, size: int) -> list[int]:
        done = []
        for number in range(size):

            async def pay(number: int = number) -> int:
                runs.append(f"paid {number}")
                return number * 2

            done.append(await ctx.checkpoint(f"page {number}", pay))
            if ctx.failures < number:
                raise OSError("in the middle")
        return done


async def counts(world: World) -> list[dict[str, Any]]:
    return await rows(world.kernel.store, "SELECT state, size, unended FROM holdfast_joins")


@pytest.mark.spec("K24")
async def test_a_parent_waits_without_a_worker_and_has_results_and_failures_as_values(deploy: Deploy) -> None:
    world = await deploy(app)
    job = await world.enqueue(Parent, 4)
    await world.work()
    assert await world.state(job) == "waiting", "nobody works on it while its children do"
    assert (await world.client.status(job)).why.startswith("It waits for its children: ")
    await world.run_until_idle()
    assert await world.state(job) == "succeeded" and (await world.results(job))["fan_out"] == "20"
    (outcomes,) = found
    assert [outcomes[0], outcomes[2]] == [Success(0), Success(20)]
    assert isinstance(outcomes[1], Failure) and (outcomes[1].error_class, outcomes[1].message) == (
        "DISCARDED",
        "it is odd",
    )
    assert (await world.events(job)).count("resumed") == 1, "it is woken once"
    assert sorted(runs) == ["child 0", "child 1", "child 2", "child 3", "parent", "parent"]
    assert await counts(world) == [{"state": "joined", "size": 4, "unended": 0}]


@pytest.mark.spec("K24")
@pytest.mark.parametrize("place_of_death", ["spawn.before_commit", "spawn.after_commit", "wake.before_commit"])
async def test_no_crash_spawns_twice_or_forgets_to_wake(deploy: Deploy, place_of_death: str) -> None:
    world = await deploy(app)
    job = await world.enqueue(Parent, 3)
    world.crash_at(place_of_death)
    await world.run_until_idle()
    assert world.crashes == 1 and await world.state(job) == "succeeded"
    assert sorted(one for one in runs if one != "parent") == ["child 0", "child 1", "child 2"]


@pytest.mark.spec("K24", "K3")
async def test_an_attempt_that_holds_its_job_no_more_takes_no_join(deploy: Deploy) -> None:
    """One that stood still while the children ended: the attempt that waits for them is woken by what is sealed."""
    world = await deploy(app)
    job = await world.enqueue(Stalled, 2)
    for _ in range(2):
        await world.work()
    assert await counts(world) == [{"state": "sealed", "size": 2, "unended": 0}] and len(attempts) == 1
    attempts[0].numbers.clear()
    with pytest.raises(LeaseLost):
        await attempts[0].gather(Child, range(0, 4, 2))
    assert await counts(world) == [{"state": "sealed", "size": 2, "unended": 0}]
    await world.run_until_idle()
    assert await world.state(job) == "succeeded" and found == [[Success(0), Success(20)]]


@pytest.mark.slow
@pytest.mark.spec("K24")
async def test_thousands_of_children_are_written_in_bulk_and_wake_their_parent_flatly(deploy: Deploy) -> None:
    """A join is one row, whatever its size; that of none ends at once."""
    world = await deploy(app)
    many, none = await world.enqueue(EvenParent, 1_200), await world.enqueue(EvenParent, 0)
    await world.work()
    assert await world.state(none) == "succeeded"
    await world.run_until_idle()
    assert await world.state(many) == "succeeded" and found[-1] == [Success(20 * n) for n in range(1_200)]
    assert (await world.events(many)).count("resumed") == 1


@pytest.mark.spec("K24")
async def test_a_plain_def_may_gather_and_keep_too(deploy: Deploy) -> None:
    world = await deploy(app)
    job = await world.enqueue(SyncParent, 3)
    await world.run_until_idle()
    assert (await world.results(job))["fan_out"] == "160"


@pytest.mark.spec("K24")
async def test_cancelling_a_parent_reaches_down_and_its_deadline_too(deploy: Deploy) -> None:
    world = await deploy(app)
    job = await world.enqueue(Loose, 0)
    hasty = await world.enqueue(Parent, 2, deadline_s=50)
    await world.work()
    (loose,) = await rows(
        world.kernel.store,
        "SELECT CAST(id AS TEXT) AS id FROM holdfast_jobs WHERE state = 'queued' AND run_at > 1767227000000",
    )
    await operate.cancel(world.kernel, job, "ann")
    while await wake_once(world.kernel):
        pass
    assert await world.state(loose["id"]) == "cancelled"
    data = await rows(world.kernel.store, "SELECT data FROM holdfast_job_events WHERE type = 'cancelled' ORDER BY seq")
    assert [json.loads(one["data"])["note"] for one in data] == ["by ann", "by its parent"]
    deadlines = await rows(
        world.kernel.store,
        "SELECT DISTINCT deadline_at FROM holdfast_jobs WHERE kind = 'family.child' AND deadline_at IS NOT NULL",
    )
    assert deadlines == [{"deadline_at": (await world.job(hasty))["deadline_at"]}]


@pytest.mark.spec("K24")
async def test_a_child_that_is_spawned_is_spawned_once_and_outlives_its_parent(deploy: Deploy) -> None:
    world = await deploy(app)
    job = await world.enqueue(Loose, 7)
    await world.run_until_idle(limit_s=3_000_000)
    child = json.loads((await world.results(job))["go"])
    assert await world.state(child) == "dead" and runs == ["child 7"], (
        "an odd child dies of it; the parent does not care"
    )


@pytest.mark.spec("K24")
async def test_an_answer_may_come_first_later_or_never(deploy: Deploy) -> None:
    world = await deploy(app)
    assert not await answer(world.kernel, "early", '{"yes": 1}'), "nobody waits yet: it is kept"
    early, late, never = [await world.enqueue(Asks, key) for key in ("early", "late", "never")]
    await world.work()
    assert await world.state(early) == "succeeded" and await world.state(late) == "waiting"
    assert await answer(world.kernel, "late", "[1, 2]", message_id="m1")
    assert await answer(world.kernel, "late", "[1, 2]", message_id="m1"), "the same message again: a job has it"
    assert await rows(world.kernel.store, "SELECT key FROM holdfast_callbacks") == [], "and it changes nothing"
    await world.run_until_idle()
    assert [(await world.results(job)).get("then") for job in (early, late, never)] == ['{"yes":1}', "[1,2]", None]
    assert found[-1] is None and await world.state(never) == "succeeded", "a time that is over is a value"
    assert Answered([1, 2]) in found
    assert await rows(world.kernel.store, "SELECT key FROM holdfast_callbacks") == []
    assert await rows(world.kernel.store, "SELECT run FROM holdfast_answers") == [], "what was kept goes with the stage"


@pytest.mark.spec("K24")
@pytest.mark.parametrize("place_of_death", ["checkpoint.before_commit", "wake.before_commit", "settle.after_commit"])
async def test_no_crash_loses_an_answer(deploy: Deploy, place_of_death: str) -> None:
    world = await deploy(app)
    await answer(world.kernel, "early", "1")
    jobs = [await world.enqueue(Asks, "early"), await world.enqueue(Waits, "other")]
    world.crash_at(place_of_death)
    await world.tick()
    await world._as_a_process(answer(world.kernel, "other", '"it is so"'))
    await world.run_until_idle()
    assert [await world.state(job) for job in jobs] == ["succeeded", "succeeded"]
    assert (await world.results(jobs[0]))["ask"] == "1" and (await world.results(jobs[1]))["ask"] == '"it is so"'


@pytest.mark.spec("K24")
async def test_a_checkpoint_is_found_again_and_nothing_is_paid_twice(deploy: Deploy) -> None:
    world = await deploy(app)
    job = await world.enqueue(Careful, 4)
    world.crash_at("checkpoint.after_commit", visit=2)
    await world.run_until_idle()
    assert (await world.results(job))["loop"] == "[0,2,4,6]"
    assert runs == ["paid 0", "paid 1", "paid 2", "paid 3"]


@dataclass(frozen=True)
class Leaf:
    number: int


@app.job()
class Odd(Job[str]):
    """Keeps what JSON does not give back as it was, with and without its type."""

    @stage(retry=Retry(attempts=1))
    async def keep(self, ctx: Context, how: str) -> bool:
        typed = await ctx.checkpoint("typed", lambda: Leaf(1), returns=Leaf)
        plain = await ctx.checkpoint("plain", lambda: {"a": [1, None, 0.5]})
        value: object = {"leaf": Leaf(2), "tuple": (1, 2), "keys": {1: 2}, "none": None}[how]
        return await ctx.checkpoint("odd", lambda: value) == value and (typed, plain["a"][0]) == (Leaf(1), 1)


@pytest.mark.spec("K24")
async def test_a_checkpoint_gives_back_what_was_put_in_or_refuses_it(deploy: Deploy) -> None:
    world = await deploy(app)
    jobs = {how: await world.enqueue(Odd, how) for how in ("leaf", "tuple", "keys", "none")}
    await world.run_until_idle()
    assert [await world.state(job) for job in jobs.values()] == ["dead", "dead", "dead", "succeeded"]
    errors = " ".join(str(letter) for letter in await world.dead_letters())
    assert "'odd' is a Leaf that JSON does not give back as it is; say its type, as in returns=Page." in errors
    assert (await world.results(jobs["none"]))["keep"] == "true"


async def test_what_cannot_be_waited_for_is_refused(deploy: Deploy) -> None:
    world = await deploy(app)
    for key, body, word in (
        ("", "1", "1 to 200"),
        ("join:x", "1", "children"),
        ("k", "nope", "no JSON"),
        ("k", "NaN", "no JSON"),
    ):
        with pytest.raises(InvalidInput, match=word):
            await answer(world.kernel, key, body)


def test_ids_of_children_are_in_their_order_and_of_their_join() -> None:
    ids = [child_id(1_767_225_600_000, "a", number) for number in (0, 1, 2**20 - 1, 2**20, 2**31)]
    assert ids == sorted(ids) and len(set(ids)) == len(ids) and ids[0][14] == "7"
    assert child_id(1_767_225_600_000, "b", 0) != ids[0]
    golden = ["019b76da-a800-7000-8000-02978112ca1b", "019b76da-a800-7001-8000-02978112ca1b"]
    assert [ids[0], ids[3]] == golden, "as in the release before"
