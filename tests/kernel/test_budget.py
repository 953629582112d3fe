"""What spends a job's budget: an outage kills nobody, a wait that the provider asked for costs nothing."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import asyncpg
import pytest

from holdfast import App, Breaker, CallError, Category, Context, Job, Provider, ProviderHeld, Retry, stage
from holdfast.kernel.attempt import standings_of
from holdfast.kernel.call import call
from holdfast.kernel.hold import force
from holdfast.kernel.questions.explain import explain
from holdfast.tables import providers
from holdfast.testing import World
from tests.kernel.places import Deploy, Place, rows

HOUR_S = 3_600
EVEN = Retry(attempts=5, base_s=1, cap_s=60, jitter="none")


class Outside:
    """A provider as the test wants it: what it raises next (the last one for ever), and how often it was called."""

    def __init__(self) -> None:
        self.answers: list[CallError | None] = []
        self.calls = 0

    async def ask(self) -> str:
        self.calls += 1
        answer = (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]) if self.answers else None
        if answer is not None:
            raise answer
        return "well"


outside = Outside()


@pytest.fixture(autouse=True)
def fresh() -> None:
    outside.__init__()  # type: ignore[misc]


def down(status: int = 503) -> CallError:
    return CallError.from_status(status, "down", {}, now_ms=0)


def asks(seconds: float, status: int = 429) -> CallError:
    return CallError.from_status(status, "later", {"retry-after": str(seconds)}, now_ms=0)


def asking(provider: Provider, retry: Retry | None = None, **declared: Any) -> tuple[App, type[Job[int]]]:
    """An app with one job of one stage that asks the provider."""
    app = App("asking")

    @app.job(**declared)
    class Ask(Job[int]):
        @stage(provider=provider, retry=retry)
        async def ask(self, ctx: Context, number: int) -> str:
            return await ctx.call(outside.ask)

    return app, Ask


async def not_before(world: World, name: str) -> int:
    async with world.kernel.store.reading() as tx:
        return (await providers.read(tx, name)).not_before or 0


async def live_through(world: World, seconds: int, step_s: int = 10) -> None:
    for _ in range(seconds // step_s):
        await world.tick()
        world.clock.advance(step_s)


@pytest.mark.slow
@pytest.mark.spec("K4", "K9", "000.28")
@pytest.mark.parametrize("count", [1, 8, 40])
async def test_an_hour_of_503_kills_nobody_and_costs_a_few_calls_a_cooldown(deploy: Deploy, count: int) -> None:
    policy = Breaker()
    app, ask = asking(Provider("llm", breaker=policy))
    world = await deploy(app)
    outside.answers = [down()]
    ids = [await world.enqueue(ask, number) for number in range(count)]
    # On PostgreSQL the whole hour for most jobs alone: the decisions are the same, and a server asked for each is slow.
    outage_s = HOUR_S if count == 40 or world.kernel.store.dialect == "sqlite" else HOUR_S // 6
    await live_through(world, outage_s)
    assert await world.dead_letters() == []
    assert outside.calls <= policy.window + policy.trials * outage_s / policy.cooldown_s
    assert outside.calls >= outage_s / policy.cooldown_s / 2, "and it went on trying"
    outside.answers = []
    await live_through(world, 300)
    assert {await world.state(job_id) for job_id in ids} == {"succeeded"}


@pytest.mark.spec("K9")
async def test_one_job_alone_against_a_dead_provider_is_held_and_not_killed(deploy: Deploy) -> None:
    app, ask = asking(Provider("llm", breaker=Breaker()), EVEN)
    world = await deploy(app)
    outside.answers = [down()]
    job_id = await world.enqueue(ask, 1)
    await live_through(world, 16, step_s=1)
    row = await world.job(job_id)
    assert (outside.calls, row["state"], row["failures"]) == (5, "queued", 0)
    said = json.loads((await rows(world.kernel.store, LAST_DATA, job_id=job_id))[0]["data"])
    assert said["note"] == "the provider is known to be down: this cost no attempt"


LAST_DATA = (
    "SELECT data FROM holdfast_job_events WHERE type = 'retried' AND CAST(job_id AS TEXT) = :job_id"
    " ORDER BY seq DESC LIMIT 1"
)


@pytest.mark.spec("K9")
async def test_what_opened_the_breaker_is_given_back_to_every_job_and_not_only_to_the_last(deploy: Deploy) -> None:
    app, ask = asking(Provider("llm", breaker=Breaker(failures_in_a_row=3)), EVEN)
    world = await deploy(app)
    outside.answers = [down()]
    ids = []
    for number in range(2):  # one after the other, so that both are counted before it opens
        ids.append(await world.enqueue(ask, number))
        await world.work()
    assert [(await world.job(job_id))["failures"] for job_id in ids] == [1, 1]
    third = await world.enqueue(ask, 3)
    await world.work()
    assert (outside.calls, (await world.job(third))["failures"]) == (3, 0), "its own failure opened it"
    await live_through(world, 30, step_s=1)
    assert outside.calls == 3
    outside.answers = [CallError.from_status(409, "in the way", {}, now_ms=0)]
    await world.tick()
    assert outside.calls == 6
    spent = [(await world.job(job_id))["failures"] for job_id in (*ids, third)]
    assert spent == [1, 1, 1], "one for the conflict; what they had paid for the outage is given back"


@pytest.mark.spec("K9")
@pytest.mark.parametrize("place", ["postgres"], indirect=True)
@pytest.mark.parametrize(("attempts", "kept"), [(1, [True]), (2, [False, True, False])])
async def test_no_breaker_moves_while_failures_are_spent(
    deploy: Deploy, place: Place, attempts: int, kept: list[bool]
) -> None:
    """When a job dies of its failures, or takes them along into its next stage; a retry is given them back later."""
    app = App("asking")

    @app.job()
    class Ask(Job[int]):
        @stage(provider=Provider("llm", breaker=Breaker(failures_in_a_row=9)), retry=Retry(attempts=attempts, base_s=0))
        async def ask(self, ctx: Context, number: int) -> str:
            return await ctx.call(outside.ask)

        @stage()
        async def use(self, ctx: Context, number: int, ask: str) -> None: ...

    world, other, seen = await deploy(app), await asyncpg.connect(place.url), []

    async def try_to_move(name: str) -> None:
        with suppress(asyncpg.LockNotAvailableError):
            if name == "settle.before_commit":
                seen.append(True)
                await other.execute("SELECT 1 FROM holdfast_breakers FOR UPDATE NOWAIT")
                seen[-1] = False

    outside.answers, world.kernel.failpoint = [down(), None], try_to_move
    await world.enqueue(Ask, 1)
    await world.run_until_idle()
    assert (seen, await other.close()) == (kept, None)


@pytest.mark.spec("K4", "000.28")
async def test_a_retry_after_of_an_hour_is_waited_for_and_no_rate_limit_costs_an_attempt(deploy: Deploy) -> None:
    app, ask = asking(Provider("llm"), EVEN)
    world = await deploy(app)
    outside.answers = [asks(HOUR_S)] * 8 + [None]
    job_id = await world.enqueue(ask, 1)
    start = world.clock.now_ms()
    await world.work()
    row = await world.job(job_id)
    assert (row["failures"], row["run_at"], await not_before(world, "llm")) == (0, *[start + HOUR_S * 1_000] * 2)
    said = await explain(world.kernel, job_id)
    assert said.facts["code"] == "RETRY_AFTER" and "at no cost" in said.sentence
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and outside.calls == 9
    assert world.clock.now_ms() >= start + 8 * HOUR_S * 1_000


@pytest.mark.spec("K4", "001.5")
async def test_a_short_retry_after_that_never_ends_is_not_a_call_a_second(deploy: Deploy) -> None:
    app, ask = asking(Provider("llm"), EVEN)
    world = await deploy(app)
    outside.answers = [asks(1)]
    await world.enqueue(ask, 1)
    await live_through(world, 600, step_s=5)
    assert outside.calls <= 8 + 600 / 60 and await world.dead_letters() == []


@pytest.mark.spec("K4")
async def test_the_shared_gate_is_cut_to_its_cap_and_never_shortened_by_a_later_answer(deploy: Deploy) -> None:
    llm = Provider("llm", retry_after_max_s=300)
    world = await deploy(asking(llm)[0])

    async def told_at_once(*seconds: float) -> None:
        """All are under way before the first is answered."""
        together = asyncio.Barrier(len(seconds))

        async def told(wait_s: float) -> None:
            async def answer() -> str:
                await together.wait()
                raise asks(wait_s)

            with pytest.raises(CallError):
                await call(world.kernel, llm, answer)

        await asyncio.gather(*map(told, seconds))

    for seconds, held_s in (((86_400, 10, 200), 300), ((60, 5), 60), ((5, 60), 60)):
        await told_at_once(*seconds)
        assert await not_before(world, "llm") == world.clock.now_ms() + held_s * 1_000
        world.clock.advance(held_s)


@pytest.mark.spec("K4", "K9")
async def test_a_503_that_names_a_time_holds_every_caller_as_a_429_does(deploy: Deploy) -> None:
    app, ask = asking(Provider("llm", breaker=Breaker()), EVEN)
    world = await deploy(app)
    outside.answers = [asks(40, status=503), None]
    ids = [await world.enqueue(ask, 1)]
    await world.work()
    ids.append(await world.enqueue(ask, 2))
    await world.work()
    assert outside.calls == 1
    assert [(await world.job(job_id))["failures"] for job_id in ids] == [0, 0]
    await world.run_until_idle()
    assert {await world.state(job_id) for job_id in ids} == {"succeeded"}


@pytest.mark.spec("K14", "000.20")
async def test_a_wait_beyond_the_deadline_is_a_dead_letter_at_once_with_the_providers_error(deploy: Deploy) -> None:
    app, ask = asking(Provider("llm"), EVEN, deadline_s=60)
    world = await deploy(app)
    outside.answers = [asks(90)]
    for number in range(2):
        await world.enqueue(ask, number)
        await world.work()
    assert outside.calls == 1, "the second was held by the first one's answer, and could not wait either"
    found = [(letter["error_class"], letter["failure_reason"]) for letter in await world.dead_letters()]
    assert found == [("RATE_LIMITED", "no_time")] * 2


@pytest.mark.spec("K4", "001.5")
async def test_a_bound_on_holding_ends_the_job_with_the_providers_error(deploy: Deploy) -> None:
    app, ask = asking(Provider("gateway", hold_max_s=3_600), EVEN)
    world = await deploy(app)
    outside.answers = [asks(600)]
    start = world.clock.now_ms()
    await world.enqueue(ask, 1)
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    assert (letter["error_class"], letter["failure_reason"]) == ("RATE_LIMITED", "exhausted")
    assert (outside.calls, letter["attempts_made"]) == (7, 7)
    assert world.clock.now_ms() == start + 3_600_000


@pytest.mark.spec("000.12", "K6")
async def test_the_retries_of_a_job_bound_all_its_stages_together(deploy: Deploy) -> None:
    app = App("two")
    ran: list[str] = []

    @app.job(retries=3)
    class Two(Job[int]):
        @stage(retry=EVEN)
        async def first(self, ctx: Context, number: int) -> str:
            ran.append("first")
            if ran.count("first") <= 2:
                raise down()
            return "page"

        @stage(retry=EVEN)
        async def second(self, ctx: Context, number: int, first: str) -> str:
            ran.append("second")
            raise down()

    world = await deploy(app)
    await world.enqueue(Two, 1)
    await world.run_until_idle()
    assert (ran.count("first"), ran.count("second")) == (3, 2), "three retries in all"
    (letter,) = await world.dead_letters()
    assert (letter["stage"], letter["failure_reason"], letter["attempts_made"]) == ("second", "exhausted", 2)
    with pytest.raises(Exception, match="retries of -1"):
        app.job(retries=-1)(Two)


@pytest.mark.spec("K7", "004.7")
async def test_a_dead_letter_says_how_many_attempts_were_really_made(deploy: Deploy) -> None:
    app, ask = asking(Provider("llm"), Retry(attempts=3, base_s=1, jitter="none"))
    world = await deploy(app)
    outside.answers = [down(), asks(1), asks(1), down(), down()]
    await world.enqueue(ask, 1)
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    assert (outside.calls, letter["attempts_made"]) == (5, 5), "two of them cost nothing, but were made"


@pytest.mark.spec("K9")
async def test_an_error_raised_from_a_calls_error_is_still_about_the_provider(deploy: Deploy) -> None:
    app = App("wrapping")
    llm = Provider("llm", breaker=Breaker(failures_in_a_row=2))

    @app.job()
    class Wrap(Job[int]):
        @stage(provider=llm, retry=Retry(attempts=2, base_s=1, jitter="none"))
        async def ask(self, ctx: Context, number: int) -> str:
            try:
                return await ctx.call(outside.ask)
            except CallError as error:
                raise CallError.of(Category.UPSTREAM, "GRADER_DOWN", "no grade") from error

    world = await deploy(app)
    outside.answers = [down()]
    job_id = await world.enqueue(Wrap, 1)
    await live_through(world, 10, step_s=1)
    assert (await world.job(job_id))["state"] == "queued" and outside.calls == 2


@pytest.mark.spec("K9")
async def test_a_group_is_about_providers_only_if_all_of_it_is(deploy: Deploy) -> None:
    world = await deploy(asking(Provider("llm"))[0])
    outside.answers = [down()]
    with pytest.raises(CallError) as failed:
        await call(world.kernel, Provider("llm"), outside.ask)
    mine = failed.value
    assert [one.provider for one in standings_of(ExceptionGroup("both", [mine, mine]))] == ["llm", "llm"]
    assert standings_of(ExceptionGroup("mixed", [mine, ValueError("mine")])) == ()


@pytest.mark.spec("K9")
async def test_a_provider_without_a_breaker_that_a_person_opened_is_not_called(deploy: Deploy) -> None:
    plain = Provider("plain")
    world = await deploy(asking(plain)[0])
    await force(world.kernel, "plain", open=True, actor="ann", reason="maintenance")
    with pytest.raises(ProviderHeld, match="a person has opened"):
        await call(world.kernel, plain, outside.ask)
    await force(world.kernel, "plain", open=False, actor="ann", reason="done")
    assert await call(world.kernel, plain, outside.ask) == "well"
    assert outside.calls == 1
