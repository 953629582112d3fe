"""The people of a seed: learners who submit, instructors who race for reviews, an operator with the dead letters.

Each acts in a process of its own that may die at any await; what they know is kept here, outside of it. All of them
call what the HTTP routes and the command line call.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast import HoldfastError, IdempotencyConflict
from holdfast.errors import StoreError
from holdfast.http.auth import Principal
from holdfast.http.problem import Problem
from holdfast.kit import Kernel
from holdfast.kit.repair import operate
from holdfast.settings import read
from holdfast_proof.operator import Operator
from holdfast_systems.grading import transitions
from holdfast_systems.grading.instructor_http import InstructorReview, instructor_step, submit_review
from holdfast_systems.grading.main_http import NewSubmission, create_submission
from holdfast_systems.grading.resubmission import resubmit_submission
from holdfast_systems.grading.settings import MainSettings
from holdfast_systems.grading.sim.apps import ENV
from holdfast_systems.grading.sim.wishes import AnswerToLearner, GradingWish

if TYPE_CHECKING:
    from holdfast_systems.grading.sim.world import GradingWorld

SETTINGS = read(MainSettings, ENV)
REST_AFTER_MS = 150_000
RESUBMITTED_SLA_S = 300.0
REPLAYS_MAX = 2


class People:
    """Everybody who is no machine."""

    def __init__(self, world: GradingWorld) -> None:
        self.world = world
        self.dice = world.loop.stream("people")
        self.answered: list[AnswerToLearner] = []
        self.refusals = 0
        self._person = Operator(self.dice, replays_max=REPLAYS_MAX)

    # Learners

    async def learner(self, kernel: Kernel, stop: asyncio.Event) -> None:
        """Submit what is due, until it is answered. An error may have been a success: the key makes it safe to ask."""
        world = self.world
        while not stop.is_set():
            waiting = [wish for wish in world.wishes if not wish.is_done]
            due = [wish for wish in waiting if wish.at_ms <= world.loop.now_ms]
            if due:
                clicks = [self._submit(kernel, wish) for wish in due for _ in range(wish.clicks - wish.answers)]
                await asyncio.gather(*clicks)
            upcoming = [wish.at_ms for wish in waiting if wish.at_ms > world.loop.now_ms]
            wait_ms = 1_000 if due else min(upcoming, default=world.loop.now_ms + 600_000) - world.loop.now_ms
            await asyncio.sleep(max(1, wait_ms) / 1_000)

    async def _submit(self, kernel: Kernel, wish: GradingWish) -> None:
        who = Principal(wish.user, frozenset({"learner"}))
        settings = replace(SETTINGS, writing_sla_s=wish.sla_s, speaking_sla_s=wish.sla_s)
        try:
            new = NewSubmission.model_validate({"skill": wish.skill, "payload": wish.payload})
            answer = await create_submission(kernel, settings, who, new, wish.key)
        except StoreError:
            return
        except IdempotencyConflict:
            body: dict[str, Any] = {"id": None, "requestId": None}
        else:
            body = json.loads(bytes(answer.body))
        wish.answers += 1
        payload = json.dumps(wish.payload, sort_keys=True)
        told = AnswerToLearner(self.world.loop.now_ms, wish.user, wish.key, payload, body["id"], body["requestId"])
        self.answered.append(told)

    async def resubmitter(self, kernel: Kernel, stop: asyncio.Event) -> None:
        """Learners who do not take a failure for an answer, and an operator who helps them; twice at once, too."""
        while not stop.is_set():
            await self._rest(self.dice.uniform(20, 120))
            rows = self.world.query("SELECT id, user_id, status FROM submissions WHERE attempt < 3 ORDER BY id")
            for row in rows:
                # Whoever has a stale page asks for what has not failed, too.
                if self.dice.random() < (0.5 if row["status"] == "FAILED" else 0.1):
                    await self._resubmit(kernel, row["id"], row["user_id"])

    async def _resubmit(self, kernel: Kernel, submission_id: str, user: str) -> None:
        settings = replace(SETTINGS, writing_sla_s=RESUBMITTED_SLA_S, speaking_sla_s=RESUBMITTED_SLA_S)
        who = Principal(self.dice.choice((user, "olga")), frozenset({"learner", "operator"}))
        key = str(uuid.UUID(int=self.dice.getrandbits(128), version=4))
        clicks = [
            resubmit_submission(kernel, settings, submission_id, who, key, required=True)
            for _ in range(self.dice.choice((1, 1, 2)))
        ]
        for outcome in await asyncio.gather(*clicks, return_exceptions=True):
            self.refusals += isinstance(outcome, Problem)
            if isinstance(outcome, BaseException) and not isinstance(outcome, Problem | HoldfastError):
                raise outcome

    # Instructors

    def instructor(self, name: str) -> Callable[[Kernel, asyncio.Event], Any]:
        """Takes what is on top of the queue, as the others do at the same moment."""

        async def work(kernel: Kernel, stop: asyncio.Event) -> None:
            who = Principal(name, frozenset({"instructor"}))
            while not stop.is_set():
                await self._rest(self.dice.uniform(10, 90))
                for submission_id in self._queue():
                    await self._review(kernel, who, submission_id)

        return work

    def _queue(self) -> list[str]:
        rows = self.world.query(
            "SELECT id FROM submissions WHERE status = 'REVIEW_REQUIRED' ORDER BY priority_rank, id LIMIT 2"
        )
        found = [row["id"] for row in rows]
        rows = self.world.query("SELECT id FROM submissions ORDER BY id")
        if rows and self.dice.random() < 0.2:
            found.append(self.dice.choice(rows)["id"])  # a stale page: it may be in any state by now
        return found

    async def _review(self, kernel: Kernel, who: Principal, submission_id: str) -> None:
        steps: list[Any] = [lambda: instructor_step(kernel, submission_id, lambda one, now: _claim(one, who, now))]
        roll = self.dice.random()
        if roll < 0.15:
            steps.append(
                lambda: instructor_step(kernel, submission_id, lambda one, now: transitions.release(one, who.sub))
            )
        elif roll < 0.9:
            given = InstructorReview(overall_score=self.dice.choice((2.0, 5.5, 6.0, 9.0)), feedback="Read it aloud.")
            key = None if self.dice.random() < 0.5 else str(uuid.UUID(int=uuid.UUID(submission_id).int, version=4))
            steps.append(lambda: submit_review(kernel, submission_id, who, given, key))
        for step in steps:
            clicks = [step() for _ in range(self.dice.choice((1, 1, 2)))]
            for outcome in await asyncio.gather(*clicks, return_exceptions=True):
                self.refusals += isinstance(outcome, Problem)
                if isinstance(outcome, BaseException) and not isinstance(outcome, Problem | HoldfastError):
                    raise outcome

    # The operator of the grading service

    async def operator(self, kernel: Kernel, stop: asyncio.Event) -> None:
        """Triage, mend, replay (twice, as an impatient finger does), and now and then cancel."""
        while not stop.is_set():
            await self._rest(self.dice.uniform(15, 80))
            try:
                await self._work_cases(kernel)
                if self.dice.random() < 0.09 and not self.world.is_healing:
                    await self._cancel_one(kernel)
            except HoldfastError:
                continue

    async def _work_cases(self, kernel: Kernel) -> None:
        letters = self.world.query(
            "SELECT id, job_id, state FROM holdfast_dead_letters ORDER BY id LIMIT 20", database="service"
        )
        await self._person.work_cases(kernel, letters)

    async def _cancel_one(self, kernel: Kernel) -> None:
        live = self.world.query(
            "SELECT id FROM holdfast_jobs WHERE state IN ('queued', 'processing') ORDER BY id", database="service"
        )
        if live:
            await operate.cancel(kernel, self.dice.choice(live)["id"], "operator")

    async def _rest(self, pause_s: float) -> None:
        """People go home some time after the faults are over: the end must come."""
        await asyncio.sleep(pause_s)
        healed_ms = self.world.healed_ms
        if healed_ms is not None and self.world.loop.now_ms > healed_ms + REST_AFTER_MS:
            await asyncio.Event().wait()


def _claim(one: transitions.Submission, who: Principal, now: int) -> transitions.SubmissionChange | None:
    return transitions.claim(one, who.sub, now)
