"""A job's row says what went wrong last, whatever came after it but its success."""

from __future__ import annotations

import json

import pytest

from holdfast import App, CallError, Category, Context, Job, Retry, Snooze, stage
from holdfast.core.outcome import Done, Failed, Held, Next, Outcome, Released
from holdfast.kernel.settle import Ending
from holdfast.kernel.turn import turn
from tests.kernel.places import Deploy, rows, take

app = App("memory")


@app.job()
class Try(Job[str]):
    @stage(retry=Retry(attempts=9, base_s=1, jitter="none"))
    async def first(self, ctx: Context, text: str) -> str:
        return text

    @stage()
    async def second(self, ctx: Context, text: str, first: str) -> None: ...


@pytest.mark.spec("K4", "K20")
async def test_the_last_error_stays_until_another_takes_its_place_or_the_job_succeeds(deploy: Deploy) -> None:
    world = await deploy(app)
    await world.enqueue(Try, "x")

    async def ended(outcome: Outcome) -> str | None:
        (job,) = await take(world.kernel)
        await turn(world.kernel, "w1", (), [Ending(job, outcome)], 0)
        world.clock.advance(120)
        (row,) = await rows(world.kernel.store, "SELECT error FROM holdfast_jobs")
        return json.loads(row["error"])["message"] if row["error"] else None

    def failed(message: str) -> Failed:
        return Failed(CallError.of(Category.NETWORK, "FLAKY", message).failure)

    assert await ended(Snooze(1)) is None, "nothing has gone wrong yet"
    assert await ended(failed("the first")) == "the first"
    for quiet in (Snooze(1), Released(), Held("llm", "busy", world.kernel.now() + 1)):
        assert await ended(quiet) == "the first", f"{quiet} has wiped it out"
    assert await ended(failed("the second")) == "the second"
    assert await ended(Next("done")) == "the second"
    assert await ended(Done("all")) is None, "what has succeeded has no error; its events keep them"
