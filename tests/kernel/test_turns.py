"""Fair turns: nobody's new job waits behind another key's backlog, and everything else is as without them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from types import new_class
from typing import Any

import pytest
from typing_extensions import TypedDict

from holdfast import App, Context, Job, Limit, Priority, Provider, Retry, stage
from holdfast.core.failure import Category
from holdfast.core.job import Claimed
from holdfast.core.outcome import Done, Failed
from holdfast.core.turns import KeyUse, TurnRules, Turns, allowed, share
from holdfast.errors import BadDeclaration, CallError, InvalidInput
from holdfast.kernel import operate
from holdfast.kernel.hold import force
from holdfast.kernel.questions.explain import explain
from holdfast.kernel.reap import sweep_once
from holdfast.kernel.settle import Ending
from holdfast.kernel.submit import submit_many
from holdfast.kernel.turn import end
from holdfast.operator.audit import audit
from tests.kernel.places import Deploy, rows, take

app = App("fair")
mail = Provider("mail")


@app.job(fair_by="owner", weights={"gold": 3})
class Send(Job[str]):
    @stage(retry=Retry(attempts=3, base_s=2, cap_s=2, jitter="none"), provider=mail)
    async def send(self, ctx: Context, text: str) -> None: ...

    @stage()
    async def note(self, ctx: Context, text: str) -> None: ...


@dataclass
class Page:
    tenant: str
    number: int = 0


@app.job(fair_by="tenant", deadline_s=60)
class Render(Job[Page]):
    @stage()
    async def render(self, ctx: Context, page: Page) -> None: ...


@app.job(limit=Limit(per="owner", at_once=2))
class Crawl(Job[str]):
    @stage(retry=Retry(attempts=3, base_s=2, cap_s=2, jitter="none"))
    async def crawl(self, ctx: Context, text: str) -> None: ...


@app.job(limit=Limit(per="owner", per_minute=4))
class Ping(Job[str]):
    @stage()
    async def ping(self, ctx: Context, text: str) -> None: ...


@app.job()
class Plain(Job[str]):
    @stage()
    async def go(self, ctx: Context, text: str) -> None: ...


def owners(taken: list[Claimed]) -> Counter[str]:
    return Counter(job.owner or "-" for job in taken)


async def enqueue(world: Any, owner: str, count: int) -> None:
    await submit_many(world.kernel, Send, [f"{owner} {number}" for number in range(count)], owner=owner)
    world.clock.advance(0.001)


@pytest.mark.spec("K25")
async def test_a_new_key_does_not_wait_behind_the_backlog_of_another(deploy: Deploy) -> None:
    world = await deploy(app)
    await enqueue(world, "noisy", 300)
    first = await take(world.kernel, limit=10)
    assert owners(first) == {"noisy": 10}, "nobody else has work: no room is kept free"
    quiet = await world.enqueue(Send, "hello", owner="quiet")
    assert quiet in [job.id for job in await take(world.kernel, limit=4)]


@pytest.mark.spec("K25")
async def test_keys_with_work_take_turns_by_their_weights(deploy: Deploy) -> None:
    world = await deploy(app)
    for owner in ("noisy", "silver", "gold", "bronze"):
        await enqueue(world, owner, 40)
    assert owners(await take(world.kernel, limit=12)) == {"noisy": 2, "silver": 2, "bronze": 2, "gold": 6}
    one_by_one = [(await take(world.kernel, limit=1))[0].owner for _ in range(12)]
    assert Counter(one_by_one) == {"noisy": 2, "silver": 2, "bronze": 2, "gold": 6}, "a turn may take several claims"


@pytest.mark.spec("K25")
async def test_what_a_key_leaves_over_goes_to_the_others_and_each_key_goes_by_age(deploy: Deploy) -> None:
    world = await deploy(app)
    await enqueue(world, "a", 1)
    await enqueue(world, "b", 3)
    for _ in range(5):
        await enqueue(world, "c", 10)
    oldest = sorted(row["created_at"] for row in await rows(world.kernel.store, "SELECT created_at FROM holdfast_jobs"))
    taken = await take(world.kernel, limit=20)
    assert owners(taken) == {"a": 1, "b": 3, "c": 16}
    assert [job.created_at for job in taken] == oldest[:20], "all of a and b, and the oldest of c"
    rest = [job for _ in range(4) for job in await take(world.kernel, limit=20)]
    assert len({job.id for job in [*taken, *rest]}) == 54, "everything is started, once"


@pytest.mark.spec("K25")
async def test_no_more_is_let_in_than_is_claimed(deploy: Deploy) -> None:
    """Plain jobs are older and are claimed first: what has had its turn must not pile up behind them."""
    world = await deploy(app)
    await submit_many(world.kernel, Plain, [str(number) for number in range(60)])
    world.clock.advance(1)
    await enqueue(world, "noisy", 100)
    for _ in range(5):
        assert {job.kind for job in await take(world.kernel, limit=10)} == {"fair.plain"}
    waiting = "SELECT COUNT(*) AS n FROM holdfast_jobs WHERE hold = 'turn'"
    assert (await rows(world.kernel.store, waiting))[0]["n"] == 90


@pytest.mark.spec("K25")
async def test_urgent_jobs_go_first_and_each_lane_takes_turns_of_its_own(deploy: Deploy) -> None:
    world = await deploy(app)
    await enqueue(world, "noisy", 20)
    urgent = await world.enqueue(Send, "now", owner="noisy", priority=Priority.URGENT)
    assert [job.id for job in await take(world.kernel, limit=1)] == [urgent]


@pytest.mark.spec("K25")
async def test_a_job_takes_its_turn_once(deploy: Deploy) -> None:
    """A retry and a later stage are work that was begun: they do not stand in line again."""
    world = await deploy(app)
    begun = await world.enqueue(Send, "first", owner="noisy")
    (job,) = await take(world.kernel, limit=1)
    await enqueue(world, "noisy", 30)
    async with world.kernel.store.transaction() as tx:
        failed = Failed(CallError.of(Category.NETWORK, "FLAKY", "once").failure)
        await end(world.kernel, tx, [Ending(job, failed)])
    world.clock.advance(2)
    assert (await take(world.kernel, limit=1))[0].id == begun


@pytest.mark.spec("K25", "K5")
async def test_a_turn_is_not_given_before_its_time_and_a_delayed_job_does_not_jump_the_line(deploy: Deploy) -> None:
    world = await deploy(app)
    for _ in range(12):
        await world.enqueue(Send, "later", owner="noisy", delay_s=5)
    assert await take(world.kernel) == []
    world.clock.advance(6)
    quiet = await world.enqueue(Send, "hello", owner="quiet")
    assert quiet in [job.id for job in await take(world.kernel, limit=2)]
    assert owners(await take(world.kernel, limit=20)) == {"noisy": 11}


@pytest.mark.spec("K25", "K8")
async def test_a_provider_that_is_down_holds_what_has_had_its_turn(deploy: Deploy) -> None:
    world = await deploy(app)
    await force(world.kernel, "mail", open=True, actor="ann", reason="maintenance")
    await enqueue(world, "a", 5)
    assert await take(world.kernel, limit=2) == []
    held = "SELECT hold, provider, COUNT(*) AS n FROM holdfast_jobs GROUP BY hold, provider ORDER BY hold"
    assert await rows(world.kernel.store, held) == [
        {"hold": "breaker", "provider": "mail", "n": 2},
        {"hold": "turn", "provider": None, "n": 3},
    ]
    await force(world.kernel, "mail", open=False, actor="ann", reason="done")
    await world.run_until_idle(limit_s=60)
    assert await audit(world.kernel) == []
    ended = await rows(world.kernel.store, "SELECT COUNT(*) AS n FROM holdfast_jobs WHERE state = 'succeeded'")
    assert ended[0]["n"] == 5


@pytest.mark.spec("K25", "K14")
async def test_who_waits_for_a_turn_dies_at_its_deadline_and_can_be_cancelled(deploy: Deploy) -> None:
    world = await deploy(app)
    late = await world.enqueue(Render, Page("noisy"))
    gone = await world.enqueue(Send, "never mind", owner="noisy")
    await operate.cancel(world.kernel, gone, actor="ann")
    world.clock.advance(61)
    await sweep_once(world.kernel)
    states = {row["id"]: row["state"] for row in await rows(world.kernel.store, "SELECT id, state FROM holdfast_jobs")}
    assert {str(key): state for key, state in states.items()} == {late: "dead", gone: "cancelled"}
    assert await take(world.kernel) == []


@pytest.mark.spec("K25")
async def test_a_field_of_the_input_may_be_the_key_and_the_reason_for_waiting_is_told(deploy: Deploy) -> None:
    world = await deploy(app)
    await submit_many(world.kernel, Render, [Page("noisy", number) for number in range(200)])
    quiet = await world.enqueue(Render, Page("quiet"))
    why = await explain(world.kernel, quiet)
    assert "NO_WORKER" in str(why)
    assert quiet in [job.id for job in await take(world.kernel, limit=2)]
    with pytest.raises(InvalidInput, match="tenant"):
        await world.enqueue(Render, Page("x" * 300))


@pytest.mark.spec("K25")
async def test_no_key_has_more_begun_than_its_limit_and_a_place_is_free_at_the_end(deploy: Deploy) -> None:
    world = await deploy(app)
    for owner in ("a", "b"):
        await submit_many(world.kernel, Crawl, [f"{owner} {number}" for number in range(9)], owner=owner)
    running = [job for worker in ("w1", "w2") for job in await take(world.kernel, worker, limit=9)]
    assert owners(running) == {"a": 2, "b": 2} and await take(world.kernel, limit=9) == []
    first, second = (job for job in running if job.owner == "a")
    async with world.kernel.store.transaction() as tx:
        failed = Failed(CallError.of(Category.NETWORK, "FLAKY", "once").failure)
        await end(world.kernel, tx, [Ending(first, failed)])
    assert await take(world.kernel, limit=9) == [], "it waits for its retry, and keeps its place"
    async with world.kernel.store.transaction() as tx:
        await end(world.kernel, tx, [Ending(second, Done(None))])
    assert owners(await take(world.kernel, limit=9)) == {"a": 1}
    world.clock.advance(3)
    assert [job.id for job in await take(world.kernel, limit=9)] == [first.id]


@pytest.mark.spec("K25")
async def test_no_sixty_seconds_see_more_starts_of_a_key_than_its_limit(deploy: Deploy) -> None:
    world = await deploy(app)
    await submit_many(world.kernel, Ping, [str(number) for number in range(12)], owner="a")
    assert len(await take(world.kernel, limit=3)) == 3
    world.clock.advance(40)
    assert len(await take(world.kernel, limit=9)) == 1
    world.clock.advance(19)
    assert await take(world.kernel, limit=9) == []
    world.clock.advance(2)
    assert len(await take(world.kernel, limit=9)) == 3, "the first three have left the minute"


@pytest.mark.spec("K25", "K13")
async def test_a_replay_stands_in_line_again(deploy: Deploy) -> None:
    world = await deploy(app)
    dead = await world.enqueue(Crawl, "wrong", owner="a")
    (job,) = await take(world.kernel, limit=1)
    async with world.kernel.store.transaction() as tx:
        await end(world.kernel, tx, [Ending(job, Failed(CallError.of(Category.BUG, "BROKEN", "no").failure))])
    for number in range(4):
        await world.enqueue(Crawl, f"a {number}", owner="a")
    assert owners(await take(world.kernel, limit=9)) == {"a": 2}
    async with world.kernel.store.transaction() as tx:
        await operate.retry_dead(world.kernel, tx, dead, actor="ann", evidence="fixed")
    world.clock.advance(1)
    assert await take(world.kernel, limit=9) == [], "a person's replay goes past no limit"


@pytest.mark.spec("K25")
async def test_keys_beyond_those_at_their_limit_are_found_in_the_same_turn(deploy: Deploy) -> None:
    world = await deploy(app)
    for number in range(8):
        await submit_many(world.kernel, Crawl, ["1", "2", "3"], owner=f"busy {number}")
    assert len(await take(world.kernel, limit=16)) == 16
    late = await world.enqueue(Crawl, "x", owner="late")
    assert [job.id for job in await take(world.kernel, limit=2)] == [late]


@pytest.mark.spec("K25")
async def test_several_workers_start_everything_once(deploy: Deploy) -> None:
    world = await deploy(app)
    for owner in ("a", "b", "c"):
        await enqueue(world, owner, 20)
    seen = [job.id for _ in range(4) for worker in ("w1", "w2") for job in await take(world.kernel, worker, limit=9)]
    assert len(seen) == len(set(seen)) == 60


def test_what_makes_no_sense_is_refused_where_it_is_declared() -> None:
    def declare(**given: Any) -> None:
        @App("wrong").job(**given)
        class Wrong(Job[Page]):
            @stage()
            async def go(self, ctx: Context, page: Page) -> None: ...

    for given, why in [
        ({"fair_by": "user"}, "neither 'owner' nor a field"),
        ({"fair_by": "tenant", "weights": {"gold": 0}}, "weight of 0"),
        ({"weights": {"gold": 2}}, "no fair_by"),
        ({"limit": Limit("tenant")}, "at_once or per_minute"),
        ({"limit": Limit("tenant", at_once=0)}, "at_once or per_minute"),
        ({"limit": Limit("tenant", at_once=1), "fair_by": "owner"}, "must be the same"),
    ]:
        with pytest.raises(BadDeclaration, match=why):
            declare(**given)


class Typed(TypedDict):
    tenant: str


@pytest.mark.parametrize("takes", [int, str, list[str], tuple[int, str], Typed])
def test_turns_by_a_field_that_no_input_can_have_are_refused(takes: Any) -> None:
    """All of them would share one turn, and one limit, in silence."""
    for given in ({"fair_by": "user"}, {"limit": Limit("user", at_once=1)}, {"limit": Limit(3, at_once=1)}):  # type: ignore[arg-type]
        with pytest.raises(BadDeclaration, match="neither 'owner' nor a field"):
            App("wrong").job(**given)(new_class("Wrong", (Job[takes],), {}, lambda body: body.update(go=stage()(go))))


@pytest.mark.parametrize("takes", [dict[str, str], Any, Typed, Page])
def test_turns_by_a_field_that_an_input_may_have_are_taken(takes: Any) -> None:
    App("right").job(fair_by="tenant")(new_class("Right", (Job[takes],), {}, lambda body: body.update(go=stage()(go))))


async def go(self: Any, ctx: Context, given: Any) -> None: ...


def test_shares_are_rounds_of_weights_within_what_is_allowed() -> None:
    plain, heavy = TurnRules({}, {}), TurnRules({"b": 3}, {})
    most = dict.fromkeys("abc", 9)
    assert share(["a", "b", "c"], plain, most, 5) == ({"a": 2, "b": 2, "c": 1}, "b", 0)
    assert share(["a", "b"], heavy, most, 5) == ({"a": 2, "b": 3}, "a", 0)
    assert share(["a", "b", "c"], plain, most, 2) == ({"a": 1, "b": 1}, "b", 0)
    assert share(["b", "c"], heavy, most, 1) == ({"b": 1}, "b", 2), "a turn that was cut short"
    assert share(["b", "c"], heavy, most, 3, owed=2) == ({"b": 2, "c": 1}, "c", 0), "goes on"
    assert share(["a", "b", "c"], plain, {"a": 0, "b": 1, "c": 2}, 9) == ({"b": 1, "c": 2}, "c", 0)
    assert share(["a"], plain, {"a": 0}, 9) == ({}, "a", 0)


def test_a_key_is_a_short_text() -> None:
    assert Turns("owner").key_of("k", None, None) == Turns("owner").key_of("k", None, "") == "-"
    assert Turns("tenant").key_of("k", {"tenant": 7}, "ann") == "7"
    for value, why in [(1.5, "not a str or int"), (True, "not a str or int"), ("a\tb", "one line")]:
        with pytest.raises(ValueError, match=why):
            Turns("tenant").key_of("k", {"tenant": value}, None)


def test_what_may_start_is_the_smaller_of_both_limits() -> None:
    assert allowed(None, None, 7) == 7
    assert allowed(Limit("owner", at_once=3), None, 7) == 3
    assert allowed(Limit("owner", at_once=3, per_minute=9), KeyUse(2, 8), 7) == 1
    assert allowed(Limit("owner", at_once=3, per_minute=9), KeyUse(4, 0), 7) == 0
    assert allowed(Limit("owner", per_minute=9), KeyUse(100, 3), 7) == 6
