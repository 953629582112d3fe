"""Keys that take turns, with weights and limits, while workers die in the middle of their jobs.

S26: a key's first job does not wait for another key's backlog; no key has more jobs begun at once, or in any minute,
than its limit, whoever has died meanwhile, and a replay goes past none of it. (That places come free again is L1.)
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.core.failure import Category
from holdfast.core.retry import Retry
from holdfast.core.turns import MINUTE_MS, Limit
from holdfast.engines.newcomers import PLACES_MIN
from holdfast.engines.run import Duties, run
from holdfast.errors import CallError, StoreError, UsageError
from holdfast.kernel.app import App, Job, stage
from holdfast.kernel.context import Context
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import JobToEnqueue, prepare, submit_orders
from holdfast.operator.finding import Violation
from holdfast_proof.chaos import FAULT_KINDS
from holdfast_proof.coverage import Coverage, once_a_seed
from holdfast_proof.history import AcceptedJob, JobChange, RunHistory
from holdfast_proof.operator import Operator
from holdfast_proof.world import SimWorld

AT_ONCE = 2
PER_MINUTE = 3
WEIGHTS = {"gold": 3}
KEYS = ("noisy", "gold", "quiet", "calm")
PATIENT = Retry(attempts=8, base_s=1, cap_s=5)
SLOW_S = 4.0
BACKLOG = 60
LARGE_SHARE = 0.25
"""In how many worlds one worker keeps places."""
NEWCOMERS_MS = (2_000, 25_000)
_LETTERS = "SELECT id, job_id, state FROM holdfast_dead_letters"
app = App("fair")


@app.job(fair_by="owner", weights=WEIGHTS)
class Post(Job[int]):
    """Takes turns, and has no limit."""

    @stage(retry=PATIENT)
    async def send(self, ctx: Context, number: int) -> int:
        await asyncio.sleep(SLOW_S)
        return number

    @stage(retry=PATIENT)
    async def note(self, ctx: Context, number: int) -> int:
        return number


@app.job(limit=Limit(per="owner", at_once=AT_ONCE))
class Crawl(Job[int]):
    """Some are refused for good until a person has them tried again; others fail once."""

    @stage(retry=PATIENT)
    async def crawl(self, ctx: Context, number: int) -> int:
        await asyncio.sleep(SLOW_S)
        if number % 5 == 1 and ctx.job.epoch == 0:
            raise CallError.of(Category.VALIDATION, "REFUSED", "not like this")
        if number % 3 == 0 and ctx.job.failures == 0:
            raise CallError.of(Category.NETWORK, "FLAKY", "once")
        return number


@app.job(limit=Limit(per="owner", per_minute=PER_MINUTE))
class Ping(Job[int]):
    @stage(retry=PATIENT)
    async def ping(self, ctx: Context, number: int) -> int:
        return number


COVERAGE = Coverage(
    failpoints=frozenset({"claim.after_commit", "settle.before_commit", "reap.before_commit"}),
    faults=FAULT_KINDS - {"broker_restart"},
    edges=frozenset({"queued -> processing", "processing -> queued", "dead -> queued"}),
    seen=frozenset({"a key at its limit", "a minute that was full", "a newcomer behind a backlog"}),
    at_least=once_a_seed("kills", "stalls", "jobs"),
    seeds=20,
)


@dataclass(slots=True)
class TurnsWish:
    """Some jobs of one owner, submitted together."""

    at_ms: int
    job: type[Job[int]]
    owner: str
    count: int
    orders: list[JobToEnqueue] | None = None
    done: bool = False


class Start(NamedTuple):
    """A job was let in at a time, of its process's clock and of the world's."""

    at_ms: int
    wall_ms: int
    job: str


class TurnsWorld(SimWorld):
    system = "turns"
    databases = {"main": [app]}  # noqa: RUF012
    stubs = {}  # noqa: RUF012
    coverage = COVERAGE

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.wishes = self._wishes(self.loop.stream("wishes"))
        self.keys: dict[str, tuple[str, str]] = {}
        """The kind and the owner of every job, by its id."""
        self.operator = Operator(self.loop.stream("operator"), replays_max=2)
        self.seen: dict[str, int] = defaultdict(int)
        self.rooms = [self.dice.choice((1, 1, 2, 3)) for _ in range(self.dice.choice((1, 1, 2, 3)))]
        if self.loop.stream("kept places").random() < LARGE_SHARE:
            self.rooms.append(PLACES_MIN)  # large enough to keep a place for newcomers

    @property
    def overtaken_max(self) -> int:
        """How many jobs of another key may be let in while a key's first waits: each worker may have given its room
        away just before it could see the newcomer, once more in its present round, and again after it has died."""
        return sum(3 * (room + max(WEIGHTS.values())) for room in self.rooms)

    def cast(self) -> None:
        for number, room in enumerate(self.rooms):
            duties = Duties(relay=False, consume=False, keep=False, concurrency=room, grace_s=5)
            self.role(f"worker-{number}", _duties(duties))
        self.role("keeper", _duties(Duties(work=False, relay=False, consume=False)))
        self.role("client", self.client)
        self.role("desk", self.desk)

    def _wishes(self, dice: Any) -> list[TurnsWish]:
        last = int(self.swarm.faults_s * 500)
        wishes = [TurnsWish(0, Post, "noisy", BACKLOG)]
        wishes += [TurnsWish(dice.randint(*NEWCOMERS_MS), Post, owner, dice.choice((1, 1, 3, 8))) for owner in KEYS[1:]]
        for job, counts in ((Crawl, (4, 8)), (Ping, (5, 9))):
            wishes += [TurnsWish(dice.randint(0, last), job, dice.choice(KEYS), dice.choice(counts)) for _ in range(2)]
        return sorted(wishes, key=lambda wish: wish.at_ms)

    async def client(self, kernel: Kernel, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await asyncio.sleep(1)
            for wish in self.wishes:
                if not wish.done and wish.at_ms <= self.loop.now_ms:
                    await self._submit(kernel, wish)

    async def _submit(self, kernel: Kernel, wish: TurnsWish) -> None:
        kind = wish.job.__holdfast__
        if wish.orders is None:
            wish.orders = [
                prepare(kind, number, job_id=kernel.new_id(), now=kernel.now(), owner=wish.owner)
                for number in range(wish.count)
            ]
            self.keys |= {order.id: (kind.name, wish.owner) for order in wish.orders}
        try:
            jobs = await submit_orders(kernel, wish.orders)
        except StoreError:
            return
        for number, job in enumerate(jobs):
            self.accepted.append(AcceptedJob(self.loop.now_ms, kind.name, None, kind.dump_input(number), job))
        wish.done = True

    async def desk(self, kernel: Kernel, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await asyncio.sleep(20)
            try:
                await self.operator.work_cases(kernel, self.query(_LETTERS))
            except (StoreError, UsageError):
                continue

    def is_quiet(self) -> bool:
        return all(wish.done for wish in self.wishes) and self.mostly_quiet()

    # Its history

    def judge(self, history: RunHistory) -> list[Violation]:
        checks = (self._check_at_once, self._check_minutes, self._check_turns)
        return [finding for check in checks for finding in check(history)]

    def _check_at_once(self, history: RunHistory) -> Iterator[Violation]:
        """S26: between its start and its end a job has a place, also while it waits for a retry or a new worker."""
        begun: dict[str, set[str]] = defaultdict(set)
        for change in sorted(history.all_changes(), key=lambda change: change.seq):
            kind, owner = self.keys[change.job]
            if kind != Crawl.__holdfast__.name:
                continue
            places = begun[owner]
            if is_start(change):
                places.add(change.job)
                self.seen["a key at its limit"] += len(places) == AT_ONCE
                if len(places) > AT_ONCE:
                    yield Violation(
                        "S26", f"'{owner}' has {len(places)} jobs begun, and may have {AT_ONCE}.", change.job
                    )
            elif change.state not in ("queued", "processing", "waiting") or change.epoch > change.old_epoch:
                places.discard(change.job)

    def _check_minutes(self, history: RunHistory) -> Iterator[Violation]:
        """S26: in no sixty seconds more starts than the limit. Two processes' clocks may differ, so those are fewer."""
        minute_ms = MINUTE_MS - history.skew_ms
        for (kind, owner), starts in self._claims(history).items():
            if kind != Ping.__holdfast__.name:
                continue
            for first, beyond in zip(starts, starts[PER_MINUTE:], strict=False):
                lasted = beyond.at_ms - first.at_ms
                self.seen["a minute that was full"] += 1
                if lasted < minute_ms:
                    text = f"'{owner}' started {PER_MINUTE + 1} jobs within {lasted / 1_000:g} s."
                    yield Violation("S26", text, beyond.job)

    def _check_turns(self, history: RunHistory) -> Iterator[Violation]:
        """S26: who comes with a first job waits for a round of the others, not for their backlog."""
        starts = {owner: found for (kind, owner), found in self._starts(history).items() if kind.endswith("post")}
        for wish in self.wishes:
            if wish.job is not Post or wish.owner == "noisy" or wish.orders is None:
                continue
            born = min(history.born[order.id].at_ms for order in wish.orders)
            first = min(start.at_ms for start in starts[wish.owner])
            for owner, others in starts.items():
                overtook = sum(born < start.at_ms < first for start in others)
                self.seen["a newcomer behind a backlog"] += overtook > 0
                if owner != wish.owner and overtook > self.overtaken_max:
                    text = f"{overtook} jobs of '{owner}' were let in while the first of '{wish.owner}' waited."
                    yield Violation("S26", text, wish.orders[0].id)

    def _starts(self, history: RunHistory) -> dict[tuple[str, str], list[Start]]:
        found: dict[tuple[str, str], list[Start]] = defaultdict(list)
        for change in sorted(history.all_changes(), key=lambda change: change.seq):
            if is_start(change):
                found[self.keys[change.job]].append(Start(change.at_ms, change.wall_ms, change.job))
        return found

    def _claims(self, history: RunHistory) -> dict[tuple[str, str], list[Start]]:
        """The first claim of each job after it was let in: that is what a minute counts."""
        found: dict[tuple[str, str], list[Start]] = defaultdict(list)
        let_in: set[str] = set()
        for change in sorted(history.all_changes(), key=lambda change: change.seq):
            if is_start(change):
                let_in.add(change.job)
            elif change.state == "processing" and change.job in let_in:
                let_in.remove(change.job)
                found[self.keys[change.job]].append(Start(change.at_ms, change.wall_ms, change.job))
        return found

    def tally(self, history: RunHistory) -> Mapping[str, int]:
        return self.seen


def is_start(change: JobChange) -> bool:
    """Whether a job was let in by this write."""
    return change.old_hold == "turn" and change.state == change.old_state == "queued" and not change.parked


def _duties(duties: Duties) -> Any:
    async def main(kernel: Kernel, stop: asyncio.Event) -> None:
        await run(kernel, duties, stop)

    return main
