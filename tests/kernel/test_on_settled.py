"""A job's own class writes what belongs to a change of the job in the transaction of the change."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from holdfast import App, Context, InvalidInput, Job, JobTx, Retry, Settled, stage
from holdfast.testing import World
from tests.kernel.places import Deploy, rows

pytestmark = pytest.mark.spec("K15")

app = App("hooks")


@app.job()
class Thank(Job[str]):
    @stage()
    async def thank(self, ctx: Context, who: str) -> str:
        return f"thanks, {who}"


@app.job()
class Pay(Job[str]):
    @stage()
    async def check(self, ctx: Context, who: str) -> str:
        return who

    @stage(retry=Retry(attempts=1))
    async def pay(self, ctx: Context, who: str, check: str) -> int:
        if who == "nobody":
            raise ValueError("nobody pays")
        return 5

    async def on_settled(self, tx: JobTx, change: Settled) -> None:
        why = change.failure.error_class if change.failure else None
        await tx.execute(
            "INSERT INTO shop_notes VALUES (CAST(:id AS TEXT), CAST(:state AS TEXT), CAST(:stage AS TEXT), "
            "CAST(:why AS TEXT))",
            id=change.job_id,
            state=change.state,
            stage=change.job.stage,
            why=why,
        )
        if change.state == "succeeded":
            await tx.enqueue(Thank, "you", key=f"thank:{change.job_id}")
        if change.job.payload == '"careless"':
            await tx.execute("SELECT :missing")


@pytest.fixture
async def world(deploy: Deploy) -> AsyncIterator[World]:
    """With a table of the shop's own beside the jobs."""
    world = await deploy(app)
    await write(world, "CREATE TABLE shop_notes (job_id TEXT, state TEXT, stage TEXT, why TEXT)")
    yield world
    await write(world, "DROP TABLE shop_notes")


async def write(world: World, text: str) -> None:
    async with world.kernel.store.transaction() as tx:
        await JobTx(world.kernel, tx).execute(text)


async def test_rows_and_further_jobs_are_committed_with_the_change(world: World) -> None:
    job_id = await world.enqueue(Pay, "ann")
    await world.run_until_idle()
    notes = await rows(world.kernel.store, "SELECT job_id, state, stage, why FROM shop_notes ORDER BY stage")
    assert notes == [
        {"job_id": job_id, "state": "queued", "stage": "check", "why": None},
        {"job_id": job_id, "state": "succeeded", "stage": "pay", "why": None},
    ]
    thanks = await rows(world.kernel.store, "SELECT job_key, state FROM holdfast_jobs WHERE kind = 'hooks.thank'")
    assert thanks == [{"job_key": f"thank:{job_id}", "state": "succeeded"}]


async def test_a_failure_is_told_with_its_class(world: World) -> None:
    await world.enqueue(Pay, "nobody")
    await world.run_until_idle()
    dead = await rows(world.kernel.store, "SELECT stage, why FROM shop_notes WHERE state = 'dead'")
    assert dead == [{"stage": "pay", "why": "BUG"}]
    assert not await rows(world.kernel.store, "SELECT id FROM holdfast_jobs WHERE kind = 'hooks.thank'")


async def test_a_hook_that_fails_leaves_none_of_its_rows(world: World) -> None:
    await world.enqueue(Pay, "careless")
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    assert letter["error_class"] == "SETTLE_FAILED"
    assert not await rows(world.kernel.store, "SELECT * FROM shop_notes")


async def test_a_statement_whose_value_is_missing_is_named(world: World) -> None:
    async with world.kernel.store.transaction() as tx:
        with pytest.raises(InvalidInput, match="names :who, but no who= was given"):
            await JobTx(world.kernel, tx).execute("SELECT :who")
