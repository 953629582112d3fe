"""Credentials in addresses: kept apart from the job, encrypted, for the handler alone, erased when the job ends."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import App, CallError, Category, Context, InvalidInput, Job, Retry, stage
from holdfast.core.outcome import Unfit
from holdfast.errors import BadDeclaration
from holdfast.kernel import operate
from holdfast.kernel.attempt import run_attempt
from holdfast.kernel.hands.correct import correct, history
from holdfast.kernel.relay import relay_once
from holdfast.kernel.sealing import KeyMissing, Sealer, open_input, seal_input
from holdfast.kernel.submit import submit_many
from holdfast.kernel.turn import turn
from holdfast.kernel.upkeep.prune import prune_once
from holdfast.settings import Settings, notes, problems, read
from holdfast.tables import outbox, secrets
from holdfast.testing import World
from tests.kernel.places import Deploy, rows

pytestmark = pytest.mark.spec("K30", "K17")
OLD, NEW = "an old key of thirty-two characters", "a new key of thirty-two characters."
URL = "https://ann:Planted0Pass@git.example/r.git?sig=Planted0Signature#Planted0Fragment"
HIDDEN = "https://git.example/r.git?sealed=1"
seen: list[str] = []


@dataclass(frozen=True)
class Where:
    url: str


@dataclass(frozen=True)
class Fetch:
    source: Where
    fails: int = 0


@pytest.fixture(autouse=True)
def fresh() -> None:
    seen.clear()


def app_with(*keys: str) -> App:
    app = App("fetching", sealer=Sealer(keys))

    @app.job(name="fetching.get", seals=("source.url",))
    class Get(Job[Fetch]):
        @stage(retry=Retry(attempts=2, base_s=0, jitter="none"))
        async def first(self, ctx: Context, fetch: Fetch) -> None:
            seen.append(fetch.source.url)
            if len(seen) <= fetch.fails:
                raise CallError.of(Category.UPSTREAM, "AWAY", f"cannot get {fetch.source.url}")

        @stage()
        async def second(self, ctx: Context, fetch: Fetch) -> None:
            seen.append(fetch.source.url)

    return app


def job_of(app: App) -> Any:
    return type(app.kinds["fetching.get"].instance)


async def everything(world: World) -> str:
    """Every value of every table."""
    dialect = world.kernel.store.dialect
    listing = (
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'holdfast_%'"
        if dialect == "sqlite"
        else "SELECT tablename AS name FROM pg_tables WHERE tablename LIKE 'holdfast_%'"
    )
    names = [row["name"] for row in await rows(world.kernel.store, listing)]
    return repr([await rows(world.kernel.store, f"SELECT * FROM {name}") for name in names])


async def count(world: World) -> int:
    return len(await rows(world.kernel.store, "SELECT owner FROM holdfast_secrets"))


async def test_the_handler_has_the_whole_address_and_no_table_has(deploy: Deploy) -> None:
    app = app_with(NEW)
    world = await deploy(app)
    job_id = await world.enqueue(job_of(app), Fetch(Where(URL)), key="k")
    assert "Planted0" not in await everything(world) and await count(world) == 1
    assert json.loads((await world.job(job_id))["payload"])["source"]["url"] == HIDDEN
    await world.run_until_idle()
    assert seen == [URL, URL] and await world.state(job_id) == "succeeded"
    assert await count(world) == 0, "a job that has ended needs none"
    assert await world.enqueue(job_of(app), Fetch(Where(URL)), key="k") == job_id, "the same input is the same job"
    assert await count(world) == 0, "and seals nothing anew"


async def test_an_error_that_repeats_the_address_is_stored_without_it(deploy: Deploy) -> None:
    app = app_with(NEW)
    world = await deploy(app)
    job_id = await world.enqueue(job_of(app), Fetch(Where(URL), fails=1))
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and "retried" in await world.events(job_id)
    assert "Planted0" not in await everything(world)


async def test_the_dead_keep_theirs_for_a_replay_until_their_case_is_resolved(deploy: Deploy) -> None:
    app = app_with(NEW)
    world = await deploy(app)
    job_id = await world.enqueue(job_of(app), Fetch(Where(URL), fails=2))
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    assert await count(world) == 1 and "Planted0" not in await everything(world)
    await operate.triage(world.kernel, letter["id"], cause="transient", actor="ann")
    await operate.remediate(world.kernel, letter["id"], evidence="it is back", actor="ann")
    await operate.replay(world.kernel, letter["id"], actor="ann")
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and seen == [URL] * 4 and await count(world) == 0


async def test_a_case_that_is_closed_without_a_replay_erases_them(deploy: Deploy) -> None:
    app = app_with(NEW)
    world = await deploy(app)
    await world.enqueue(job_of(app), Fetch(Where(URL), fails=2))
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    await operate.triage(world.kernel, letter["id"], cause="data", actor="ann")
    await operate.resolve(world.kernel, letter["id"], actor="ann", without_replay="nobody needs it")
    assert await count(world) == 0
    world.clock.advance(40 * 86_400)
    await prune_once(world.kernel)
    assert await rows(world.kernel.store, "SELECT id FROM holdfast_jobs") == []


async def test_a_cancelled_job_and_a_forgotten_one_leave_none(deploy: Deploy) -> None:
    app = app_with(NEW)
    world = await deploy(app)
    job_id = await world.enqueue(job_of(app), Fetch(Where(URL)), delay_s=60)
    other = await world.enqueue(job_of(app), Fetch(Where(URL)), delay_s=60)
    await operate.cancel(world.kernel, job_id, "ann")
    assert await count(world) == 1, "another job's stay"
    await operate.cancel(world.kernel, other, "ann")
    assert await count(world) == 0
    async with world.kernel.store.transaction() as tx:
        await secrets.put(tx, {job_id: [secrets.NewSecret(1, "left behind")]}, world.kernel.now())
    world.clock.advance(40 * 86_400)
    await prune_once(world.kernel)
    assert await count(world) == 0


async def test_a_process_without_the_code_that_cancels_a_job_erases_its_credentials_too(deploy: Deploy) -> None:
    app = app_with(NEW)
    world = await deploy(app)
    job_id = await world.enqueue(job_of(app), Fetch(Where(URL)), delay_s=60)
    console = await deploy(App("elsewhere"))
    await operate.cancel(console.kernel, job_id, "ann")
    assert await world.state(job_id) == "cancelled" and await count(world) == 0


async def test_a_correction_seals_the_new_address_and_keeps_one_that_came_back(deploy: Deploy) -> None:
    app = app_with(NEW)
    world = await deploy(app)
    job_id = await world.enqueue(job_of(app), Fetch(Where(URL), fails=2))
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    done = await correct(world.kernel, letter["id"], actor="ann", document={"source": {"url": HIDDEN}, "fails": 3})
    assert [change.path for change in done.changes] == ["fails"]
    fresh_url = URL.replace("Planted0Sig", "Planted0Fresh")
    done = await correct(world.kernel, letter["id"], actor="ann", values={"source.url": fresh_url})
    assert [tuple(change) for change in done.changes] == [("source.url", HIDDEN, HIDDEN.replace("=1", "=2"))]
    async with world.kernel.store.reading() as tx:
        assert "Planted0" not in repr(await history(tx, job_id))
    assert "Planted0" not in await everything(world)
    await operate.replay(world.kernel, letter["id"], actor="ann")
    await world.run_until_idle()
    assert seen[-1] == fresh_url and await world.state(job_id) == "succeeded"


async def test_a_correction_with_a_reference_that_somebody_made_up_opens_nothing(deploy: Deploy) -> None:
    app = app_with(NEW)
    world = await deploy(app)
    await world.enqueue(job_of(app), Fetch(Where(URL), fails=2))
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    forged = "https://evil.example/r.git?sealed=1"
    await correct(world.kernel, letter["id"], actor="ann", values={"source.url": forged})
    await operate.replay(world.kernel, letter["id"], actor="ann")
    await world.run_until_idle()
    assert seen[2:] == [forged, forged], "it is an address like others, and is given as it was written"


def test_every_field_has_a_number_of_its_own_and_may_be_empty() -> None:
    sealer, paths = Sealer((NEW, OLD)), ("a.url", "b.url", "c.url", "d.url", "e")
    whole = {"a": {"url": URL}, "b": {"url": URL + "2"}, "c": {"url": None}, "d": "no place", "e": 7}
    hidden, found = seal_input(sealer, paths, json.dumps(whole))
    assert [secret.number for secret in found] == [1, 2] and "Planted0" not in hidden
    sealed = {secret.number: secret.sealed for secret in found}
    assert json.loads(open_input(Sealer((NEW,)), paths, hidden, sealed)) == whole, "the first key alone seals"
    crossed = json.dumps(json.loads(hidden) | {"a": json.loads(hidden)["b"]})
    assert json.loads(open_input(sealer, paths, crossed, sealed))["a"] == whole["b"], "a reference means its own"


def test_a_stored_address_from_before_is_sealed_by_the_first_correction() -> None:
    stored = json.dumps({"url": URL, "n": 1})
    hidden, found = seal_input(Sealer((NEW,)), ("url",), json.dumps({"url": URL, "n": 2}), kept=stored)
    assert len(found) == 1 and "Planted0" not in hidden


async def test_what_was_sealed_first_stands_and_only_its_owner_is_given_it(deploy: Deploy) -> None:
    world = await deploy(app_with(NEW))
    async with world.kernel.store.transaction() as tx:
        await secrets.put(tx, {"a": [secrets.NewSecret(1, "first")], "b": [secrets.NewSecret(1, "other")]}, 1)
        await secrets.put(tx, {"a": [secrets.NewSecret(1, "second")]}, 2)
        assert await secrets.of_owners(tx, ["a"]) == {"a": {1: "first"}}


async def test_keys_rotate_and_a_worker_without_the_key_leaves_the_job_to_others(deploy: Deploy) -> None:
    world = await deploy(app_with(OLD))
    job_id = await world.enqueue(job_of(world.kernel.registry.apps[0]), Fetch(Where(URL)))
    stranger = await deploy(app_with(NEW))
    taken, _ = await turn(stranger.kernel, "w", ["fetching"], [], 1)
    ended = await run_attempt(stranger.kernel, taken[0])
    assert ended is not None and isinstance(ended.outcome, Unfit) and "HOLDFAST_SECRETS_KEYS" in ended.outcome.reason
    await turn(stranger.kernel, "w", [], [ended], 0)
    assert seen == [] and await world.state(job_id) == "queued"
    world.clock.advance(3_600)
    later = await deploy(app_with(NEW, OLD))
    await later.run_until_idle()
    assert seen == [URL, URL] and await world.state(job_id) == "succeeded"


async def test_without_a_key_a_password_is_refused_and_a_query_lies_apart(deploy: Deploy) -> None:
    app = app_with()
    world = await deploy(app)
    with pytest.raises(InvalidInput, match="HOLDFAST_SECRETS_KEYS"):
        await world.enqueue(job_of(app), Fetch(Where(URL)))
    job_id = await world.enqueue(job_of(app), Fetch(Where("https://h.example/a?sig=Planted0")))
    assert "Planted0" not in repr(await world.job(job_id)) and await count(world) == 1
    await world.run_until_idle()
    assert seen[0] == "https://h.example/a?sig=Planted0" and await count(world) == 0


async def test_a_reference_opens_nothing_that_is_not_its_own(deploy: Deploy) -> None:
    """A user who writes a reference is given back what he wrote; a stored one that was tampered with opens nothing."""
    app = app_with(NEW)
    world = await deploy(app)
    job_id = await world.enqueue(job_of(app), Fetch(Where("https://evil.example/x?sealed=1")))
    await world.run_until_idle()
    assert seen == ["https://evil.example/x?sealed=1"] * 2 and await world.state(job_id) == "succeeded"
    sealer = Sealer((NEW,))
    with pytest.raises(InvalidInput, match="erased"):
        sealer.open_address("https://evil.example/x?sealed=1", {1: sealer.seal(URL)}, "url")
    with pytest.raises(InvalidInput, match="erased"):
        sealer.open_address(HIDDEN, {}, "url")
    with pytest.raises(KeyMissing):
        Sealer((OLD,)).open_address(HIDDEN, {1: sealer.seal(URL)}, "url")


async def test_many_at_once_are_sealed_too(deploy: Deploy) -> None:
    app = app_with(NEW)
    world = await deploy(app)
    await submit_many(world.kernel, job_of(app), [Fetch(Where(f"{URL}{number}")) for number in range(120)])
    assert await count(world) == 120 and "Planted0" not in await everything(world)


async def test_a_message_in_the_outbox_is_whole_only_on_the_wire(deploy: Deploy) -> None:
    app = app_with(NEW)
    world = await deploy(app)
    kernel = world.kernel
    hidden, secret = kernel.registry.apps[0].sealer.seal_address(URL, 1, "url")
    assert secret is not None and kernel.transport is not None
    kernel.sealer = Sealer((NEW,))
    body = json.dumps({"url": hidden, "text": f"see {hidden}"})
    async with kernel.store.transaction() as tx:
        await secrets.put(tx, {"agg": [secret]}, kernel.now())
        message = (kernel.new_uuid4(), "agg", "here", "t", body, "{}")
        await outbox.put(tx, [message], kernel.now())
    got: list[Any] = []

    class Wire:
        async def publish(self, message: Any) -> None:
            got.append(json.loads(message.body))

    kernel.transport = Wire()  # type: ignore[assignment]
    await relay_once(kernel)
    assert got == [{"url": URL, "text": f"see {hidden}"}] and "Planted0" not in await everything(world)


def test_a_path_that_is_no_field_is_refused_at_once() -> None:
    app = App("wrong")
    with pytest.raises(BadDeclaration, match=r"seals 'sauce\.url'"):

        @app.job(seals=("sauce.url",))
        class Wrong(Job[Fetch]):
            @stage()
            async def only(self, ctx: Context, fetch: Fetch) -> None: ...


def test_the_check_warns_without_a_key_and_refuses_a_short_one() -> None:
    assert any("HOLDFAST_SECRETS_KEYS" in note for note in notes(Settings, {}))
    assert not any("SECRETS" in note for note in notes(Settings, {"HOLDFAST_SECRETS_KEYS": f"{NEW}, {OLD}"}))
    assert read(Settings, {"HOLDFAST_SECRETS_KEYS": f" {NEW} ,{OLD}"}).sealing_keys == (NEW, OLD)
    assert problems(Settings, {"HOLDFAST_SECRETS_KEYS": "short"}) != []
