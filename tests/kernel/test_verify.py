"""Marks are verified: an id without a time is looked up before anything is sent, and a bogus one is found."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.effect import token_of
from holdfast.core.provider import EffectClass
from holdfast.engines.run import Duties, run
from holdfast.kernel import effects as ledger
from holdfast.kernel.kernel import Tuning
from holdfast.kernel.ledger.verify import Verdict, verify_all, verify_once
from holdfast.kernel.observe.watch import LogWatch
from holdfast.operator.audit import audit as check_database
from holdfast.settings import Settings
from holdfast.tables import audit
from holdfast.testing import World
from tests.kernel.places import Deploy, rows
from tests.kernel.post import KEY, Post, row_of, started

HOUR = 3_600


class CountingWatch(LogWatch):
    """Remembers what was counted, and says when."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: Counter[tuple[str, ...]] = Counter()
        self.disproved = asyncio.Event()

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self.counted[(name, *labels.values())] += int(amount)
        if name == "effects_unknown_to_provider":
            self.disproved.set()


async def change(world: World, text: str, **params: Any) -> None:
    from holdfast.stores.statement import _statement

    async with world.kernel.store.transaction() as tx:
        await tx.rows(_statement("forge", {None: f"UPDATE holdfast_effects SET {text}"}), **params)


async def sent(deploy: Deploy, post: Post, *names: str) -> World:
    """A world in which each of them got a letter."""
    world: World = await deploy(post.app)
    for name in names or ("ann",):
        await world.enqueue(post.job, name)
    await world.run_until_idle()
    assert post.delivered == len(names or ("ann",))
    world.kernel.watch = CountingWatch()
    world.clock.advance(120)
    return world


async def spoil(world: World, post: Post, name: str = "ann") -> None:
    """Nothing was sent to this person, although it is marked."""
    key = f"post:/letter/{name}"
    post.box.pop(token_of(key), None)
    await change(world, "provider_id = 'p-bogus' WHERE key = :key", key=key)


def disproved(world: World) -> dict[str, int]:
    watch = world.kernel.watch
    assert isinstance(watch, CountingWatch)
    return {key[2]: n for key, n in watch.counted.items() if key[0] == "effects_unknown_to_provider"}


async def actions(world: World, key: str = KEY) -> list[str]:
    async with world.kernel.store.reading() as tx:
        return [entry.action for entry in await audit.of_subject(tx, f"effect:{key}")]


@pytest.mark.spec("K12", "R5", "004.24")
@pytest.mark.parametrize("really", [True, False])
@pytest.mark.parametrize("status", ["planned", "failed", "sending", "unknown", "sent"])
@pytest.mark.parametrize("kind", ["token", "lookup"])
async def test_an_id_without_a_time_is_looked_up_by_that_id_before_anything_is_sent(
    deploy: Deploy, kind: EffectClass, status: str, really: bool
) -> None:
    post = Post(kind, lookup=False, ids=True)
    world, job_id = await started(deploy, post)
    world.script(post.provider, server_errors=1)
    await world.work()
    if really:
        await post.send("ann", token_of(KEY))
    half = f"p-{token_of(KEY)[:6]}"
    await change(world, "status = :status, provider_id = :half, marked_at = NULL", status=status, half=half)
    before = len(post.tokens)
    await world.run_until_idle()
    assert post.asked_ids == [half], "asked once, by the id"
    assert post.delivered == 1 and len(post.tokens) - before == int(not really)
    row = await row_of(world)
    assert (row["status"], row["provider_id"]) == ("sent", half) and row["marked_at"] is not None
    assert await world.state(job_id) == "succeeded"


@pytest.mark.spec("K12", "004.24")
@pytest.mark.parametrize("kind", ["token", "lookup", "neither"])
async def test_an_id_without_a_time_where_ids_are_not_known(deploy: Deploy, kind: EffectClass) -> None:
    """Then the token says it; and where nothing does, a person."""
    post = Post(kind)
    world, job_id = await started(deploy, post)
    world.script(post.provider, server_errors=1)
    await world.work()
    await post.send("ann", token_of(KEY))
    await change(world, "status = 'planned', provider_id = 'p-1', marked_at = NULL")
    await world.run_until_idle()
    row = await row_of(world)
    if kind == "neither":
        assert (await world.state(job_id), row["status"]) == ("dead", "review") and len(post.tokens) == 1
    else:
        assert (await world.state(job_id), row["status"]) == ("succeeded", "sent")
        assert post.lookups == int(kind == "lookup") and len(post.tokens) == (1 if kind == "lookup" else 2)
    assert post.delivered == 1


@pytest.mark.spec("K12", "R6", "004.28")
@pytest.mark.parametrize("kind", ["token", "lookup"])
async def test_a_bogus_id_is_found_cleared_and_alerted(
    deploy: Deploy, kind: EffectClass, caplog: pytest.LogCaptureFixture
) -> None:
    post = Post(kind, ids=True)
    world = await sent(deploy, post, "ann", "bob")
    assert await verify_once(world.kernel) == 2 and len(post.asked_ids) == 2 and disproved(world) == {}
    await spoil(world, post)
    await verify_once(world.kernel)
    (row,) = await rows(world.kernel.store, "SELECT * FROM holdfast_effects WHERE key = :key", key=KEY)
    assert (row["status"], row["provider_id"], row["marked_at"]) == ("planned", None, None)
    assert disproved(world) == {"taken_back": 1} and await actions(world) == ["effect.taken_back"]
    (record,) = [record for record in caplog.records if record.message.split()[0] == "effect.unknown_to_provider"]
    assert record.levelname == "ERROR"
    await world.enqueue(post.job, "ann")
    await world.run_until_idle()
    assert post.delivered == 2, "whoever has it to do sends it"


@pytest.mark.spec("K12", "004.28")
@pytest.mark.parametrize("kind", ["token", "lookup"])
async def test_what_the_provider_may_have_forgotten_is_not_sent_again(deploy: Deploy, kind: EffectClass) -> None:
    post = Post(kind, ids=True)
    world = await sent(deploy, post, "ann", "bob")
    post.box.pop(token_of(KEY))
    world.clock.advance(23 * HOUR)
    assert await verify_all(world.kernel) == [] and post.asked_ids == []
    assert {row["status"] for row in await rows(world.kernel.store, "SELECT status FROM holdfast_effects")} == {"sent"}


@pytest.mark.spec("K12", "004.28")
async def test_what_may_still_arrive_is_not_asked_about(deploy: Deploy) -> None:
    post = Post("lookup", ids=True)
    world = await sent(deploy, post)
    await spoil(world, post)
    await change(world, "last_sent_at = :now", now=world.kernel.now())
    assert await verify_all(world.kernel) == [] and disproved(world) == {}
    world.clock.advance(61)
    assert [unknown.verdict for unknown in await verify_all(world.kernel)] == [Verdict.TAKEN_BACK]


@pytest.mark.spec("K12", "004.28")
async def test_a_provider_that_knows_none_of_several_ids_proves_nothing(deploy: Deploy) -> None:
    """Another account, another mailbox: everything would be sent twice."""
    post = Post("lookup", ids=True)
    world = await sent(deploy, post, "ann", "bob", "cy")
    post.box.clear()
    found = await verify_all(world.kernel)
    assert [unknown.verdict for unknown in found] == [Verdict.NOTHING] * 3 and disproved(world) == {"nothing": 3}
    assert {row["status"] for row in await rows(world.kernel.store, "SELECT status FROM holdfast_effects")} == {"sent"}


@pytest.mark.spec("K12", "004.28")
async def test_a_wrong_id_of_what_was_sent_is_corrected(deploy: Deploy) -> None:
    post = Post("lookup", ids=True)
    world = await sent(deploy, post)
    await change(world, "provider_id = 'p-bogus'")
    await verify_once(world.kernel)
    row = await row_of(world)
    assert (row["status"], row["provider_id"]) == ("sent", f"p-{token_of(KEY)[:6]}")
    assert disproved(world) == {"corrected": 1} and await actions(world) == ["effect.id_corrected"]


@pytest.mark.spec("K12", "004.24", "004.28")
async def test_half_a_mark_that_nobody_works_on_is_completed(deploy: Deploy) -> None:
    post = Post("token", ids=True)
    world = await sent(deploy, post)
    await change(world, "marked_at = NULL")
    await verify_once(world.kernel)
    row = await row_of(world)
    assert (row["status"], row["marked_at"]) == ("sent", world.kernel.now()) and disproved(world) == {"corrected": 1}
    await verify_once(world.kernel)
    assert disproved(world) == {"corrected": 1} and post.delivered == 1


@pytest.mark.spec("K12", "004.28")
async def test_where_neither_token_nor_lookup_helps_a_person_decides(deploy: Deploy) -> None:
    post = Post("neither", ids=True)
    world = await sent(deploy, post)
    await spoil(world, post)
    await verify_once(world.kernel)
    assert (await row_of(world))["status"] == "review" and disproved(world) == {"person": 1}


@pytest.mark.spec("K12", "004.28")
@pytest.mark.parametrize("provider_id", [None, "p-typo"])
async def test_what_a_person_said_is_not_undone_by_a_lookup(deploy: Deploy, provider_id: str | None) -> None:
    post = Post("lookup", ids=True)
    world = await sent(deploy, post)
    post.box.clear()
    await change(world, "status = 'review', provider_id = NULL, marked_at = NULL")
    assert await ledger.answer(world.kernel, KEY, sent=True, provider_id=provider_id, actor="ann")
    await verify_once(world.kernel)
    assert (await row_of(world))["status"] == ("sent" if provider_id is None else "review")
    assert post.asked_ids == ([] if provider_id is None else [provider_id])


@pytest.mark.spec("K12", "004.28")
async def test_a_provider_that_cannot_answer_now_is_asked_another_time(deploy: Deploy) -> None:
    post = Post("lookup", ids=True)
    world = await sent(deploy, post)
    await spoil(world, post)
    world.script(post.provider, server_errors=1)
    await verify_once(world.kernel)
    assert (await row_of(world))["status"] == "sent" and disproved(world) == {}
    await verify_once(world.kernel)
    assert (await row_of(world))["status"] == "planned"


@pytest.mark.spec("K12", "004.28")
async def test_a_row_that_was_sent_anew_meanwhile_is_left_alone(deploy: Deploy) -> None:
    post = Post("lookup", ids=True)
    world = await sent(deploy, post)
    await spoil(world, post)

    async def has_id(provider_id: str) -> bool:
        await change(world, "sends = sends + 1, provider_id = 'p-new'")
        return False

    provider = replace(post.provider, has_id=has_id, lookup=None)
    world.kernel.registry.providers["post"] = provider
    await verify_once(world.kernel)
    assert (await row_of(world))["provider_id"] == "p-new" and disproved(world) == {"nothing": 1}


@pytest.mark.spec("K12", "004.28")
async def test_a_sample_is_bounded_and_providers_that_know_no_ids_are_left_alone(deploy: Deploy) -> None:
    post = Post("lookup", ids=True)
    world = await sent(deploy, post, *"abcdefgh")
    world.kernel.tuning = Tuning(verify_batch=3)
    assert await verify_once(world.kernel) == 3 == len(post.asked_ids)
    deaf = Post("lookup")
    world.kernel.registry.providers["post"] = deaf.provider
    assert await verify_once(world.kernel) == 0 == deaf.lookups


@pytest.mark.spec("004.28")
async def test_the_keeper_verifies_by_itself(deploy: Deploy) -> None:
    post = Post("lookup", ids=True)
    world = await sent(deploy, post)
    await spoil(world, post)
    kernel, stop = world.kernel, asyncio.Event()
    kernel.tuning = Tuning(verify_s=0.01)
    watch = kernel.watch
    assert isinstance(watch, CountingWatch)
    running = asyncio.create_task(run(kernel, Duties(work=False, relay=False, consume=False), stop))
    await asyncio.wait_for(watch.disproved.wait(), 10)
    stop.set()
    await running
    assert (await row_of(world))["status"] == "planned"


@pytest.mark.spec("004.28")
async def test_nothing_is_verified_where_the_sample_is_none(deploy: Deploy) -> None:
    post = Post("lookup", ids=True)
    world = await sent(deploy, post)
    tuning = Settings(verify_batch=0).tuning()
    assert tuning.problems() == [] and Settings().tuning().verify_batch > 0
    world.kernel.tuning = tuning
    assert await verify_once(world.kernel) == 0 and post.asked_ids == []


@pytest.mark.spec("004.28")
async def test_an_audit_that_asks_the_providers_verifies_every_mark(deploy: Deploy) -> None:
    post = Post("lookup", ids=True)
    world = await sent(deploy, post, *"abcdefgh")
    await spoil(world, post, "d")
    assert await check_database(world.kernel) == [] and post.asked_ids == []
    (finding,) = await check_database(world.kernel, ask_providers=True)
    assert finding.promise == "S6" and "post does not know it by the id 'p-bogus'" in finding.text
    assert len(post.asked_ids) == 8 and disproved(world) == {"taken_back": 1}
    assert await check_database(world.kernel, ask_providers=True) == []
