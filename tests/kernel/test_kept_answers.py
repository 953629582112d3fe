"""What becomes of the answers that were paid for: told apart by name, forgotten with their job, never kept too late."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import App, CallError, Category, Context, Job, Provider, stage
from holdfast.kernel import operate
from holdfast.kernel.upkeep.prune import prune_once
from holdfast.tables import answers
from holdfast.tables.answers import RunId
from tests.kernel.places import Deploy
from tests.kernel.test_paid import PATIENT, Model, kept, started


@pytest.mark.spec("K18")
async def test_bytes_and_names_and_gathered_calls(deploy: Deploy) -> None:
    """The second attempt asks in another order: names tell the calls apart."""
    app, asked, fails = App("many"), list[str](), [True]

    async def ask(key: str, part: int) -> bytes:
        asked.append(key)
        return bytes([0, 255, part])

    async def ask_for(ctx: Context, part: int) -> bytes:
        return await ctx.paid_call(lambda key: ask(key, part), answer=bytes, name=f"part-{part}")

    @app.job()
    class Many(Job[int]):
        @stage(provider=Provider("model"), retry=PATIENT)
        async def run(self, ctx: Context, parts: int) -> list[int]:
            order = list(range(parts)) if fails else list(reversed(range(parts)))
            found = dict(zip(order, await asyncio.gather(*[ask_for(ctx, part) for part in order]), strict=True))
            if fails:
                fails.pop()
                raise CallError.of(Category.NETWORK, "LATER", "again")
            return [found[part][2] for part in range(parts)]

    world = await deploy(app)
    job_id = await world.enqueue(Many, 5)
    await world.run_until_idle()
    assert (await world.results(job_id))["run"] == "[0,1,2,3,4]" and len(set(asked)) == len(asked) == 5


@pytest.mark.spec("K18", "K19")
async def test_answers_of_jobs_that_ended_otherwise_are_forgotten(deploy: Deploy) -> None:
    model = Model()
    model.handler_fails = 1
    world, job_id = await started(deploy, model)
    await world.work()
    assert len(await kept(world)) == 2
    assert await prune_once(world.kernel) == 0, "not while the job may ask for them"
    await operate.cancel(world.kernel, job_id, "ann")
    assert await prune_once(world.kernel) == 2 and await kept(world) == []


@pytest.mark.spec("K18")
async def test_an_answer_that_comes_after_the_job_has_left_is_not_kept(deploy: Deploy) -> None:
    model = Model()
    world, job_id = await started(deploy, model)
    await world.run_until_idle()
    async with world.kernel.store.transaction() as tx:
        late = answers.NewAnswer(RunId(job_id, "grade", 0, "#1"), 0, '"late"')
        await answers.put(tx, [late], world.kernel.now())
    assert await kept(world) == []
