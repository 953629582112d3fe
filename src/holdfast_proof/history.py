"""What really happened, told by nobody who could be wrong about it.

The database's part comes from triggers that the harness installs: every write to a job (also one that changes no
state), event, effect, outbox row, inbox row, breaker, result and dead letter, with the host and both clocks, in commit
order. What was rolled back never happened. The world's part is the providers' and the broker's own logs, what the
client was told, and who was stalled when. No line of the code under test writes any of it.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from holdfast.kernel.kinds import JobKind
from holdfast_proof.messages import BrokerEvent
from holdfast_proof.provider_stub import Effect, ProviderEvent

_LOG = """CREATE TABLE proof_log (seq INTEGER PRIMARY KEY AUTOINCREMENT, at BIGINT, wall BIGINT, host TEXT, what TEXT,
  id TEXT, data TEXT)"""
Told = tuple[str, str, str]
"""A kind of line: the write that makes it ("INSERT ON my_table"), its id ("new.id"), its data ("old.a, new.a")."""

_TOLD: dict[str, Told] = {
    "job": (
        "UPDATE ON holdfast_jobs",
        "new.id",
        "old.state, new.state, old.stage, new.stage, old.attempt, new.attempt, old.epoch, new.epoch, old.failures, "
        "new.failures, new.crashes, old.lease_until, new.lease_until, old.run_at, new.run_at, new.not_before, "
        "old.deadline_at, new.parked, old.wait_key, old.not_before, old.hold, new.provider, new.last_attempt_at, "
        "(SELECT MAX(s.holds_until) FROM holdfast_worker_signs AS s WHERE s.name = old.lease_owner)",
    ),
    "born": ("INSERT ON holdfast_jobs", "new.id", "new.kind, new.job_key, new.fingerprint"),
    "event": ("INSERT ON holdfast_job_events", "new.job_id", "new.attempt, new.type, new.data"),
    "planned": (
        "INSERT ON holdfast_effects",
        "new.key",
        "NULL, new.status, 0, new.sends, new.attempt, new.provider_id, new.token, new.job_id, new.provider, NULL",
    ),
    "effect": (
        "UPDATE ON holdfast_effects",
        "new.key",
        "old.status, new.status, old.sends, new.sends, new.attempt, new.provider_id, new.token, new.job_id, "
        "new.provider, new.error, new.sender",
    ),
    "answer": ("INSERT ON holdfast_answers", "new.job_id", "new.stage, new.epoch, new.run, new.value IS NOT NULL"),
    "answered": (
        "UPDATE ON holdfast_answers",
        "new.job_id",
        "new.stage, new.epoch, new.run, old.value IS NULL AND new.value IS NOT NULL",
    ),
    "told": ("INSERT ON holdfast_outbox", "new.id", "new.aggregate_id, new.destination, new.message_type"),
    "outbox": ("UPDATE OF status ON holdfast_outbox", "new.id", "old.status, new.status"),
    "inbox": ("INSERT ON holdfast_inbox", "new.message_id", "new.consumer"),
    "gate": (
        "UPDATE ON holdfast_breakers",
        "new.name",
        "old.gate, new.gate, old.not_before, new.not_before, json_extract(new.state, '$.open_until')",
    ),
    "result": ("INSERT ON holdfast_results", "new.job_id", "new.stage, new.attempt, new.is_late"),
    "case": ("UPDATE OF state ON holdfast_dead_letters", "new.job_id", "old.state, new.state"),
    "opened": ("INSERT ON holdfast_dead_letters", "new.job_id", "new.state"),
}


def triggers(watched: Mapping[str, Told]) -> list[str]:
    """The statements that make a database tell what happens to it, to the kernel's tables and to `watched` others."""
    texts = [_LOG]
    for what, (when, identity, columns) in {**_TOLD, **watched}.items():
        texts.append(
            f"CREATE TRIGGER proof_{what} AFTER {when} BEGIN INSERT INTO proof_log (at, wall, host, what, id, data) "
            f"VALUES (proof_at(), proof_wall(), proof_host(), '{what}', {identity}, json_array({columns})); END"
        )
    return texts


class HistoryLine(NamedTuple):
    """One committed write."""

    seq: int
    at_ms: int
    wall_ms: int
    host: str
    what: str
    id: str
    data: list[Any]


class JobChange(NamedTuple):
    """One write to one job, with the event that was written beside it ('' if there was none)."""

    seq: int
    at_ms: int
    wall_ms: int
    host: str
    job: str
    event: str
    note: dict[str, Any]
    old_state: str
    state: str
    old_stage: str
    stage: str
    old_attempt: int
    attempt: int
    old_epoch: int
    epoch: int
    old_failures: int
    failures: int
    crashes: int
    old_lease_until: int | None
    lease_until: int | None
    old_run_at: int
    run_at: int
    not_before: int | None
    deadline_at: int | None
    parked: int
    old_wait_key: str | None
    old_not_before: int | None
    old_hold: str | None
    provider: str | None
    last_attempt_at: int | None
    holds_until: int | None
    """Until when its worker holds what it has leased, as its sign of life says."""
    went_on: bool = False


class StoryStep(NamedTuple):
    """One step of a job's story, as whoever asks for it reads it."""

    type: str
    attempt: int
    at: int


class AcceptedJob(NamedTuple):
    """What the client was told: `job` under this key and payload, or a refusal (`job` is None)."""

    at_ms: int
    kind: str
    key: str | None
    payload: str
    job: str | None


class Stall(NamedTuple):
    host: str
    from_ms: int
    to_ms: int


@dataclass(slots=True)
class ProviderTale:
    """One provider's own account."""

    name: str
    dedup: str
    log: Sequence[ProviderEvent]
    effects: Sequence[Effect]
    retention_ms: int
    guarded: bool = True


@dataclass(slots=True)
class RunHistory:
    """Everything the predicates look at. `skew_ms` is how far two clocks may differ, the simulation's own among them;
    `shelved` messages lie in sinks, for people."""

    lines: list[HistoryLine]
    changes: dict[str, list[JobChange]]
    born: dict[str, HistoryLine]
    kinds: Mapping[str, JobKind]
    # The stories of the jobs that are still there, as the database tells them at the end.
    stories: Mapping[str, Sequence[StoryStep]] = field(default_factory=dict)
    providers: Mapping[str, ProviderTale] = field(default_factory=dict)
    broker: Sequence[BrokerEvent] = ()
    undelivered: frozenset[str] = frozenset()
    shelved: frozenset[str] = frozenset()
    accepted: Sequence[AcceptedJob] = ()
    stalls: Sequence[Stall] = ()
    answered: Mapping[str, int] = field(default_factory=dict)
    # Kinds whose owners may have a dead job tried again without an operator.
    retried_by_owners: frozenset[str] = frozenset()
    skew_ms: int = 0
    epoch_ms: int = 0
    texts: str = ""
    canary: str = ""
    # Simulated processes pause only where the kernel can notice it, so a send after a lost lease is no excuse there. A
    # real process may be paused between its last check and the socket: no local check closes that.
    pauses_excused: bool = True
    # Whether every process runs the same code, and so has the same order of stages.
    ordered: bool = True

    def of(self, *what: str) -> Iterator[HistoryLine]:
        return (line for line in self.lines if line.what in what)

    def all_changes(self) -> Iterator[JobChange]:
        return (change for changes in self.changes.values() for change in changes)

    def kind_of(self, job: str) -> JobKind:
        return self.kinds[self.born[job].data[0]]

    def stalled(self, host: str, from_ms: int, to_ms: int) -> bool:
        """Whether the host was paused at any time in between."""
        return any(s.host == host and s.from_ms <= to_ms and s.to_ms >= from_ms for s in self.stalls)


def read_lines(connection: sqlite3.Connection) -> list[HistoryLine]:
    rows = connection.execute("SELECT seq, at, wall, host, what, id, data FROM proof_log ORDER BY seq").fetchall()
    data = json.loads(f"[{','.join([row[6] for row in rows])}]")  # one text is parsed faster than many
    return [HistoryLine._make((*row[:6], told)) for row, told in zip(rows, data, strict=True)]


def read_stories(connection: sqlite3.Connection) -> dict[str, list[StoryStep]]:
    """The story of every job that is there, as whoever asks for it reads it."""
    stories: dict[str, list[StoryStep]] = {
        str(job[0]): [] for job in connection.execute("SELECT CAST(id AS TEXT) FROM holdfast_jobs").fetchall()
    }
    text = "SELECT CAST(job_id AS TEXT), type, attempt, at FROM holdfast_every_event ORDER BY job_id, seq, part"
    for row in connection.execute(text).fetchall():
        if row[0] in stories:
            stories[row[0]].append(StoryStep(row[1], row[2], row[3]))
    return stories


def job_changes(lines: Sequence[HistoryLine]) -> dict[str, list[JobChange]]:
    """Every job's writes in order, each with its event: the first one of the job that follows it. Claims and successes
    are events by themselves, whether or not one was written. A job that its holder went on with has left one attempt
    and entered the next in one write: two changes."""
    changes: dict[str, list[JobChange]] = {}
    for line in lines:
        if line.what == "job":
            changes.setdefault(line.id, []).extend(_parted(JobChange(*line[:4], line.id, "", {}, *line.data)))
        elif line.what == "event" and line.data[1] in EVENTS and changes.get(line.id):
            _label(changes[line.id], line)
    return changes


def _label(changes: list[JobChange], line: HistoryLine) -> None:
    note = json.loads(line.data[2]) if line.data[2] else {}
    place = -2 if changes[-1].went_on else -1
    if changes[place].event == "":
        changes[place] = changes[place]._replace(event=line.data[1], note=note)


def _parted(change: JobChange) -> list[JobChange]:
    if (change.old_state, change.state) == ("queued", "processing"):
        return [change._replace(event="claimed")]
    if change.old_state in ("processing", "waiting") and change.state == "succeeded":
        return [change._replace(event="succeeded")]
    if (change.old_state, change.state) != ("processing", "processing") or change.attempt == change.old_attempt:
        return [change]
    left = change._replace(state="queued", attempt=change.old_attempt, lease_until=None)
    entered = change._replace(
        old_state="queued",
        old_stage=change.stage,
        old_failures=change.failures,
        old_lease_until=None,
        old_not_before=change.not_before,
        old_run_at=change.run_at,
        event="claimed",
        went_on=True,
    )
    return [left, entered]


BACK = ("snoozed", "held", "released", "lost", "retried", "advanced", "rewound", "replayed", "resumed")
EVENTS = frozenset(
    ("claimed", "parked", "waiting", "succeeded", "buried", "expired", "cancelled", "corrected", "taken_back", *BACK)
)


def fingerprint(history: RunHistory) -> str:
    """The hash of a history: equal for one seed in every process."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps(history.lines).encode())
    for tale in history.providers.values():
        digest.update(repr((tale.name, tale.log, tale.effects)).encode())
    digest.update(repr((history.broker, history.accepted, history.stalls)).encode())
    return digest.hexdigest()


def timeline(history: RunHistory, job: str) -> list[str]:
    """A job's story for a person: every write, call and message that concerns it, in order."""
    keys = {line.id: line.data[6] for line in history.of("planned") if line.data[7] == job}
    told = {line.id for line in history.of("told") if line.data[0] == job}
    found = [(c.at_ms, 0, f"{c.host:<12} {_said(c)}") for c in history.changes.get(job, ())]
    for line in history.lines:
        if line.what in ("effect", "planned") and line.id in keys:
            found.append((line.at_ms, 1, f"{line.host:<12} effect {line.data[0]} -> {line.data[1]} {line.id}"))
        elif line.id in told or (line.id == job and line.what in ("result", "case", "opened", "born")):
            found.append((line.at_ms, 2, f"{line.host:<12} {line.what} {line.data}"))
        elif line.id == job and line.what == "event" and line.data[1] not in EVENTS:
            found.append((line.at_ms, 2, f"{line.host:<12} event {line.data[1]} {line.data[2] or ''}"))
    for tale in history.providers.values():
        for told_event in tale.log:
            if told_event.token in keys.values() or told_event.token.startswith(job):
                text = f"{tale.name} {told_event.kind} call {told_event.call} {told_event.detail}"
                found.append((told_event.at_ms, 3, f"{told_event.host:<12} {text}"))
    hosts = {change.host for change in history.changes.get(job, ())}
    for stall in history.stalls:
        if stall.host in hosts:
            found.append((stall.from_ms, 4, f"{stall.host:<12} stalls until {stall.to_ms / 1_000:.3f} s"))
    return [f"{at_ms / 1_000:>9.3f} s  {text}" for at_ms, _, text in sorted(found)]


def _said(change: JobChange) -> str:
    if change.old_state == change.state and not change.event:
        return f"{change.state} #{change.attempt}: lease until {change.lease_until}, parked {change.parked}"
    note = f" {change.note}" if change.note else ""
    where = change.stage if change.stage == change.old_stage else f"{change.old_stage} -> {change.stage}"
    counts = f"failures {change.failures} crashes {change.crashes} epoch {change.epoch}"
    return f"{change.event or '?'}: {change.old_state} -> {change.state} #{change.attempt} {where}, {counts}{note}"
