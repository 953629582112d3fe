"""Stages that block run in threads, stages that compute in processes: the same lease, time, cancellation and grace."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import App, Context, Job, SyncContext, stage
from holdfast.engines.worker import Worker
from holdfast.errors import BadDeclaration
from holdfast.kernel import operate
from holdfast.kernel.running.processes import Pools
from holdfast.testing import World, world
from tests.kernel import blocking_app, slow_import_app
from tests.kernel.blocking_app import (
    Asks,
    Computes,
    ComputesOddly,
    Endless,
    Fails,
    Hangs,
    Holds,
    Plain,
    Spins,
    app,
)
from tests.kernel.places import Deploy


@pytest.fixture
def clean() -> None:
    for notes in (blocking_app.threads, blocking_app.sends, blocking_app.stopped):
        notes.clear()
    blocking_app.begun.clear()
    blocking_app.gate.clear()
    blocking_app.ended.clear()


@pytest.fixture
async def real(deploy: Deploy, clean: None) -> AsyncIterator[World]:
    """A world whose stages run aside as in production, with a place for one process."""
    world = await deploy(app)
    world.kernel.aside = Pools(processes=1)
    yield world
    blocking_app.gate.set()
    await world.kernel.aside.close()


@pytest.mark.spec("K23")
@pytest.mark.parametrize("pools", [True, False])
async def test_a_plain_def_runs_in_a_thread_with_all_of_its_context(deploy: Deploy, clean: None, pools: bool) -> None:
    world = await deploy(app)
    if pools:
        world.kernel.aside = Pools()
    jobs = [await world.enqueue(Plain, text) for text in ("a", "b")]
    await world.run_until_idle()
    assert [await world.results(job) for job in jobs] == [
        {"run": f'"{text} id-True"', "then": f'"{text.upper()} ID-TRUE"'} for text in ("a", "b")
    ]
    assert threading.get_ident() not in blocking_app.threads and len(blocking_app.sends) == 2
    assert (await world.events(jobs[0])).count("progress") == 1
    await world.kernel.aside.close()


GAVE_A_COROUTINE = "gave a coroutine to the ctx of a plain def stage, where nobody awaits it: give a plain function"
INTERRUPTED = "The stage raised KeyboardInterrupt(), which would end the worker; raise another."


@pytest.mark.spec("K23")
@pytest.mark.parametrize("pools", [True, False])
async def test_each_thread_of_a_stage_is_told_what_came_of_its_own_question(
    deploy: Deploy, clean: None, pools: bool
) -> None:
    world = await deploy(app)
    if pools:
        world.kernel.aside = Pools()
    told = {
        "in turn": json.dumps([f"id {number}" for number in range(6)], separators=(",", ":")),
        "inside": "5",
        "paid": "[40,40]",
        "wait": None,
        "after": None,
    }
    refused = {
        "async call": f"'ask_later' {GAVE_A_COROUTINE}",
        "async send": GAVE_A_COROUTINE,
        "interrupted": INTERRUPTED,
        "interrupted inside": INTERRUPTED,
    }
    jobs = {what: await world.enqueue(Asks, what) for what in (*told, *refused)}
    await world.run_until_idle()
    assert {what: (await world.results(jobs[what])).get("run") for what in told} == told
    assert {await world.state(jobs[what]) for what in told} == {"succeeded"}
    letters = {letter["job_id"]: letter for letter in await world.dead_letters()}
    for what, sentence in refused.items():
        letter = letters[jobs[what]]
        assert sentence in letter["last_error"] and letter["attempts_made"] == 1, what
        assert letter["error_class"] == "USAGE_ERROR"
    blocking_app.begun.set()
    assert await asyncio.to_thread(blocking_app.ended.wait, 10)
    assert "has used ctx after the stage had ended; join it before that" in blocking_app.stopped[0]
    await world.kernel.aside.close()


@pytest.mark.spec("K23")
async def test_what_it_raises_is_classified_and_retried(real: World) -> None:
    job = await real.enqueue(Fails, "x")
    await real.run_until_idle()
    assert (await real.events(job)).count("retried") == 1
    (letter,) = await real.dead_letters()
    assert letter["error_class"] == "SHOP_CLOSED" and letter["attempts_made"] == 2


@pytest.mark.spec("K23")
async def test_a_thread_is_stopped_at_the_stages_limit(real: World) -> None:
    job = await real.enqueue(Spins, 30.0)
    await real.run_until_idle()
    assert await asyncio.to_thread(blocking_app.ended.wait, 10) and blocking_app.stopped == ["StageStopped"]
    (letter,) = await real.dead_letters()
    assert letter["error_class"] == "STAGE_TIMEOUT" and await real.state(job) == "dead"


@pytest.mark.spec("K23")
async def test_threads_that_do_not_stop_are_bounded_and_cost_the_next_job_nothing(real: World) -> None:
    await real.enqueue(Hangs, "x")
    await Worker(real.kernel, concurrency=1).run_until_idle()
    (letter,) = await real.dead_letters()
    assert letter["error_class"] == "STAGE_TIMEOUT"
    job = await real.enqueue(Plain, "a")
    await Worker(real.kernel, concurrency=1).run_until_idle()
    row = await real.job(job)
    assert row["state"] == "queued" and row["failures"] == 0
    assert (await real.events(job))[-1] == "snoozed"
    blocking_app.gate.set()
    await real.run_until_idle()
    assert await real.state(job) == "succeeded"


@pytest.mark.spec("K23")
async def test_a_cancelled_job_stops_its_thread_and_grace_gives_the_others_back(real: World) -> None:
    worker, stop = Worker(real.kernel, concurrency=2, grace_s=0.1), asyncio.Event()
    running = asyncio.ensure_future(worker.run(stop))
    spinning = await real.enqueue(Spins, 30.0)  # its limit of 0.2 s ends it if nothing else does
    job = await real.enqueue(Holds, "x")
    await asyncio.to_thread(blocking_app.begun.wait, 10)
    await operate.cancel(real.kernel, spinning, "tester")
    await worker.renew()
    stop.set()
    await running
    assert await asyncio.to_thread(blocking_app.ended.wait, 10) and blocking_app.stopped == ["StageStopped"]
    assert await real.state(spinning) == "cancelled"
    assert await real.events(job) == ["created", "claimed", "released"]
    assert (await real.job(job))["crashes"] == 0


ODD = {
    "threads": "[0,1,2,3,4,5,6,7]",
    "fork": "",
    "stdin": '""',
    "exit": "called sys.exit(7)",
    "lambda": "it is a function, which cannot be sent to the worker",
    "later": "it is a coroutine: an `await` is missing",
    "interrupt": INTERRUPTED,
}
"""What stages in a process do that once was read as another stage's answer, waited for ever, or was tried again."""


@pytest.mark.slow
@pytest.mark.spec("K23", "K3")
async def test_cpu_stages_run_in_processes_which_die_alone(clean: None) -> None:
    """One is used again and again; one that dies is a lost attempt; one that is too slow is killed; what is raised
    there comes back as what it is."""
    async with world(app, slow_import_app.app) as real:
        real.kernel.aside = Pools(processes=1)
        late = await real.enqueue(slow_import_app.Late, "in time")
        await real.work()
        assert await real.results(late) == {"run": '"in time"'}, "imports are no time of the stage's"
        well = [await real.enqueue(Computes, "x") for _ in range(3)]
        await real.work()
        pids = {(await real.results(job))["run"] for job in well}
        assert len(pids) == 1 and str(os.getpid()) not in pids
        assert (await real.events(well[0])).count("progress") == 1
        killer, after = await real.enqueue(Computes, "die"), await real.enqueue(Computes, "x")
        await real.work()
        row = await real.job(killer)
        assert (row["crashes"], row["failures"], row["state"]) == (1, 0, "queued")
        assert (await real.events(killer))[-1] == "lost" and await real.state(after) == "succeeded"
        odd = {what: await real.enqueue(ComputesOddly, what) for what in ODD}
        after = await real.enqueue(Computes, "x")
        kinds: tuple[tuple[type[Job[str]], str], ...]
        kinds = ((Endless, "x"), (Computes, "closed"), (Computes, "odd"), (Computes, "effect"))
        jobs = {await real.enqueue(kind, what): what for kind, what in kinds} | {killer: "die"}
        await real.run_until_idle()
        found = {jobs.get(letter["job_id"], ""): letter for letter in await real.dead_letters()}
        assert found["die"]["error_class"] == "POISON_JOB" and found["x"]["error_class"] == "STAGE_TIMEOUT"
        assert found["closed"]["error_class"] == "SHOP_CLOSED" and "Odd: one" in found["odd"]["last_error"]
        assert "ctx.effect is not to be had in the process" in found["effect"]["last_error"]
        letters = {letter["job_id"]: letter for letter in await real.dead_letters()}
        for what, sentence in ODD.items():
            result = (await real.results(odd[what])).get("run", "")
            assert (
                result == str(os.getpid())
                if what == "fork"
                else sentence in (result or letters[odd[what]]["last_error"])
            )
        assert all(letters[odd[what]]["attempts_made"] == 1 for what in ("exit", "lambda", "later", "interrupt"))
        assert await real.state(after) == "succeeded", "nothing of theirs is read as another's"
        await real.kernel.aside.close()


@pytest.mark.spec("K23")
async def test_in_a_world_a_cpu_stage_takes_its_turn(deploy: Deploy) -> None:
    world = await deploy(app)
    job = await world.enqueue(Computes, "x")
    await world.run_until_idle()
    assert (await world.results(job))["run"] == str(os.getpid())


def _refused(body: Any) -> str:
    with pytest.raises(BadDeclaration) as refused:
        App("refused").job()(type("Ship", (Job,), {**body, "__orig_bases__": (Job[str],)}))
    return str(refused.value)


@stage()
def wrong_context(self: object, ctx: Context, text: str) -> None: ...


@stage()
async def wrong_sync_context(self: object, ctx: SyncContext, text: str) -> None: ...


@stage(cpu=True)
async def waits_and_computes(self: object, ctx: Context, text: str) -> None: ...


@stage()
def yields(self: object, ctx: SyncContext, text: str) -> Any:
    yield text


def test_what_could_only_go_wrong_in_a_worker_is_refused_where_it_is_declared() -> None:
    assert "its ctx is a SyncContext" in _refused({"pack": wrong_context})
    assert "its ctx is a Context, not a SyncContext" in _refused({"pack": wrong_sync_context})
    assert "with cpu=True it must be a plain def" in _refused({"pack": waits_and_computes})
    assert "a stage must return its result" in _refused({"pack": yields})
    with pytest.raises(BadDeclaration, match="declare it at the top of a module"):

        @app.job()
        class Hidden(Job[str]):
            @stage(cpu=True)
            def run(self, ctx: SyncContext, text: str) -> None: ...
