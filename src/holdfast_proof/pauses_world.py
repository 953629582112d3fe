"""A person who pauses kinds and queues and lets them go on, while workers die in the middle of their jobs.

S27: once a pause is committed no attempt of that kind, or in that queue, begins, neither by a claim nor by going on to
a next stage, until somebody lets it go on. (That what waited then goes on is L1.)
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.core.control import Sort
from holdfast.core.retry import Retry
from holdfast.engines.run import Duties, run
from holdfast.errors import StoreError
from holdfast.kernel.app import App, Job, stage
from holdfast.kernel.context import Context
from holdfast.kernel.hands.pausing import set_paused
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import JobToEnqueue, prepare, submit_orders
from holdfast.operator.finding import Violation
from holdfast.tables import pauses
from holdfast_proof.chaos import FAULT_KINDS
from holdfast_proof.coverage import Coverage, once_a_seed
from holdfast_proof.history import AcceptedJob, JobChange, RunHistory
from holdfast_proof.world import SimWorld

PATIENT = Retry(attempts=8, base_s=1, cap_s=5)
SLOW_S = 3.0
HAND_S = (8, 30)
"""How long a person thinks between two acts."""
mill, yard = App("mill"), App("yard")


@mill.job(name="mill.grind")
class Grind(Job[int]):
    @stage(retry=PATIENT)
    async def fill(self, ctx: Context, number: int) -> int:
        await asyncio.sleep(SLOW_S)
        return number

    @stage(retry=PATIENT)
    async def turn(self, ctx: Context, number: int, fill: int) -> int:
        return fill


@mill.job(name="mill.sweep")
class SweepUp(Job[int]):
    @stage(retry=PATIENT)
    async def sweep(self, ctx: Context, number: int) -> int:
        return number


@yard.job(name="yard.load")
class LoadUp(Job[int]):
    @stage(retry=PATIENT)
    async def load(self, ctx: Context, number: int) -> int:
        await asyncio.sleep(SLOW_S)
        return number


QUEUES = {"mill.grind": "mill", "mill.sweep": "mill", "yard.load": "yard"}
TARGETS: tuple[tuple[Sort, str], ...] = (
    ("kind", "mill.grind"),
    ("kind", "mill.sweep"),
    ("queue", "mill"),
    ("queue", "yard"),
)
COVERAGE = Coverage(
    failpoints=frozenset({"claim.after_commit", "settle.before_commit", "reap.before_commit"}),
    faults=FAULT_KINDS - {"broker_restart"},
    edges=frozenset({"queued -> processing", "processing -> queued"}),
    seen=frozenset({"a kind that was paused", "a queue that was paused", "jobs that waited for a pause"}),
    at_least=once_a_seed("kills", "stalls", "jobs"),
    seeds=40,
)


@dataclass(slots=True)
class WorkWish:
    """Some jobs, submitted together."""

    at_ms: int
    job: type[Job[int]]
    count: int
    orders: list[JobToEnqueue] | None = None
    done: bool = False


class PauseSpan(NamedTuple):
    """From when a pause is known to be committed, until a person begins to end it."""

    sort: Sort
    name: str
    since_ms: int
    until_ms: int


class PausesWorld(SimWorld):
    system = "pauses"
    databases = {"main": [mill, yard]}  # noqa: RUF012
    stubs = {}  # noqa: RUF012
    coverage = COVERAGE

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        dice = self.loop.stream("wishes")
        last = int(self.swarm.faults_s * 800)
        jobs = (Grind, Grind, SweepUp, LoadUp)
        self.wishes = [WorkWish(dice.randint(0, last), dice.choice(jobs), dice.choice((1, 3, 8))) for _ in range(12)]
        self.hand = self.loop.stream("hand")
        self.kinds: dict[str, str] = {}
        """The kind of every job, by its id."""
        self.paused_at: dict[tuple[Sort, str], int] = {}
        self.spans: list[PauseSpan] = []
        self.seen: dict[str, int] = defaultdict(int)

    def cast(self) -> None:
        for number in range(2):
            duties = Duties(relay=False, consume=False, keep=False, concurrency=3, grace_s=5)
            self.role(f"worker-{number}", _duties(duties))
        self.role("keeper", _duties(Duties(work=False, relay=False, consume=False)))
        self.role("client", self.client)
        self.role("person", self.person)

    async def client(self, kernel: Kernel, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await asyncio.sleep(1)
            for wish in self.wishes:
                if not wish.done and wish.at_ms <= self.loop.now_ms:
                    await self._submit(kernel, wish)

    async def _submit(self, kernel: Kernel, wish: WorkWish) -> None:
        kind = wish.job.__holdfast__
        if wish.orders is None:
            wish.orders = [
                prepare(kind, number, job_id=kernel.new_id(), now=kernel.now()) for number in range(wish.count)
            ]
            self.kinds |= {order.id: kind.name for order in wish.orders}
        try:
            jobs = await submit_orders(kernel, wish.orders)
        except StoreError:
            return
        for number, job in enumerate(jobs):
            self.accepted.append(AcceptedJob(self.loop.now_ms, kind.name, None, kind.dump_input(number), job))
        wish.done = True

    async def person(self, kernel: Kernel, stop: asyncio.Event) -> None:
        """Pauses something, or lets it go on; when the faults are over, lets everything go on."""
        while not stop.is_set():
            await asyncio.sleep(1 if self.is_healing else self.hand.randint(*HAND_S))
            targets = TARGETS if self.is_healing else [self.hand.choice(TARGETS)]
            for sort, name in targets:
                try:
                    await self._act(kernel, sort, name)
                except StoreError:
                    continue  # what came of it is looked at next time

    async def _act(self, kernel: Kernel, sort: Sort, name: str) -> None:
        async with kernel.store.reading() as tx:
            is_paused = await pauses.is_paused(tx, sort, name)
        if self.is_healing and not is_paused:
            self._end(sort, name)
            return
        if is_paused:
            self._end(sort, name)
        await set_paused(kernel, sort, name, paused=not is_paused, actor="olga", reason="the wind")
        if not is_paused:
            self.paused_at[sort, name] = self.loop.now_ms
            self.seen[f"a {sort} that was paused"] += 1

    def _end(self, sort: Sort, name: str) -> None:
        since = self.paused_at.pop((sort, name), None)
        if since is not None:
            self.spans.append(PauseSpan(sort, name, since, self.loop.now_ms))

    def is_quiet(self) -> bool:
        paused = self.query("SELECT 1 FROM holdfast_pauses WHERE is_paused = 1 LIMIT 1")
        return not paused and all(wish.done for wish in self.wishes) and self.mostly_quiet()

    # Its history

    def judge(self, history: RunHistory) -> list[Violation]:
        return list(self._check_pauses(history))

    def _check_pauses(self, history: RunHistory) -> Iterator[Violation]:
        """S27: nothing begins while it is paused."""
        for change in history.all_changes():
            self.seen["jobs that waited for a pause"] += change.old_hold == "pause"
            if not begins(change):
                continue
            kind = self.kinds[change.job]
            for span in self.spans:
                is_its_own = span.name == (kind if span.sort == "kind" else QUEUES[kind])
                if is_its_own and span.since_ms < change.at_ms < span.until_ms:
                    text = f"Job {change.job} began {change.stage} while the {span.sort} '{span.name}' was paused."
                    yield Violation("S27", text, change.job)

    def tally(self, history: RunHistory) -> Mapping[str, int]:
        return self.seen


def begins(change: JobChange) -> bool:
    """Whether an attempt was begun by this write: claimed, or gone on to."""
    return change.state == "processing" and change.attempt > change.old_attempt


def _duties(duties: Duties) -> Any:
    async def main(kernel: Kernel, stop: asyncio.Event) -> None:
        await run(kernel, duties, stop)

    return main
