"""The jobs table against a model: whatever is done in whatever order, the row is what a dictionary says it is."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from holdfast import App, Context, Job, Next, Retry, Snooze, Wait, stage
from holdfast.core.failure import Category, failure
from holdfast.core.job import Claimed, State
from holdfast.core.outcome import Failed, Outcome, Released
from holdfast.errors import NotAllowed
from holdfast.kernel import operate
from holdfast.kernel.intake import called_back
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.reap import reap_once, sweep_once
from holdfast.kernel.settle import Ending
from holdfast.kernel.submit import submit
from holdfast.kernel.turn import end
from holdfast.stores.clock import SeededDice
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import HandClock
from tests.kernel.places import _migrated, rows, take

T = TypeVar("T")
app = App("model")
ATTEMPTS = 3


@app.job(deadline_s=1_000)
class Thing(Job[str]):
    @stage(retry=Retry(attempts=ATTEMPTS, base_s=10, multiplier=1, jitter="none"))
    async def one(self, ctx: Context, text: str) -> str: ...

    @stage(retry=Retry(attempts=ATTEMPTS, base_s=10, multiplier=1, jitter="none"))
    async def two(self, ctx: Context, text: str) -> str: ...


@dataclass
class Model:
    """What the row should say."""

    state: State
    created_at: int
    run_at: int
    deadline_at: int
    stage: str = "one"
    attempt: int = 0
    failures: int = 0
    crashes: int = 0
    lease_until: int = 0


TRANSIENT = Failed(failure(Category.NETWORK, "NETWORK_BROKEN", "x"))
PERMANENT = Failed(failure(Category.AUTH, "AUTH_INVALID", "x"))


class JobsMachine(RuleBasedStateMachine):
    """Claims, ends, loses, cancels and calls back jobs; stale claims are tried again at any later time."""

    claims = Bundle("claims")

    @initialize()
    def opened(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        path = Path(self.folder.name) / "model.db"
        shutil.copy(_template(), path)
        self.clock = HandClock()
        store = SqliteStore(path, clock=self.clock, inline=True)
        self.kernel = Kernel(store=store, registry=Registry([app]), dice=SeededDice(1))
        self.model: dict[str, Model] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @property
    def now(self) -> int:
        return self.clock.now_ms()

    @rule(delay_s=st.sampled_from([0, 0, 5, 50]))
    def enqueue(self, delay_s: int) -> None:
        job_id = self.run(submit(self.kernel, Thing, "x", delay_s=delay_s))
        self.model[job_id] = Model(State.QUEUED, self.now, self.now + delay_s * 1_000, self.now + 1_000_000)

    @rule(seconds=st.sampled_from([0.001, 1, 10, 61, 400]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(target=claims)
    def claim(self) -> Claimed | None:
        due = [m for m in self.model.values() if m.state is State.QUEUED and m.run_at <= self.now]
        taken = self.run(take(self.kernel, limit=1))
        assert bool(taken) == bool(due)
        for job in taken:
            known = self.model[job.id]
            assert known in due and known.created_at == min(m.created_at for m in due)
            known.state, known.attempt = State.PROCESSING, known.attempt + 1
            known.lease_until = self.now + 60_000
            assert (job.attempt, job.stage, job.failures) == (known.attempt, known.stage, known.failures)
        return taken[0] if taken else None

    @rule(job=consumes(claims), outcome=st.sampled_from(["next", "retry", "fatal", "snooze", "release", "wait"]))
    def end(self, job: Claimed | None, outcome: str) -> None:
        if job is not None:
            self._end(job, outcome)

    @rule(job=claims, outcome=st.sampled_from(["next", "retry", "release"]))
    def end_and_keep_for_later(self, job: Claimed | None, outcome: str) -> None:
        if job is not None:
            self._end(job, outcome)

    def _end(self, job: Claimed, outcome: str) -> None:
        known = self.model[job.id]
        answers: dict[str, Outcome] = {
            "next": Next("v"),
            "retry": TRANSIENT,
            "fatal": PERMANENT,
            "snooze": Snooze(5),
            "release": Released(),
            "wait": Wait(job.id, within_s=100),
        }
        accepted = self.run(self._settle(Ending(job, answers[outcome], '"v"')))
        held = known.state is State.PROCESSING and known.attempt == job.attempt
        assert accepted == ({job.id} if held else set())
        if held:
            self._expect(known, outcome)

    async def _settle(self, one: Ending) -> set[str]:
        async with self.kernel.store.transaction() as tx:
            return await end(self.kernel, tx, [one])

    def _expect(self, known: Model, outcome: str) -> None:
        match outcome:
            case "next" if self.now > known.deadline_at:
                known.state = State.DEAD
            case "next" if known.stage == "two":
                known.state = State.SUCCEEDED
            case "next":
                known.state, known.stage, known.run_at = State.QUEUED, "two", self.now
                known.failures = known.crashes = 0
            case "retry":
                known.failures += 1
                known.run_at = self.now + 10_000
                over = known.failures >= ATTEMPTS or known.run_at > known.deadline_at
                known.state = State.DEAD if over else State.QUEUED
            case "fatal":
                known.state, known.failures = State.DEAD, known.failures + 1
            case "snooze":
                known.state, known.run_at = State.QUEUED, self.now + 5_000
            case "release":
                known.state, known.run_at = State.QUEUED, self.now
            case "wait":
                known.state, known.run_at, known.crashes = State.WAITING, self.now + 100_000, 0

    @rule()
    def reap(self) -> None:
        self.run(reap_once(self.kernel))
        for known in self.model.values():
            if known.state is State.PROCESSING and known.lease_until < self.now:
                known.crashes += 1
                known.state = State.DEAD if known.crashes >= 3 else State.QUEUED
                known.run_at = self.now + 1_000 * known.crashes

    @rule()
    def sweep(self) -> None:
        self.run(sweep_once(self.kernel))
        for known in self.model.values():
            live = known.state in (State.QUEUED, State.PROCESSING, State.WAITING)
            unanswered = known.state is State.WAITING and known.run_at < self.now
            if unanswered or (live and known.deadline_at < self.now):
                known.state = State.DEAD

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if not self.model:
            return
        job_id = data.draw(st.sampled_from(sorted(self.model)))
        known = self.model[job_id]
        if known.state in (State.QUEUED, State.PROCESSING, State.WAITING):
            self.run(operate.cancel(self.kernel, job_id, "ann"))
            known.state = State.CANCELLED
        else:
            with pytest.raises(NotAllowed):
                self.run(operate.cancel(self.kernel, job_id, "ann"))

    @rule(data=st.data())
    def call_back(self, data: st.DataObject) -> None:
        if not self.model:
            return
        job_id = data.draw(st.sampled_from(sorted(self.model)))
        known = self.model[job_id]
        got = self.run(called_back(self.kernel, job_id, self.kernel.new_id(), '"answer"'))
        assert got == (known.state is State.WAITING)
        if got:
            late = self.now > known.run_at
            self._expect(known, "next")
            known.state = State.DEAD if late else known.state

    @invariant()
    def the_table_says_the_same(self) -> None:
        if not hasattr(self, "model"):
            return
        text = "SELECT id, state, stage, attempt, failures, crashes, run_at FROM holdfast_jobs"
        for row in self.run(rows(self.kernel.store, text)):
            known = self.model[row["id"]]
            assert (row["state"], row["attempt"]) == (known.state, known.attempt)
            if known.state in (State.QUEUED, State.WAITING):
                assert row["run_at"] == known.run_at
                assert (row["stage"], row["failures"], row["crashes"]) == (
                    *(known.stage, known.failures, known.crashes),
                )

    def teardown(self) -> None:
        if hasattr(self, "model"):
            self.run(self.kernel.store.close())
            self.loop.close()
            self.folder.cleanup()


_home = tempfile.TemporaryDirectory(prefix="holdfast-model-")


@cache
def _template() -> Path:
    path = Path(_home.name) / "empty.db"
    asyncio.run(_migrated(SqliteStore(path)))
    return path


JobsMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


@pytest.mark.slow
@pytest.mark.spec("K3", "K15", "K14")
class TestTheJobsTableAgreesWithADictionary(JobsMachine.TestCase):  # type: ignore[name-defined,misc]
    """SQLite only: thousands of steps need a database that answers in microseconds."""
