"""A Retry-After is kept in the process first, and written until it is written, whatever the database does meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import App, Breaker, CallError, Context, Job, Provider, ProviderHeld, Retry, stage
from holdfast.errors import StoreUnavailable
from holdfast.kernel import record as recording
from holdfast.kernel.call import call, place_ms
from holdfast.kernel.hold import force, hold_once
from holdfast.kernel.record import write_late
from holdfast.tables import providers
from holdfast.testing import World
from tests.kernel.places import Deploy, rows

llm = Provider("llm", breaker=Breaker(), concurrency=2)
mail = Provider("mail", effects="neither")
app = App("patient")
EVEN = Retry(attempts=5, base_s=1, jitter="none")
asked: list[str] = []
during: list[Any] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    asked.clear()
    during.clear()


async def answer() -> str:
    """What the test has laid out for this call, else a good answer."""
    asked.append("call")
    step = during.pop(0) if during else None
    if step is not None:
        step()
    return "well"


def limited(seconds: float) -> Any:
    def say() -> None:
        raise CallError.from_status(429, "later", {"retry-after": str(seconds)}, now_ms=0)

    return say


@app.job()
class Ask(Job[int]):
    @stage(provider=llm, retry=EVEN)
    async def ask(self, ctx: Context, number: int) -> str:
        return await ctx.call(answer)


@app.job()
class Send(Job[int]):
    @stage(provider=mail, retry=EVEN)
    async def send(self, ctx: Context, number: int) -> str:
        async def post(token: str) -> str:
            return await answer()

        return await ctx.effect(("mail", str(number)), send=post)


class Away:
    """A store whose transactions fail from now on, until it is back. Reading goes on."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.is_away = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def transaction(self) -> Any:
        if self.is_away:
            raise StoreUnavailable("the database is away")
        return self.store.transaction()


async def not_before(world: World, name: str = "llm") -> int | None:
    async with world.kernel.store.reading() as tx:
        return (await providers.read(tx, name)).not_before


@pytest.mark.spec("K4", "K9")
async def test_a_retry_after_is_obeyed_although_the_database_was_away_when_it_came(deploy: Deploy) -> None:
    world = await deploy(app)
    store = Away(world.kernel.store)
    world.kernel.store = store
    until = world.clock.now_ms() + 45_000

    def away_and_limited() -> None:
        store.is_away = True
        limited(45)()

    during.append(away_and_limited)
    with pytest.raises(StoreUnavailable):
        await call(world.kernel, llm, answer)
    store.is_away = False
    assert await not_before(world) is None, "nobody could write it"
    with pytest.raises(ProviderHeld, match="asked to be called later") as held:
        await call(world.kernel, llm, answer)
    assert held.value.retry_at == until and len(asked) == 1
    await hold_once(world.kernel)
    assert await not_before(world) == until, "written as soon as that was possible, and not a moment longer"
    written = await rows(world.kernel.store, "SELECT provider, status FROM holdfast_calls")
    assert written == [{"provider": "llm", "status": 429}] and world.kernel.unrecorded == []


@pytest.mark.spec("K4", "K9")
async def test_a_late_record_goes_with_the_next_one(deploy: Deploy) -> None:
    world = await deploy(app)
    store = Away(world.kernel.store)
    world.kernel.store = store
    during.append(lambda: setattr(store, "is_away", True))
    with pytest.raises(StoreUnavailable):
        await call(world.kernel, llm, answer)
    store.is_away = False
    await call(world.kernel, llm, answer)
    assert (await rows(world.kernel.store, "SELECT COUNT(*) AS n FROM holdfast_calls"))[0]["n"] == 2
    assert await write_late(world.kernel) == 0


@pytest.mark.spec("K9", "K18")
async def test_a_record_that_was_written_although_its_answer_was_lost_teaches_nothing_again(deploy: Deploy) -> None:
    world = await deploy(app)
    during.append(limited(5))
    with pytest.raises(CallError):
        await call(world.kernel, llm, answer)
    world.clock.advance(10)

    def down() -> None:
        raise CallError.from_status(500, "down", {}, now_ms=0)

    during.append(down)
    with pytest.raises(CallError):
        await call(world.kernel, llm, answer)
    (one,) = await rows(world.kernel.store, "SELECT CAST(id AS TEXT) AS id FROM holdfast_calls WHERE status = 500")
    report = recording.Report(
        llm, recording.CallPermit(one["id"], 0), None, 0, CallError.from_status(500, "d", {}, now_ms=0).failure
    )
    world.kernel.unrecorded.append((report, world.clock.now_ms()))
    assert await write_late(world.kernel) == 1
    async with world.kernel.store.reading() as tx:
        assert (await providers.read(tx, "llm")).state.window == "1"


@pytest.mark.spec("K4", "K9")
async def test_who_stood_still_looks_at_the_provider_again_before_it_calls(deploy: Deploy) -> None:
    world = await deploy(app)

    async def stand_still(name: str) -> None:
        if name == "call.before":
            async with world.kernel.store.transaction() as tx:  # another process was told
                await providers.lock(tx, "llm", world.clock.now_ms())
                await providers.set_not_before(tx, "llm", world.clock.now_ms() + 60_000)
            world.clock.advance(2)

    world.kernel.failpoint = stand_still
    job_id = await world.enqueue(Ask, 1)
    await world.work()
    assert asked == [] and (await world.job(job_id))["failures"] == 0
    async with world.kernel.store.reading() as tx:
        assert dict((await providers.read(tx, "llm")).places) == {}, "its place is free again"
    assert place_ms(llm, None) > 0


@pytest.mark.spec("K4", "K12")
async def test_an_effect_that_was_not_sent_after_all_leaves_no_doubt(deploy: Deploy) -> None:
    world = await deploy(app)

    async def stand_still(name: str) -> None:
        if name == "effect.before_send" and not asked and not told:
            told.append(name)
            async with world.kernel.store.transaction() as tx:
                await providers.lock(tx, "mail", world.clock.now_ms())
                await providers.set_not_before(tx, "mail", world.clock.now_ms() + 60_000)
            world.clock.advance(2)

    told: list[str] = []
    world.kernel.failpoint = stand_still
    job_id = await world.enqueue(Send, 1)
    await world.work()
    assert asked == [] and told
    found = await rows(world.kernel.store, "SELECT status FROM holdfast_effects")
    assert found == [{"status": "planned"}], "nothing was sent, so nobody needs to be asked"
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and len(asked) == 1


@pytest.mark.spec("K4")
async def test_no_more_records_are_kept_than_memory_should_hold(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await deploy(app)
    monkeypatch.setattr(recording, "UNRECORDED_MAX", 2)
    store = Away(world.kernel.store)
    world.kernel.store = store
    for number in range(3):
        during.append(lambda: setattr(store, "is_away", True))
        with pytest.raises(StoreUnavailable):
            await call(world.kernel, Provider(f"p{number}"), answer)
        store.is_away = False
    assert [report.provider.name for report, _ in world.kernel.unrecorded] == ["p1", "p2"]


@pytest.mark.spec("K4", "K9")
async def test_a_person_who_closes_the_breaker_ends_a_wait_that_the_provider_asked_for(deploy: Deploy) -> None:
    world = await deploy(app)
    during.append(limited(1e300))
    with pytest.raises(CallError):
        await call(world.kernel, llm, answer)
    with pytest.raises(ProviderHeld, match="asked to be called later"):
        await call(world.kernel, llm, answer)
    await force(world.kernel, "llm", open=False, actor="ann", reason="the header was wrong")
    assert await not_before(world) is None
    assert await call(world.kernel, llm, answer) == "well"
