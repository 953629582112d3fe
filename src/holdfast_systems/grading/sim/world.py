"""Both grading services under simulated faults: the production apps on two databases, joined by the broker alone.

    learners, instructors -> main app --grading.request--> grading service -> models       operator
                                ^-----grading.callback--------/   \\--grading.dlq
    strangers: callbacks twice, late, out of order; requests again; messages that are none

Processes of either side die and stall; the broker drops, repeats, delays and reorders; models answer late, limited,
wrongly or not at all.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

from holdfast.engines.run import Duties, run
from holdfast.kit import Kernel
from holdfast.operator.finding import Violation
from holdfast_proof import world
from holdfast_proof.checker import PREDICATES
from holdfast_proof.checks_messages import check_acked, check_handled_once
from holdfast_proof.coverage import ALL_FAULTS, Coverage, edges_but
from holdfast_proof.history import RunHistory
from holdfast_proof.store import MEMORY
from holdfast_proof.world import Main, SimWorld
from holdfast_systems.grading.contract import DEAD_LETTER_QUEUE
from holdfast_systems.grading.sim import apps as world_apps
from holdfast_systems.grading.sim import checks as world_checks
from holdfast_systems.grading.sim import checks_attempts as world_checks_attempts
from holdfast_systems.grading.sim import checks_service as world_checks_service
from holdfast_systems.grading.sim.evidence import WATCHED, gather
from holdfast_systems.grading.sim.people import People
from holdfast_systems.grading.sim.strangers import Strangers
from holdfast_systems.grading.sim.wishes import draw_wishes

# Most of what these duties look for cannot happen here, or is announced by a bell; polling for it costs a seed's time.
TUNING = replace(world.TUNING, poll_s=70, reap_s=35, sweep_s=50, breaker_s=40, reconcile_s=900, relay_poll_s=70)
LIVE = "SELECT 1 FROM submissions WHERE status IN ('PENDING', 'PROCESSING') LIMIT 1"
# Grading's calls are paid for but need no ledger of effects; its jobs wait for nobody and are submitted by messages.
UNVISITED = ("effect.", "submit.", "reconcile.")
COVERAGE = Coverage(
    failpoints=frozenset(name for name in Coverage().failpoints if not name.startswith(UNVISITED)),
    faults=ALL_FAULTS - {"deduplicated"},
    edges=frozenset(edge for edge in edges_but("succeeded -> dead") if "waiting" not in edge),
    seen=frozenset({
        "PENDING -> FAILED", "PENDING -> PROCESSING", "PROCESSING -> COMPLETED", "PROCESSING -> FAILED",
        "PROCESSING -> REVIEW_REQUIRED", "REVIEW_REQUIRED -> COMPLETED", "answer repeated", "breaker told",
        "callback applied", "callback ignored", "callback mismatched", "callback unknown", "instructor refused",
        "FAILED -> COMPLETED", "FAILED -> PENDING", "FAILED -> REVIEW_REQUIRED", "callback superseded",
        "key conflict", "late request", "late result", "malformed answer", "refused callback", "refused message",
        "request repeated",
    }),
    at_least={"kills": 3.0, "stalls": 3.0, "jobs": 1.5, "provider calls": 4.0, "messages": 10.0},
    seeds=150,
)  # fmt: skip
CHECKS = (
    world_checks.check_submissions,
    world_checks.check_stories,
    world_checks.check_acceptance,
    world_checks_attempts.check_attempts,
    world_checks_attempts.check_superseded,
    world_checks_service.check_gradings,
    world_checks_service.check_answers,
    world_checks_service.check_poison,
    world_checks_service.check_refused,
    world_checks_service.check_deliveries,
    world_checks_service.check_order,
)


class GradingWorld(SimWorld):
    """One seed of both services."""

    system = "grading"
    databases = {"main": [world_apps.MAIN], "service": [world_apps.SERVICE]}  # noqa: RUF012
    stubs = world_apps.STUBS
    tuning = TUNING
    watched = WATCHED
    coverage = COVERAGE

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.answers = self.loop.stream("answers")
        self.malformed = self.answers.choice((0.0, 0.0, 0.15, 0.4))
        self.audio_folder = _folder(os.getpid())
        self.clean_disk()
        self.wishes = draw_wishes(self.loop.stream("wishes"), self.swarm.faults_s, self.swarm.providers)
        self.people = People(self)
        self.strangers = Strangers(self)

    def cast(self) -> None:
        self.loop.world.spawn(self.strangers.live(), name="strangers")
        for number in range(self.dice.choice((1, 1, 2))):
            self.role(f"main-{number}", _doing(Duties(work=False)), database="main")
        if self.dice.random() < 0.6:
            for number in range(self.dice.choice((1, 2))):
                self.role(f"service-{number}", _doing(Duties(concurrency=5, grace_s=5)), database="service")
        else:
            for number in range(self.dice.choice((1, 2))):
                work = Duties(relay=False, consume=False, keep=False, concurrency=4, grace_s=5)
                self.role(f"worker-{number}", _doing(work), database="service")
            self.role("keeper", _doing(Duties(work=False)), database="service")
        for number in range(self.dice.choice((1, 2))):
            self.role(f"learner-{number}", self.people.learner, database="main")
        if self.dice.random() < 0.6:
            self.role("resubmitter", self.people.resubmitter, database="main")
        for name in ("ida", "joe"):
            self.role(f"instructor-{name}", self.people.instructor(name), database="main")
        self.role("operator", self.people.operator, database="service")

    def clean_disk(self) -> None:
        """The audio between two stages is gone, as it is for a worker on another machine."""
        for left in self.audio_folder.glob("*"):
            left.unlink()

    def is_quiet(self) -> bool:
        if self.strangers.under_way or not all(wish.is_done for wish in self.wishes):
            return False
        # For the kernel the queue of letters is a sink; here the main app keeps each, and a stalled one holds some yet.
        return self.mostly_quiet() and not self.query(LIVE) and not self.broker.held(DEAD_LETTER_QUEUE)

    def findings(self, history: RunHistory) -> list[Violation]:
        """The kernel's predicates, but for those about its own inbox: grading keeps messages in tables of its own."""
        kernel = [check for check in PREDICATES if check not in (check_acked, check_handled_once)]
        found = [finding for check in kernel for finding in check(history)]
        found += [*self.crashes, *self.audited, *self.judge(history)]
        if self.unquiet:
            found.append(Violation("L1", "The world was still busy long after the last fault."))
        return found

    def judge(self, history: RunHistory) -> list[Violation]:
        evidence = gather(self, history)
        return [finding for check in CHECKS for finding in check(evidence)]

    def tally(self, history: RunHistory) -> Mapping[str, int]:
        seen: Counter[str] = Counter()
        for line in history.of("submission"):
            seen[f"{line.data[0]} -> {line.data[1]}"] += line.data[0] != line.data[1]
            seen["late result"] += line.data[9] > line.data[8]
        for line in history.of("noted"):
            seen[f"callback {line.data[0]}"] += 1
        for line in history.of("grading"):
            seen["request repeated"] += line.data[5] > line.data[4]
            seen["answer repeated"] += line.data[5] > line.data[4] and line.data[0] != "running"
            seen["breaker told"] += line.data[9] != line.data[8]
        seen["late request"] = sum(line.data[0] not in history.born for line in history.of("request"))
        for change in history.all_changes():
            seen["malformed answer"] += change.note.get("error_class") == "MALFORMED_ANSWER"
        seen["refused message"] = sum(1 for _ in history.of("inbox"))
        seen["refused callback"] = sum(1 for _ in history.of("spoiled"))
        seen["key conflict"] = sum(told.id is None for told in self.people.answered)
        seen["instructor refused"] = self.people.refusals
        return seen


def _doing(duties: Duties) -> Main:
    async def main(kernel: Kernel, stop: asyncio.Event) -> None:
        await run(kernel, duties, stop)

    return main


@cache
def _folder(process: int) -> Path:
    """Where this process keeps audio. A forked one has its own."""
    memory = MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="holdfast-audio-", dir=memory))
    Finalize(None, shutil.rmtree, (folder,), {"ignore_errors": True}, exitpriority=10)
    return folder
