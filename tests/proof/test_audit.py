"""`holdfast audit`: a database that kept its promises passes; one broken promise is named, with the job."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import App, Context, Job, Retry, stage
from holdfast.core.failure import Category
from holdfast.core.provider import Provider
from holdfast.errors import CallError
from holdfast.kernel.hands.pausing import set_paused
from holdfast.operator.audit import audit
from holdfast.stores.statement import _statement
from holdfast.testing import HandClock, World
from tests.kernel.places import Deploy, rows

app = App("audited")
mail = Provider("audited.mail", effects="token")


@app.job(deadline_s=600)
class Send(Job[str]):
    """Sends one mail; refuses 'bad'."""

    @stage(retry=Retry(attempts=2, base_s=1), provider=mail)
    async def send(self, ctx: Context, order: str) -> str:
        if order == "bad":
            raise CallError.of(Category.VALIDATION, "BAD_ORDER", "no")
        return await ctx.effect(f"mail/{ctx.job_id}", send=_sent)


@app.job(fair_by="owner")
class Stand(Job[int]):
    """Waits for the turn of its owner."""

    @stage()
    async def stand(self, ctx: Context, number: int) -> None: ...


async def _sent(token: str) -> str:
    return f"id-{token[:6]}"


async def write(world: World, text: str) -> None:
    async with world.kernel.store.transaction() as tx:
        await tx.rows(_statement("broken", {None: text}))


async def worked(deploy: Deploy) -> World:
    """One job sent, one dead, one replayed and dead again."""
    world: World = await deploy(app)
    for order in ("good", "bad", "bad"):
        await world.enqueue(Send, order)
    await world.run_until_idle()
    await world.mend_and_replay((await world.dead_letters())[0]["id"])
    await world.run_until_idle()
    return world


@pytest.mark.spec("K15", "K19")
async def test_a_database_that_kept_its_promises_passes(deploy: Deploy) -> None:
    world = await worked(deploy)
    assert await audit(world.kernel) == []


async def test_jobs_in_line_and_of_a_paused_kind_are_looked_after(deploy: Deploy) -> None:
    """Their rows are parked for no provider: a turn that comes, or a person, lets them go."""
    world: World = await deploy(app)
    await world.enqueue(Send, "good")
    await set_paused(world.kernel, "kind", "audited.send", paused=True, actor="olga", reason="the mail server moves")
    await world.work()
    await world.enqueue(Stand, 1, owner="ann")
    parked = await rows(world.kernel.store, "SELECT hold FROM holdfast_jobs WHERE parked = 1 ORDER BY hold")
    assert [row["hold"] for row in parked] == ["pause", "turn"]
    assert await audit(world.kernel) == []


SUCCEEDED = "(SELECT id FROM holdfast_jobs WHERE state = 'succeeded')"
BROKEN = {
    "a row that moved without an event": (
        "UPDATE holdfast_jobs SET state = 'cancelled' WHERE state = 'succeeded'",
        "S3",
    ),
    "a claim after the end": (
        f"INSERT INTO holdfast_job_events (job_id, attempt, type, at) SELECT id, 2, 'claimed', 1 FROM {SUCCEEDED} AS s",
        "S2",
    ),
    "an attempt that went back": (
        "UPDATE holdfast_job_events SET attempt = 7 WHERE type = 'claimed'",
        "S5",
    ),
    "a dead job without a case": ("DELETE FROM holdfast_dead_letters", "S19"),
    "an open case of a job that lives": (
        "UPDATE holdfast_dead_letters SET state = 'replayed' WHERE state <> 'replayed'",
        "S19",
    ),
    "a replay that nobody counted": ("UPDATE holdfast_jobs SET epoch = epoch + 1 WHERE state = 'dead'", "S19"),
    "success without evidence": ("UPDATE holdfast_effects SET provider_id = NULL", "S6"),
    "success in doubt": ("UPDATE holdfast_effects SET status = 'unknown'", "S6"),
    "a token of another key": ("UPDATE holdfast_effects SET token = 'x'", "S9"),
    "success after the deadline": (
        "UPDATE holdfast_jobs SET deadline_at = finished_at - 1 WHERE state = 'succeeded'",
        "S15",
    ),
    "more failures than allowed": ("UPDATE holdfast_jobs SET failures = 3 WHERE state = 'dead'", "S12"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_promise_is_found(deploy: Deploy, name: str) -> None:
    world = await worked(deploy)
    text, promise = BROKEN[name]
    await write(world, text)
    found = await audit(world.kernel)
    assert promise in {finding.promise for finding in found}, found
    assert all(finding.job is not None and finding.job in finding.text for finding in found)


@pytest.mark.spec("R7")
@pytest.mark.parametrize(
    "spoken_of",
    ["status = 'failed', error = 'No such mailbox.'", "status = 'review', error = 'It may have been sent.'"],
)
async def test_success_without_an_effect_that_was_refused_or_is_asked_about_is_no_finding(
    deploy: Deploy, spoken_of: str
) -> None:
    world = await worked(deploy)
    await write(world, f"UPDATE holdfast_effects SET provider_id = NULL, marked_at = NULL, {spoken_of}")
    assert await audit(world.kernel) == []


NEGLECTED = {
    "an expired lease": (
        "UPDATE holdfast_jobs SET state = 'processing', lease_until = run_at, lease_owner = 'x', finished_at = NULL "
        "WHERE state = 'succeeded'",
        "L3",
    ),
    "a missed deadline": (
        "UPDATE holdfast_jobs SET state = 'queued', finished_at = NULL WHERE state = 'succeeded'",
        "L1",
    ),
    "a wait without end": (
        "UPDATE holdfast_jobs SET state = 'waiting', wait_key = 'k', finished_at = NULL WHERE state = 'succeeded'",
        "L1",
    ),
    "a doubt that nobody clears": ("UPDATE holdfast_effects SET status = 'unknown'", "S20"),
    "a message that nobody publishes": (
        "INSERT INTO holdfast_outbox (id, aggregate_id, destination, message_type, payload, created_at, available_at) "
        f"SELECT id, 'a', 'd', 't', '', 1, 1 FROM {SUCCEEDED} AS s",
        "L2",
    ),
    "a job parked for nobody": (
        "UPDATE holdfast_jobs SET state = 'queued', parked = 1, provider = 'gone', finished_at = NULL "
        "WHERE state = 'succeeded'",
        "S18",
    ),
}


@pytest.mark.parametrize("name", NEGLECTED)
async def test_what_nobody_looks_after_is_found_once_it_is_late(deploy: Deploy, clock: HandClock, name: str) -> None:
    world = await worked(deploy)
    text, promise = NEGLECTED[name]
    await write(world, text)
    clock.advance(7_200)
    assert promise in {finding.promise for finding in await audit(world.kernel)}


async def test_a_finding_that_a_second_look_does_not_show_is_none(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await worked(deploy)
    await write(world, "UPDATE holdfast_effects SET status = 'unknown'")
    looks: list[Any] = []

    class Mending:
        """The store of a database that is put right between two looks."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def reading(self) -> Any:
            looks.append(1)
            return store.reading() if len(looks) == 1 else _mended(store)

    store = world.kernel.store
    monkeypatch.setattr(world.kernel, "store", Mending())
    assert await audit(world.kernel) == []
    assert len(looks) > 1


def _mended(store: Any) -> Any:
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def reading() -> Any:
        async with store.transaction() as tx:
            await tx.rows(_statement("mended", {None: "UPDATE holdfast_effects SET status = 'sent'"}))
            yield tx

    return reading()
