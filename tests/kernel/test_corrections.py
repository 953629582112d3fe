"""Correct, then replay: the input of a dead job is mended, the original kept, and a replay uses what was corrected."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast import App, CallError, Category, Context, InvalidInput, Job, NotAllowed, NotFound, Provider, Retry, stage
from holdfast.errors import BadDeclaration
from holdfast.kernel import operate
from holdfast.kernel.app import Corrected
from holdfast.kernel.hands.correct import correct, history
from holdfast.kernel.upkeep.prune import prune_once
from holdfast.tables import audit, cases, jobs
from holdfast.testing import World
from tests.kernel.places import Deploy, rows

app = App("parcels")
post = Provider("post", effects="token")
pytestmark = pytest.mark.spec("K8", "004.13")
runs: list[tuple[str, Any]] = []
followed: list[tuple[Any, Any]] = []
KEY = "sk-live-51HxAbCdEfGhIjKlMnOpQrStUv"


@dataclass(frozen=True)
class Parcel:
    weight: int
    address: str
    tags: list[str] = field(default_factory=list)
    api_key: str = ""


@app.job()
class Ship(Job[Parcel]):
    @stage(reads=("weight",))
    async def weigh(self, ctx: Context, parcel: Parcel) -> int:
        runs.append(("weigh", parcel.weight))
        return parcel.weight * 2

    @stage(provider=post, retry=Retry(attempts=1))
    async def send(self, ctx: Context, parcel: Parcel, weigh: int) -> str:
        runs.append(("send", parcel.address))

        async def go(token: str) -> str:
            return f"sent-{token[:8]}"

        await ctx.effect(f"label/{ctx.job.id}", send=go)
        if parcel.address == "nowhere" or weigh > 100:
            raise CallError.of(Category.VALIDATION, "BAD_PARCEL", "it cannot be sent")
        return parcel.address

    async def corrected(self, kernel: Any, tx: Any, correction: Corrected[Parcel]) -> None:
        if correction.after.address == "forbidden":
            raise NotAllowed("Nobody may send there.")
        followed.append((correction.before, correction.after))


@app.job()
class Careless(Job[Parcel]):
    """Does not say what its stages read."""

    @stage()
    async def weigh(self, ctx: Context, parcel: Parcel) -> int:
        runs.append(("weigh", parcel.weight))
        return parcel.weight

    @stage(retry=Retry(attempts=1))
    async def send(self, ctx: Context, parcel: Parcel, weigh: int) -> str:
        if parcel.address == "nowhere":
            raise CallError.of(Category.VALIDATION, "BAD_PARCEL", "it cannot be sent")
        return parcel.address


@pytest.fixture(autouse=True)
def fresh() -> None:
    runs.clear()
    followed.clear()


async def dead(world: World, kind: type[Job[Any]] = Ship, **given: Any) -> tuple[str, str]:
    parcel = Parcel(**{"weight": 3, "address": "nowhere", "api_key": KEY} | given)
    job_id = await world.enqueue(kind, parcel, key="parcel-1")
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    runs.clear()
    return job_id, letter["id"]


async def payload(world: World, job_id: str) -> dict[str, Any]:
    return json.loads((await world.job(job_id))["payload"])  # type: ignore[no-any-return]


async def test_a_correction_is_replayed_from_the_failed_stage_and_the_original_kept(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id, case_id = await dead(world)
    done = await correct(world.kernel, case_id, actor="ann", values={"address": "Berlin"}, reason="typo, INC-7")
    assert [tuple(change) for change in done.changes] == [("address", "nowhere", "Berlin")]
    assert (done.replay_stage, done.kept, done.dropped) == ("send", ("weigh",), ())
    assert [status for _, status in done.effects] == ["sent"], "what happened under the old input is shown"
    assert await payload(world, job_id) == {"weight": 3, "address": "Berlin", "tags": [], "api_key": KEY}
    async with world.kernel.store.reading() as tx:
        case = await cases.show(tx, case_id)
        told = await history(tx, job_id)
        entries = [(row.actor, row.action, row.data) for row in await audit.of_subject(tx, f"case:{case_id}")]
    assert case is not None and (case.state, case.cause) == ("remediated", "data")
    assert case.evidence == "Corrected address: typo, INC-7"
    assert told["original_input"]["address"] == "nowhere" and told["input"]["address"] == "Berlin"
    assert told["corrections"][0]["actor"] == "ann" and KEY not in json.dumps(told)
    assert entries[-1][:2] == ("ann", "case.corrected") and "nowhere" in entries[-1][2] and KEY not in str(entries)
    await operate.replay(world.kernel, case_id, actor="ann")
    await world.run_until_idle()
    assert runs == [("send", "Berlin")] and await world.state(job_id) == "succeeded"
    assert (await world.events(job_id))[-4:] == ["corrected", "replayed", "claimed", "succeeded"]
    assert followed == [(Parcel(3, "nowhere", [], KEY), Parcel(3, "Berlin", [], KEY))]
    await operate.resolve(world.kernel, case_id, notes="arrived", actor="ann")


async def test_what_an_earlier_stage_reads_makes_the_replay_begin_there(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id, case_id = await dead(world, weight=80, address="Berlin")
    seen = await correct(world.kernel, case_id, actor="ann", values={"weight": 5}, dry_run=True)
    assert (seen.replay_stage, seen.kept, seen.dropped) == (
        "weigh",
        (),
        ("weigh",),
    ) and "begins at 'weigh'" in seen.reason()
    await correct(world.kernel, case_id, actor="ann", values={"weight": 5})
    await correct(world.kernel, case_id, actor="ann", values={"address": "Paris"})
    replayed = await operate.replay(world.kernel, case_id, actor="ann")
    assert replayed.stage == "weigh", "a later correction of another field forgets nothing"
    await world.run_until_idle()
    assert runs == [("weigh", 5), ("send", "Paris")]
    assert (
        await world.results(job_id) == {"weigh": "10", "send": '"Paris"'} and await world.state(job_id) == "succeeded"
    )


async def test_a_kind_that_does_not_say_what_it_reads_is_run_from_its_start(deploy: Deploy) -> None:
    world = await deploy(app)
    _, case_id = await dead(world, Careless)
    done = await correct(world.kernel, case_id, actor="ann", values={"address": "Berlin"})
    assert (done.replay_stage, done.dropped) == ("weigh", ("weigh",))
    await operate.replay(world.kernel, case_id, actor="ann")
    await world.run_until_idle()
    assert runs == [("weigh", 3)]


async def test_after_another_death_the_failed_stage_counts_again(deploy: Deploy) -> None:
    world = await deploy(app)
    _, case_id = await dead(world, weight=80, address="Berlin")
    await correct(world.kernel, case_id, actor="ann", values={"weight": 5, "address": "nowhere"})
    await operate.replay(world.kernel, case_id, actor="ann")
    await world.run_until_idle()
    runs.clear()
    await world.mend_and_replay(case_id)
    await world.run_until_idle()
    assert runs == [("send", "nowhere")], "what was weighed since is kept"


async def test_a_preview_writes_nothing(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id, case_id = await dead(world)
    before = [await payload(world, job_id), *await rows(world.kernel.store, "SELECT * FROM holdfast_dead_letters")]
    told = len(await rows(world.kernel.store, "SELECT * FROM holdfast_audit"))
    done = await correct(world.kernel, case_id, actor="ann", document={"weight": 1, "address": "x"}, dry_run=True)
    assert done.is_preview and [change.path for change in done.changes] == ["weight", "address", "api_key"]
    after = [await payload(world, job_id), *await rows(world.kernel.store, "SELECT * FROM holdfast_dead_letters")]
    assert after == before and len(await rows(world.kernel.store, "SELECT * FROM holdfast_audit")) == told
    assert await rows(world.kernel.store, "SELECT * FROM holdfast_corrections") == []
    with pytest.raises(NotAllowed):
        await operate.replay(world.kernel, case_id, actor="ann")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"values": {"weight": "heavy"}}, "weight"),
    ({"values": {"tags": [1]}}, "tags.0"),
    ({"values": {"adress": "x"}}, "no field 'adress'"),
    ({"values": {"tags.7": "x"}}, "tags.7"),
    ({"values": {"address": "nowhere"}}, "changes nothing"),
    ({"document": {"weight": 1}}, "address"),
    ({"document": [1]}, "does not fit"),
    ({}, "either"),
    ({"values": {"weight": 1}, "document": {}}, "either"),
]


@pytest.mark.parametrize(("given", "words"), WRONG, ids=[words for _, words in WRONG])
async def test_what_does_not_fit_is_refused_by_name_and_nothing_is_written(
    deploy: Deploy, given: dict[str, Any], words: str
) -> None:
    world = await deploy(app)
    job_id, case_id = await dead(world)
    before = await payload(world, job_id)
    with pytest.raises(InvalidInput, match=words):
        await correct(world.kernel, case_id, actor="ann", **given)
    assert await payload(world, job_id) == before and followed == []
    assert await rows(world.kernel.store, "SELECT * FROM holdfast_corrections") == []


async def test_the_app_may_refuse_and_then_nothing_is_written(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id, case_id = await dead(world)
    with pytest.raises(NotAllowed, match="Nobody may send there"):
        await correct(world.kernel, case_id, actor="ann", values={"address": "forbidden"})
    assert (await payload(world, job_id))["address"] == "nowhere"
    assert await rows(world.kernel.store, "SELECT * FROM holdfast_corrections") == []


async def test_only_a_dead_job_is_corrected(deploy: Deploy) -> None:
    world = await deploy(app)
    _, case_id = await dead(world)
    with pytest.raises(NotFound):
        await correct(world.kernel, world.kernel.new_id(), actor="ann", values={"weight": 1})
    await world.mend_and_replay(case_id)
    with pytest.raises(NotAllowed, match="replayed"):
        await correct(world.kernel, case_id, actor="ann", values={"weight": 1})


async def test_an_input_that_no_longer_fits_its_type_can_be_mended(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id, case_id = await dead(world)
    old = json.dumps({"weight": "three", "address": "Berlin", "colour": "red"})
    async with world.kernel.store.transaction() as tx:
        await jobs.correct(tx, job_id, old, 1, world.kernel.now())
    await correct(world.kernel, case_id, actor="ann", values={"weight": 3})
    assert (await payload(world, job_id))["weight"] == 3 and followed[0][0] is None


async def test_masked_values_of_a_whole_input_stay_as_they_were(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id, case_id = await dead(world)
    async with world.kernel.store.reading() as tx:
        shown = (await history(tx, job_id))["input"]
    assert shown["api_key"] != KEY
    await correct(world.kernel, case_id, actor="ann", document={**shown, "address": "Berlin"})
    assert await payload(world, job_id) == {"weight": 3, "address": "Berlin", "tags": [], "api_key": KEY}


async def test_the_key_still_stands_for_the_job_as_it_was_asked_for(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id, case_id = await dead(world)
    await correct(world.kernel, case_id, actor="ann", values={"address": "Berlin"})
    again = await world.enqueue(Ship, Parcel(3, "nowhere", [], KEY), key="parcel-1")
    assert again == job_id


async def test_corrections_are_forgotten_with_their_job(deploy: Deploy) -> None:
    world = await deploy(app)
    _, case_id = await dead(world)
    await correct(world.kernel, case_id, actor="ann", values={"address": "Berlin"})
    await operate.replay(world.kernel, case_id, actor="ann")
    await world.run_until_idle()
    world.clock.advance(400 * 86_400)
    assert await prune_once(world.kernel) >= 1
    assert await rows(world.kernel.store, "SELECT * FROM holdfast_corrections") == []


def test_a_stage_reads_only_fields_that_there_are() -> None:
    other = App("other")
    with pytest.raises(BadDeclaration, match="reads 'colour'"):

        @other.job()
        class Wrong(Job[Parcel]):
            @stage(reads=("colour",))
            async def weigh(self, ctx: Context, parcel: Parcel) -> int:
                return 1
