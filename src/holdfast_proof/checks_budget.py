"""Predicates about what spends a job's budget: each failure that says something about the job, and nothing else."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.core.decide import ASKED_NOTE, CRASHES_MAX, DOWN_NOTE
from holdfast.core.provider import Provider
from holdfast.kernel.kinds import JobKind
from holdfast.operator.finding import Violation
from holdfast_proof.history import JobChange, RunHistory

FREE = frozenset(["held", "released", "snoozed", "lost", "parked", "rewound", "resumed"])
# What a provider is to blame for, as the providers of the simulation fail.
FAULTS = frozenset(["UPSTREAM_INTERNAL", "UPSTREAM_UNAVAILABLE", "NETWORK_UNREACHABLE", "NETWORK_TIMEOUT"])


@dataclass(slots=True)
class Gates:
    """When each provider's gate changed, by the order of commits."""

    moves: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))

    def at(self, name: str, seq: int) -> str:
        moves = self.moves.get(name, [])
        before = bisect_right(moves, (seq, "~"))
        return moves[before - 1][1] if before else "closed"

    def moved(self, name: str, from_seq: int, to_seq: int) -> bool:
        return any(from_seq < seq < to_seq for seq, _ in self.moves.get(name, ()))


def check_budget(history: RunHistory) -> Iterator[Violation]:
    """S12: a stage fails as often as its policy says and no more; what is free costs nothing; crashes are bounded."""
    for job, changes in history.changes.items():
        attempts = {name: stage.plan.retry.attempts for name, stage in history.kind_of(job).by_name.items()}
        lost: Counter[tuple[str, int]] = Counter()
        for change in changes:
            place = (change.old_stage, change.epoch)
            lost[place] += change.event == "lost"
            if change.old_state == "waiting" or change.event == "rewound":  # it comes to the stage anew
                lost[place] = 0
            cost = change.failures - change.old_failures
            asked = change.event == "retried" and change.note.get("error_class") == "RATE_LIMITED"
            is_free = asked or change.event in FREE or change.note.get("note") in (ASKED_NOTE, DOWN_NOTE)
            if is_free and change.event != "advanced" and cost > 0:
                yield Violation("S12", f"Job {job} paid {cost} of its budget for '{change.event}'.", job)
            if cost > 1:
                yield Violation("S12", f"Job {job} paid {cost} of its budget at once ({change.event}).", job)
            if change.state == "queued" and change.failures >= attempts[change.stage]:
                text = f"Job {job} failed {change.failures} times in '{change.stage}' and went on."
                yield Violation("S12", text, job)
        for (stage, epoch), count in lost.items():
            if count >= CRASHES_MAX:
                yield Violation("S12", f"Job {job} lost {count} workers in '{stage}', epoch {epoch}, and went on.", job)


def check_outages(history: RunHistory) -> Iterator[Violation]:
    """S12: nobody dies of an outage. Who is buried as exhausted has failed as often as the policy says, without the
    failures while its provider was known to be down, those that opened its breaker, and the waits it asked for."""
    gates = Gates()
    for line in history.of("gate"):
        if line.data[0] != line.data[1]:
            gates.moves[line.id].append((line.seq, line.data[1]))
    for job, changes in history.changes.items():
        kind = history.kind_of(job)
        claimed = 0
        for index, change in enumerate(changes):
            claimed = change.seq if change.event == "claimed" else claimed
            if change.note.get("note") == DOWN_NOTE and change.event == "retried":
                yield from _was_down(kind, change, gates, claimed)
            if change.note.get("reason") == "exhausted":
                yield from _was_exhausted(kind, changes[: index + 1], gates)


def _was_down(kind: JobKind, change: JobChange, gates: Gates, claimed: int) -> Iterator[Violation]:
    """A failure is free only if the provider's gate was not closed, or moved while the attempt ran."""
    names = [provider.name for provider in _providers(kind, change.old_stage)]
    if names and not any(
        gates.at(name, change.seq) != "closed" or gates.moved(name, claimed, change.seq) for name in names
    ):
        text = f"Job {change.job} was not charged for a failure although {names[0]} was not known to be down."
        yield Violation("S12", text, change.job)


def _was_exhausted(kind: JobKind, changes: Sequence[JobChange], gates: Gates) -> Iterator[Violation]:
    last = changes[-1]
    down = [one.name for one in _providers(kind, last.old_stage) if gates.at(one.name, last.seq) != "closed"]
    if down and last.note.get("error_class") in FAULTS:
        yield Violation("S12", f"Job {last.job} died of {down[0]}, which was known to be down.", last.job)
    counted = [
        change
        for index, change in enumerate(changes)
        if change.epoch == last.epoch and _counts(kind, change, _left_at(changes[index:]), gates)
    ]
    here = sum(change.old_stage == last.old_stage for change in counted)
    plan = kind.by_name[last.old_stage].plan
    in_all = plan.retries_in_all
    if here + 1 >= plan.retry.attempts or (in_all is not None and len(counted) + 1 > in_all):
        return
    text = f"Job {last.job} was buried as exhausted in '{last.old_stage}' after {here + 1} failures that count"
    yield Violation("S12", f"{text}, of {plan.retry.attempts}.", last.job)


def _left_at(changes: Sequence[JobChange]) -> int:
    """When the job left the stage that it failed in: what it spent there is not given back any more."""
    return next((later.seq for later in changes if later.stage != changes[0].old_stage), changes[-1].seq)


def _counts(kind: JobKind, change: JobChange, left_at: int, gates: Gates) -> bool:
    """Whether an earlier failure still counts when the job is buried."""
    if change.event != "retried" or change.note.get("note") in (ASKED_NOTE, DOWN_NOTE):
        return False
    if change.note.get("error_class") not in FAULTS:
        return True
    names = [provider.name for provider in _providers(kind, change.old_stage)]
    return not any(gates.moved(name, change.seq, left_at) for name in names)


def _providers(kind: JobKind, stage: str) -> list[Provider]:
    provider = kind.by_name[stage].provider
    return [provider] if provider is not None and provider.breaker is not None else []


BUDGET = (check_budget, check_outages)
