"""Predicates about jobs: acceptance, edges, fences, leases, deadlines, dead letters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from holdfast.core.job import EDGES, LIVE, TERMINAL, State
from holdfast.operator.finding import Violation
from holdfast_proof.history import EVENTS, JobChange, RunHistory

ENDED = frozenset(str(state) for state in TERMINAL)
LEGAL = frozenset((str(old), str(new)) for old, new in EDGES)
OWN = frozenset(["succeeded", "advanced", "retried", "buried", "waiting", "snoozed", "held", "released", "rewound"])
AHEAD_MS = 50_000
"""A lease with more left than this may go ahead of the time (core/lease.py): then its worker's own time counts."""


def check_acceptance(history: RunHistory) -> Iterator[Violation]:
    """S1: what the client was told is accepted exists, once per key; another payload under a key is refused."""
    first: dict[tuple[str, str], tuple[str, str]] = {}
    for told in history.accepted:
        if told.job is not None and told.job not in history.born:
            yield Violation(
                "S1", f"The client was told that job {told.job} is accepted, but there is no such job.", told.job
            )
        if told.key is None or told.job is None:
            continue
        job, payload = first.setdefault((told.kind, told.key), (told.job, told.payload))
        if job != told.job:
            yield Violation("S1", f"The key '{told.key}' stands for two jobs, {job} and {told.job}.", job)
        if payload != told.payload:
            yield Violation("S1", f"The key '{told.key}' was accepted again with another payload, as job {job}.", job)
    keys = Counter((line.data[0], line.data[1]) for line in history.born.values() if line.data[1] is not None)
    for (kind, key), jobs in keys.items():
        if jobs > 1:
            yield Violation("S1", f"{jobs} jobs of kind '{kind}' share the key '{key}'.")


def check_one_terminal(history: RunHistory) -> Iterator[Violation]:
    """S2: a job ends once per epoch; only a replay leaves the end, and raises the epoch by one."""
    for job, changes in history.changes.items():
        ends: Counter[int] = Counter()
        for change in changes:
            if change.state in ENDED and change.old_state != change.state:
                ends[change.epoch] += 1
            if change.old_state in ENDED:
                yield from _left_the_end(change)
        for epoch, count in ends.items():
            if count > 1:
                yield Violation("S2", f"Job {job} ended {count} times in epoch {epoch}.", job)


def _left_the_end(change: JobChange) -> Iterator[Violation]:
    replayed = change.event == "replayed" and change.old_state == "dead" and change.epoch == change.old_epoch + 1
    if not replayed and not _is_corrected(change):
        what = change.event or "no event"
        text = f"Job {change.job} was {change.old_state} and was written to by {change.host} ({what})."
        yield Violation("S2", text, change.job)


def check_legal_edges(history: RunHistory) -> Iterator[Violation]:
    """S3: every change of state is in the table of edges and has its event; stages only go forward."""
    for change in history.all_changes():
        if change.old_state == change.state:
            yield from _same_state(change)
            continue
        edge = f"{change.old_state} -> {change.state}"
        if (change.old_state, change.state) not in LEGAL:
            yield Violation("S3", f"Job {change.job} went {edge}, which is no legal edge.", change.job)
        if not change.event:
            yield Violation("S3", f"Job {change.job} went {edge} and no event says so.", change.job)
        if not history.ordered:
            continue
        order = [stage.name for stage in history.kind_of(change.job).stages]
        back = order.index(change.stage) < order.index(change.old_stage)
        anew = change.note.get("full") or change.note.get("corrected")
        if back and not (change.event == "replayed" and anew):
            text = f"Job {change.job} went back from stage '{change.old_stage}' to '{change.stage}' ({change.event})."
            yield Violation("S3", text, change.job)


def check_stories(history: RunHistory) -> Iterator[Violation]:
    """S3: the story that a job's rows tell has every step that was taken, once and in order, each claim at its time."""
    for job, story in history.stories.items():
        taken = [change for change in history.changes.get(job, ()) if change.event]
        told = [step for step in story if step.type in EVENTS]
        steps = [(change.event, change.attempt) for change in taken]
        if steps != [(step.type, step.attempt) for step in told]:
            text = ", ".join(f"{step.type} #{step.attempt}" for step in told)
            yield Violation("S3", f"Job {job} went through {steps}, and its story is: {text}.", job)
        elif [c.last_attempt_at for c in taken if c.event == "claimed"] != [s.at for s in told if s.type == "claimed"]:
            yield Violation("S3", f"The story of job {job} tells another time of a claim than there was.", job)


def _is_corrected(change: JobChange) -> bool:
    """The input of a dead job, and nothing else of it, was corrected."""
    same = (change.old_attempt, change.old_stage, change.old_failures, change.old_epoch)
    return (
        change.event == "corrected"
        and change.old_state == change.state == "dead"
        and same == (change.attempt, change.stage, change.failures, change.epoch)
    )


def _same_state(change: JobChange) -> Iterator[Violation]:
    """A renewal, a parking or a correction may rewrite a row without changing its state; nothing else may."""
    if _is_corrected(change):
        return
    same = (change.old_attempt, change.old_stage, change.old_failures, change.old_epoch)
    if change.state in ("processing", "queued") and same == (
        change.attempt, change.stage, change.failures, change.epoch
    ):  # fmt: skip
        return
    yield Violation("S3", f"Job {change.job} was rewritten while {change.state}, by {change.host}.", change.job)


def check_fencing(history: RunHistory) -> Iterator[Violation]:
    """S4: an attempt is ended by the process that claimed it, or for a reason that anybody may act on."""
    for job, changes in history.changes.items():
        holders: dict[int, str] = {}
        for change in changes:
            if change.event == "claimed":
                holders[change.attempt] = change.host
                if change.attempt != change.old_attempt + 1:
                    yield Violation("S5", f"Job {job} was claimed without a new attempt number.", job)
            elif change.old_state == "processing" and change.state != "processing":
                yield from _left(change, holders.get(change.old_attempt, "nobody"))


def _left(change: JobChange, holder: str) -> Iterator[Violation]:
    lost = change.event == "lost" or change.note.get("reason") == "poison"
    until = change.old_lease_until
    if until is not None and change.holds_until is not None and until - change.wall_ms > AHEAD_MS:
        until = change.holds_until  # leased ahead of the time
    if lost and until is not None and until >= change.wall_ms:
        early_ms = until - change.wall_ms
        text = f"Job {change.job} was taken from {holder} {early_ms} ms before its lease ended, by {change.host}."
        yield Violation("S5", text, change.job)
    if not lost and change.event in OWN and change.host != holder:
        text = f"Attempt {change.old_attempt} of job {change.job} belonged to {holder} but {change.host} ended it"
        yield Violation("S4", f"{text} ({change.event}).", change.job)


def check_results(history: RunHistory) -> Iterator[Violation]:
    """S3: a stage is left for the next one with its result stored, unless it may have none."""
    kept: dict[tuple[str, str], int] = {}
    for line in history.of("result"):
        if not line.data[2]:
            kept.setdefault((line.id, line.data[0]), line.at_ms)
    for change in history.all_changes():
        if change.event != "advanced" or history.kind_of(change.job).by_name[change.old_stage].may_be_none:
            continue
        if kept.get((change.job, change.old_stage), change.at_ms + 1) > change.at_ms:
            text = f"Job {change.job} left the stage '{change.old_stage}' and its result is not stored."
            yield Violation("S3", text, change.job)


def check_progress(history: RunHistory) -> Iterator[Violation]:
    """S4: only the attempt that holds the lease reports progress."""
    running: dict[str, int] = {}
    for line in history.lines:
        if line.what == "job":
            running[line.id] = line.data[5] if line.data[1] == "processing" else -1
        elif line.what == "event" and line.data[1] == "progress" and running.get(line.id) != line.data[0]:
            text = f"Attempt {line.data[0]} of job {line.id} reported progress without holding it, by {line.host}."
            yield Violation("S4", text, line.id)


def check_progress_once(history: RunHistory) -> Iterator[Violation]:
    """S28: what a stage notes once in an epoch it notes once, however often it is held, retried or taken over."""
    noted: set[tuple[str, str]] = set()
    for line in history.of("event"):
        if line.data[1] != "progress" or "epoch" not in json.loads(line.data[2] or "{}"):
            continue
        if (line.id, line.data[2]) in noted:
            yield Violation("S28", f"Job {line.id} noted its progress again: {line.data[2]}.", line.id)
        noted.add((line.id, line.data[2]))


def check_deadline(history: RunHistory) -> Iterator[Violation]:
    """S15: nothing is done after its deadline, and nothing is expired before it."""
    for change in history.all_changes():
        if change.deadline_at is None:
            continue
        over_ms = change.wall_ms - change.deadline_at
        if change.event in ("succeeded", "advanced") and over_ms > 0:
            text = f"Job {change.job} {change.event} {over_ms} ms after its deadline, by {change.host}."
            yield Violation("S15", text, change.job)
        early = change.event == "expired" and change.note.get("error_class") == "DEADLINE_EXCEEDED" and over_ms < 0
        if early:
            yield Violation("S15", f"Job {change.job} expired {-over_ms} ms before its deadline.", change.job)


def check_dead_letters(history: RunHistory) -> Iterator[Violation]:
    """S19: the dead have a case; they return only by a replay of a mended case, where they fell, not too early."""
    opened = {line.id for line in history.of("opened")}
    replayed = Counter(
        line.id
        for line in history.of("case")
        if line.data[1] == "replayed"
        and (line.data[0] == "remediated" or history.kind_of(line.id).name in history.retried_by_owners)
    )
    for job, changes in history.changes.items():
        revived = [change for change in changes if change.event == "replayed"]
        if any(change.state == "dead" for change in changes) and job not in opened:
            yield Violation("S19", f"Job {job} is dead and has no case.", job)
        if len(revived) != replayed[job]:
            text = f"Job {job} was revived {len(revived)} times but its case was replayed {replayed[job]} times."
            yield Violation("S19", text, job)
        for change in revived:
            if change.stage != change.old_stage and not change.note.get("full"):
                text = f"Job {job} fell in '{change.old_stage}' and was replayed from '{change.stage}'."
                yield Violation("S19", text, job)


def check_liveness(history: RunHistory) -> Iterator[Violation]:
    """L1-L4: after the faults everything has ended, every message is out, delivered and taken."""
    live = {str(state) for state in LIVE}
    for job in history.born:
        changes = history.changes.get(job)
        state = changes[-1].state if changes else str(State.QUEUED)
        if state in live:
            yield Violation("L1", f"Job {job} is still {state} long after the last fault.", job)
    status = {line.id: "pending" for line in history.of("told")}
    status |= {line.id: line.data[1] for line in history.of("outbox")}
    for message, state in status.items():
        if state != "published":
            yield Violation("L2", f"Message {message} is still {state} in the outbox.")
    if history.undelivered:
        yield Violation("L4", f"The broker still holds {len(history.undelivered)} messages.")


JOBS = (
    check_acceptance,
    check_one_terminal,
    check_legal_edges,
    check_stories,
    check_fencing,
    check_results,
    check_progress,
    check_progress_once,
    check_deadline,
    check_dead_letters,
    check_liveness,
)
