"""A job that waits for nothing needs no task of its own; none of them can tell."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from holdfast import App, Context, Job, stage
from holdfast.engines.worker import Worker
from holdfast.kernel.running.eager import first_step, resume
from holdfast.kernel.submit import submit
from holdfast.testing import HandClock
from tests.kernel.places import Place, close_all, rows

mood: ContextVar[str] = ContextVar("mood", default="none")


class Crowd:
    """One app whose jobs note who ran, in which task, and in which mood they found themselves."""

    def __init__(self) -> None:
        self.app = App("crowd")
        self.began: list[str] = []
        self.ended: list[str] = []
        self.moods: list[str] = []
        self.tasks: dict[str, set[Any]] = {}
        self.gate = asyncio.Event()
        crowd = self

        @self.app.job()
        class Visit(Job[str]):
            @stage(timeout_s=0.2)
            async def look(self, ctx: Context, text: str) -> str:
                return await crowd.visit(text)

        self.job = Visit

    async def visit(self, text: str) -> str:
        self.began.append(text)
        self.moods.append(mood.get())
        mood.set(text)
        self.tasks.setdefault(text, set()).add(asyncio.current_task())
        if text.startswith("waits"):
            async with asyncio.timeout(60):  # binds to the task of the first step
                await self.gate.wait()
            self.tasks[text].add(asyncio.current_task())
            assert mood.get() == text
        if text == "hangs":
            await asyncio.Event().wait()
        if text == "hurries":
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        self.ended.append(text)
        return text


@asynccontextmanager
async def working(place: Place, clock: HandClock, crowd: Crowd, texts: list[str]) -> AsyncIterator[Worker]:
    kernel = place.kernel(crowd.app, clock=clock)
    for text in texts:
        await submit(kernel, crowd.job, text)
        clock.advance(0.001)
    stop, worker = asyncio.Event(), Worker(kernel, concurrency=20)
    task = asyncio.create_task(worker.run(stop))
    yield worker
    stop.set()
    await asyncio.wait_for(task, 30)
    await close_all(place)


async def until(worker: Worker, ended: int) -> None:
    async with asyncio.timeout(30):
        while worker.completed < ended:  # noqa: ASYNC110 - what is settled has no event of its own
            await asyncio.sleep(0.002)


async def states(worker: Worker) -> list[str]:
    found = await rows(worker.kernel.store, "SELECT state FROM holdfast_jobs ORDER BY run_at, id")
    return [row["state"] for row in found]


@pytest.mark.spec("K2", "K4")
async def test_one_that_waits_holds_up_nobody_behind_it(place: Place, clock: HandClock) -> None:
    crowd = Crowd()
    async with working(place, clock, crowd, ["a", "waits1", "b", "waits2", "c"]) as worker:
        await until(worker, 3)
        assert crowd.ended == ["a", "b", "c"] and sorted(crowd.began) == ["a", "b", "c", "waits1", "waits2"]
        crowd.gate.set()
        await until(worker, 5)
        assert await states(worker) == ["succeeded"] * 5


@pytest.mark.spec("K2")
async def test_each_attempt_has_one_task_and_a_context_of_its_own(place: Place, clock: HandClock) -> None:
    crowd = Crowd()
    async with working(place, clock, crowd, ["a", "waits1", "b", "waits2"]) as worker:
        await until(worker, 2)
        crowd.gate.set()
        await until(worker, 4)
    assert crowd.moods == ["none"] * 4, "what one job sets in its context, another never sees"
    assert all(len(tasks) == 1 for tasks in crowd.tasks.values())
    assert crowd.tasks["waits1"].isdisjoint(crowd.tasks["waits2"])


@pytest.mark.spec("K4")
async def test_only_one_that_waits_can_be_timed_out_and_its_neighbours_are_spared(
    place: Place, clock: HandClock
) -> None:
    crowd = Crowd()
    async with working(place, clock, crowd, ["a", "hangs", "hurries", "b"]) as worker:
        await until(worker, 4)
        found = await rows(worker.kernel.store, "SELECT state, error FROM holdfast_jobs ORDER BY run_at, id")
        classes = sorted((row["state"], json.loads(row["error"] or "{}").get("error_class", "")) for row in found)
        cut = [("queued", "NETWORK_TIMEOUT"), ("queued", "STAGE_TIMEOUT")]  # its own limit, and the stage's
        assert classes == [*cut, ("succeeded", ""), ("succeeded", "")]


async def test_the_rest_of_a_coroutine_goes_on_as_if_it_had_been_awaited() -> None:
    seen: list[object] = []

    async def work() -> str:
        await asyncio.sleep(0)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)
        return "done"

    async def driver() -> str:
        coroutine = work()
        ended, got = first_step(coroutine)
        assert not ended
        return str(await resume(coroutine, got))

    task = asyncio.create_task(driver())
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    assert await task == "done" and seen == ["cancelled"]


async def test_a_coroutine_that_never_waits_has_ended_after_its_first_step() -> None:
    async def answer(value: int) -> int:
        return value

    async def refuse() -> None:
        raise LookupError("no")

    assert first_step(answer(7)) == (True, 7)
    with pytest.raises(LookupError):
        first_step(refuse())
