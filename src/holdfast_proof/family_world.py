"""Parents and children, checkpoints and answers, while workers and keepers die: a family of jobs keeps its promises.

S25: a parent goes on after its last child, with all of them; a child is there once; what a checkpoint gave is what
every later attempt gets; an answer that was accepted in time is not lost; what a cancelled parent spawned does not run.
S21 also: an address with a password is whole for its handler, in every attempt, and hidden in the job's row; what was
sealed is erased with the end of its job, and not before.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.engines.run import Duties, run
from holdfast.errors import StoreError, UsageError
from holdfast.kernel import operate
from holdfast.kernel.app import Job
from holdfast.kernel.compose.waiting import answer
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import JobToEnqueue, prepare, submit_orders
from holdfast.operator.finding import Violation
from holdfast_proof import family
from holdfast_proof.chaos import FAULT_KINDS
from holdfast_proof.coverage import Coverage, once_a_seed
from holdfast_proof.family import Asks, Blocking, Careful, Loose, Parent, Site
from holdfast_proof.history import AcceptedJob, RunHistory
from holdfast_proof.world import SimWorld

KNOWN_ENDS = {"ok", "DISCARDED", "CANCELLED", "POISON_JOB", "WORKER_LOST"}
LATE_MS = 120_000
_CHILDREN = """SELECT j.id, j.state, j.finished_at, j.payload, n.id AS join_id, n.size, n.state AS join_state,
                      p.state AS parent_state, p.finished_at AS parent_finished_at, p.id AS parent
                 FROM holdfast_jobs j JOIN holdfast_joins n ON n.id = j.join_id
                 JOIN holdfast_jobs p ON p.id = n.parent_id"""
_UNENDED = """SELECT COUNT(*) AS n FROM holdfast_jobs j JOIN holdfast_joins n ON n.id = j.join_id
               WHERE n.parent_id = ? AND n.stage = 'fan_out' AND n.name LIKE 'gather:%'
                 AND j.state IN ('queued', 'processing', 'waiting')"""
PASSWORD = "pw-of-the-family"
ADDRESS = f"https://kin:{PASSWORD}@git.example/r.git?sig={PASSWORD}"
_SEALED = "SELECT s.owner, j.state FROM holdfast_secrets s JOIN holdfast_jobs j ON CAST(j.id AS TEXT) = s.owner"
_ADDRESSES = "SELECT id, state, payload, coalesce(error, '') AS error FROM holdfast_jobs WHERE kind = ?"
COVERAGE = Coverage(
    failpoints=frozenset(
        {"spawn.before_commit", "spawn.after_commit", "wake.before_commit", "checkpoint.after_commit"}
    ),
    faults=FAULT_KINDS - {"broker_restart"},
    edges=frozenset({"processing -> waiting", "waiting -> queued", "queued -> cancelled", "waiting -> cancelled"}),
    seen=frozenset({"an answer that came first", "a parent with several children", "a checkpoint read again"}),
    at_least=once_a_seed("kills", "stalls", "jobs"),
    seeds=30,
)


@dataclass(slots=True)
class FamilyWish:
    """One submission, and when somebody answers it or cancels it."""

    at_ms: int
    job: type[Job[Any]]
    input: Any
    answer_ms: int | None = None
    cancel_ms: int | None = None
    made: JobToEnqueue | None = None
    done: bool = False


class FamilyWorld(SimWorld):
    system = "family"
    databases = {"main": [family.app]}  # noqa: RUF012
    stubs = {}  # noqa: RUF012
    coverage = COVERAGE

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.notes: list[tuple[Any, ...]] = []
        self.premature: list[str] = []
        self.answered_at: dict[str, int] = {}
        self._values = self.loop.stream("values")
        self.wishes = self._wishes(self.loop.stream("wishes"))

    def cast(self) -> None:
        for number in range(self.dice.randint(1, 3)):
            work = Duties(relay=False, consume=False, keep=False, concurrency=5, grace_s=5)
            self.role(f"worker-{number}", _duties(work))
        for number in range(self.dice.choice((1, 1, 2))):
            self.role(f"keeper-{number}", _duties(Duties(work=False, relay=False, consume=False)))
        self.role("client", self.client)
        self.role("desk", self.desk)

    def _wishes(self, dice: Any) -> list[FamilyWish]:
        wishes = []
        last = int(self.swarm.faults_s * 700)
        for number in range(dice.randint(3, 7)):
            at = dice.randint(0, last)
            job = dice.choice((Parent, Parent, Blocking, Loose, Careful, Asks, Asks))
            if job is Asks:
                when = dice.choice((max(0, at - 5_000), at, at + dice.randint(0, 60_000)))
                wishes.append(FamilyWish(at, Asks, f"ask/{number}", answer_ms=when))
                continue
            size = dice.choice((0, 1, 3, 6))
            wish = FamilyWish(at, job, Site(ADDRESS, size) if job is Careful else size)
            if job is not Careful and dice.random() < (0.8 if job is Loose else 0.2):
                wish.cancel_ms = at + dice.randint(5_000, 60_000)
            wishes.append(wish)
        return sorted(wishes, key=lambda wish: wish.at_ms)

    async def client(self, kernel: Kernel, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await asyncio.sleep(1)
            for wish in self.wishes:
                if not wish.done and wish.at_ms <= self.loop.now_ms:
                    await self._submit(kernel, wish)

    async def _submit(self, kernel: Kernel, wish: FamilyWish) -> None:
        kind = wish.job.__holdfast__
        if wish.made is None:
            wish.made = prepare(kind, wish.input, job_id=kernel.new_id(), now=kernel.now())
        try:
            (job,) = await submit_orders(kernel, [wish.made])
        except StoreError:
            return
        self.accepted.append(AcceptedJob(self.loop.now_ms, kind.name, None, kind.dump_input(wish.input), job))
        wish.done = True

    async def desk(self, kernel: Kernel, stop: asyncio.Event) -> None:
        """Answers questions, before or after they are asked, and cancels parents."""
        while not stop.is_set():
            await asyncio.sleep(1)
            for wish in self.wishes:
                try:
                    await self._attend(kernel, wish)
                except (StoreError, UsageError):
                    continue

    async def _attend(self, kernel: Kernel, wish: FamilyWish) -> None:
        now = self.loop.now_ms
        if wish.answer_ms is not None and wish.answer_ms <= now and wish.input not in self.answered_at:
            await answer(kernel, wish.input, '"yes"', message_id=wish.input)
            self.answered_at[wish.input] = self.loop.now_ms
        if wish.cancel_ms is not None and wish.cancel_ms <= now and wish.done:
            assert wish.made is not None
            wish.cancel_ms = None
            await operate.cancel(kernel, wish.made.id, "desk")

    def is_quiet(self) -> bool:
        asked = [wish.input for wish in self.wishes if wish.answer_ms is not None]
        return all(wish.done for wish in self.wishes) and set(asked) <= set(self.answered_at) and self.mostly_quiet()

    # What handlers ask for

    def draw(self) -> int:
        """Something that is never the same twice, as a paid answer is."""
        return self._values.getrandbits(40)

    def note(self, what: str, job: str, *data: Any) -> None:
        self.notes.append((what, job, *data))
        if what == "gathered" and self.query(_UNENDED, job)[0]["n"]:
            self.premature.append(job)

    # Its history

    def judge(self, history: RunHistory) -> list[Violation]:
        checks = (
            *(self._check_joins, self._check_children, self._check_values, self._check_answers),
            self._check_addresses,
        )
        return [finding for check in checks for finding in check()]

    def _check_joins(self) -> Iterator[Violation]:
        for job in self.premature:
            yield Violation("S25", f"Parent {job} went on while a child of its had not ended.", job)
        sizes = {wish.made.id: wish.input for wish in self.wishes if wish.made is not None and wish.job is Parent}
        for what, job, *data in self.notes:
            if what != "gathered":
                continue
            if len(data[1]) != sizes[job] or not set(data[1]) <= KNOWN_ENDS:
                yield Violation("S25", f"Parent {job} of {sizes[job]} was told {data[1]}.", job)

    def _check_children(self) -> Iterator[Violation]:
        rows = self.query(_CHILDREN)
        seen = Counter((row["join_id"], row["payload"]) for row in rows)
        for (join, payload), number in seen.items():
            if number > 1:
                yield Violation("S25", f"The join {join} has {number} children with the input {payload}.")
        for row in rows:
            ended_well = row["parent_state"] not in ("cancelled", "dead")
            if ended_well or row["state"] != "succeeded":
                continue
            if row["finished_at"] > row["parent_finished_at"] + LATE_MS:
                text = f"Child {row['id']} ran although its parent {row['parent']} was {row['parent_state']} before."
                yield Violation("S25", text, row["id"])

    def _check_values(self) -> Iterator[Violation]:
        used: dict[tuple[Any, ...], set[int]] = defaultdict(set)
        for what, job, *data in self.notes:
            if what == "used":
                used[job, data[0]].add(data[1])
        for (job, name), values in used.items():
            if len(values) > 1:
                yield Violation("S25", f"Job {job} used {len(values)} values of its checkpoint '{name}'.", job)

    def _check_answers(self) -> Iterator[Violation]:
        asked = {wish.made.id: wish for wish in self.wishes if wish.made is not None and wish.job is Asks}
        for what, job, *data in self.notes:
            if what == "answered" and not data[1]:
                at = self.answered_at.get(data[0])
                if at is not None and at < asked[job].at_ms + family.WAIT_S * 1_000:
                    yield Violation("S25", f"Job {job} was told of no answer, but one had come.", job)

    def _check_addresses(self) -> Iterator[Violation]:
        for what, job, *data in self.notes:
            if what == "address" and data[0] != ADDRESS:
                yield Violation("S21", f"The handler of {job} was given {data[0]}.", job)
        for row in self.query(_ADDRESSES, Careful.__holdfast__.name):
            if PASSWORD in row["payload"]:
                yield Violation("S21", f"The row of {row['id']} has the password of its address.", row["id"])
            if "are erased" in row["error"]:
                yield Violation("S21", f"The credentials of {row['id']} were erased before its end.", row["id"])
        for row in self.query(_SEALED):
            if row["state"] in ("succeeded", "cancelled"):
                yield Violation("S21", f"Job {row['owner']} is {row['state']}, its credentials are kept.", row["owner"])

    def tally(self, history: RunHistory) -> Mapping[str, int]:
        times = Counter((job, data[0]) for what, job, *data in self.notes if what == "used")
        return {
            "an answer that came first": sum(w.answer_ms is not None and w.answer_ms < w.at_ms for w in self.wishes),
            "a parent with several children": sum(row["size"] > 1 for row in self.query(_CHILDREN)),
            "a checkpoint read again": sum(number > 1 for number in times.values()),
        }


def _duties(duties: Duties) -> Any:
    async def main(kernel: Kernel, stop: asyncio.Event) -> None:
        await run(kernel, duties, stop)

    return main
