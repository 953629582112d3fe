"""A job whose effect did not happen, although it was marked as sent, is reopened by a person or by its app."""

from __future__ import annotations

import pytest

from holdfast import CallError, Category, Context, Job, Retry, Snooze, stage
from holdfast.kernel import operate
from holdfast.kernel.app import TakenBack
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.ledger.verify import Verdict, verify_all
from holdfast.operator.audit import audit as check_database
from holdfast.stores.seam import Tx
from holdfast.testing import World
from tests.kernel.places import Deploy, rows
from tests.kernel.post import KEY, PATIENT, Post, row_of
from tests.kernel.test_verify import CountingWatch, disproved, spoil


class Tour(Post):
    """A post office, and a job that sends in its second stage of three."""

    def __init__(self) -> None:
        super().__init__("lookup", ids=True)
        self.ran: list[str] = []
        self.seen_to: list[TakenBack] = []
        self.sees_to_it = False
        post = self

        @self.app.job(name="tour")
        class Visit(Job[str]):
            @stage(retry=PATIENT)
            async def pack(self, ctx: Context, to: str) -> str:
                post.ran.append("pack")
                return to

            @stage(provider=post.provider, retry=PATIENT)
            async def send(self, ctx: Context, to: str) -> str:
                post.ran.append("send")
                return await ctx.effect(("letter", to), send=lambda token: post.send(to, token))

            @stage(retry=Retry(attempts=1))
            async def leave(self, ctx: Context, to: str) -> str | Snooze:
                post.ran.append("leave")
                if to == "eve":
                    raise CallError.of(Category.VALIDATION, "NO_WAY", "There is no way.")
                if to == "sam" and post.ran.count("leave") == 1:
                    return Snooze(600)
                return to

            async def taken_back(self, kernel: Kernel, tx: Tx, lost: TakenBack) -> bool:
                post.seen_to.append(lost)
                return post.sees_to_it

        self.visit = Visit


async def toured(deploy: Deploy, post: Tour, name: str = "ann") -> tuple[World, str]:
    world: World = await deploy(post.app)
    job_id = await world.enqueue(post.visit, name)
    for _ in post.visit.__holdfast__.stages:
        await world.work()
    world.kernel.watch = CountingWatch()
    world.clock.advance(120)
    await spoil(world, post, name)
    return world, job_id


@pytest.mark.spec("K12", "K8", "004.28")
async def test_a_success_without_its_effect_is_a_dead_letter_whose_replay_sends_it(deploy: Deploy) -> None:
    post = Tour()
    world, job_id = await toured(deploy, post)
    assert await world.state(job_id) == "succeeded" and post.ran == ["pack", "send", "leave"]
    assert [unknown.verdict for unknown in await verify_all(world.kernel)] == [Verdict.TAKEN_BACK]
    assert await world.state(job_id) == "dead", "nothing runs again by itself"
    assert await check_database(world.kernel) == []
    (case,) = await world.dead_letters()
    assert (case["state"], case["error_class"], case["stage"]) == ("open", "EFFECT_TAKEN_BACK", "send")
    kernel = world.kernel
    await operate.triage(kernel, case["id"], cause="data", actor="olga")
    await operate.remediate(kernel, case["id"], evidence="a backup was restored", actor="olga")
    assert (await operate.replay(kernel, case["id"], actor="olga")).stage == "send"
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and post.delivered == 1
    assert post.ran == ["pack", "send", "leave", "send", "leave"], "what was done before the effect stays done"
    await operate.resolve(kernel, case["id"], actor="olga", notes="it arrived")
    assert await check_database(kernel, ask_providers=True) == []


@pytest.mark.spec("K12", "K17")
async def test_a_success_that_was_taken_back_stays_in_the_story(deploy: Deploy) -> None:
    post = Tour()
    world, first = await toured(deploy, post)
    later = [await world.enqueue(post.visit, name) for name in ("bob", "cat", "dan", "eli")]
    for _ in post.visit.__holdfast__.stages:
        await world.work()
    written = await rows(world.kernel.store, "SELECT job_id FROM holdfast_job_events WHERE type = 'succeeded'")
    assert len(written) == 2, "they ended in one turn: of all but one of these, only the row shows it"
    for name in ("bob", "cat"):
        await spoil(world, post, name)
    world.clock.advance(120)
    assert [unknown.verdict for unknown in await verify_all(world.kernel)] == [Verdict.TAKEN_BACK] * 3
    for job_id in (first, *later[:2]):
        assert (await world.events(job_id))[-3:] == ["claimed", "succeeded", "taken_back"]
    assert await check_database(world.kernel) == []


@pytest.mark.spec("K12", "004.28")
async def test_an_app_may_see_to_it_itself(deploy: Deploy) -> None:
    post = Tour()
    post.sees_to_it = True
    world, job_id = await toured(deploy, post)
    assert [unknown.verdict for unknown in await verify_all(world.kernel)] == [Verdict.TAKEN_BACK]
    assert post.seen_to == [TakenBack(job_id, KEY, "send")]
    assert await world.state(job_id) == "succeeded" and await world.dead_letters() == []


@pytest.mark.spec("K12", "004.28")
async def test_a_dead_job_is_replayed_from_the_effect_that_did_not_happen(deploy: Deploy) -> None:
    post = Tour()
    world, job_id = await toured(deploy, post, "eve")
    (case,) = await world.dead_letters()
    assert (case["stage"], case["error_class"]) == ("leave", "NO_WAY")
    assert [unknown.verdict for unknown in await verify_all(world.kernel)] == [Verdict.TAKEN_BACK]
    await operate.triage(world.kernel, case["id"], cause="data", actor="olga")
    await operate.remediate(world.kernel, case["id"], evidence="mended", actor="olga")
    assert (await operate.replay(world.kernel, case["id"], actor="olga")).stage == "send"
    await world.run_until_idle()
    assert post.delivered == 1 and await world.state(job_id) == "dead"


@pytest.mark.spec("K12", "004.28")
async def test_nothing_is_concluded_while_the_job_still_runs(deploy: Deploy) -> None:
    post = Tour()
    world, job_id = await toured(deploy, post, "sam")
    assert await world.state(job_id) == "queued"
    assert [unknown.verdict for unknown in await verify_all(world.kernel)] == [Verdict.LATER]
    assert (await row_of(world))["status"] == "sent" and disproved(world) == {"later": 1}
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded"
    assert [unknown.verdict for unknown in await verify_all(world.kernel)] == [Verdict.TAKEN_BACK]
