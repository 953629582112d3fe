"""What a handler logs is kept with its attempt: bounded, redacted, and nobody else's."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from holdfast import App, Context, Job, SyncContext, stage
from holdfast.core.failure import Category
from holdfast.errors import CallError
from holdfast.kernel.observe.attempt_log import LINES_MAX, keep_logs
from tests.kernel.places import Deploy, rows

app = App("logging")
log = logging.getLogger("shop.logging")


@app.job()
class Talk(Job[str]):
    @stage()
    async def speak(self, ctx: Context, text: str) -> None:
        log.warning("begins %s", text)
        await asyncio.sleep(0)
        if text == "much":
            for number in range(LINES_MAX + 50):
                log.warning("line %d", number)
        if text == "secret":
            log.warning("password=hunter2-and-more")
        if text == "odd":
            log.warning("%d", "no number")
        if text == "fails":
            raise CallError.of(Category.VALIDATION, "NO", "no")


@app.job()
class Hush(Job[str]):
    @stage()
    def still(self, ctx: SyncContext, text: str) -> None:
        if text == "thread":
            log.warning("from a thread")


@pytest.fixture(autouse=True)
def heard() -> Any:
    before = list(logging.root.handlers)
    keep_logs()
    yield
    logging.root.handlers[:] = before


async def books(world: Any) -> dict[str, Any]:
    found = await rows(world.kernel.store, "SELECT job_id, lines FROM holdfast_logs")
    return {str(row["job_id"]): json.loads(row["lines"]) for row in found}


@pytest.mark.spec("K17")
async def test_the_lines_of_attempts_that_run_side_by_side_are_kept_apart(deploy: Deploy) -> None:
    world = await deploy(app)
    jobs = {text: await world.enqueue(Talk, text) for text in ("a", "b", "fails", "odd")}
    quiet, threaded = await world.enqueue(Hush, "x"), await world.enqueue(Hush, "thread")
    await world.run_until_idle()
    kept = await books(world)
    assert quiet not in kept, "an attempt that logs nothing writes nothing"
    for text in ("a", "b", "fails"):
        assert [line[3] for line in kept[jobs[text]]["lines"]] == [f"begins {text}"]
    assert [line[3] for line in kept[threaded]["lines"]] == ["from a thread"]
    assert "TypeError while it was written" in kept[jobs["odd"]]["lines"][1][3]
    assert kept[jobs["a"]]["lines"][0][1:3] == ["WARNING", "shop.logging"]


@pytest.mark.spec("K13")
async def test_lines_are_bounded_and_redacted(deploy: Deploy) -> None:
    world = await deploy(app)
    much, secret = await world.enqueue(Talk, "much"), await world.enqueue(Talk, "secret")
    await world.run_until_idle()
    kept = await books(world)
    assert (kept[much]["number"], len(kept[much]["lines"])) == (LINES_MAX + 51, LINES_MAX)
    assert "hunter2" not in json.dumps(kept[secret])


async def test_warnings_still_reach_standard_error_where_nobody_else_handles_them(capsys: Any) -> None:
    logging.root.handlers[:] = [each for each in logging.root.handlers if type(each).__name__ == "AttemptLogHandler"]
    log.warning("seen by a person")
    log.info("not asked for")
    assert "seen by a person" in capsys.readouterr().err
