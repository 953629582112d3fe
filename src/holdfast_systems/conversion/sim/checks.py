"""What the conversion system promises, as predicates over a simulated history and the files that are left.

C1 limits; nothing of a refused upload stays      C4 while dispatch is held, only probes and trials
C5 one result: the winner's, whole                C7 a retry only of what failed, with its source, on a fresh budget
C8 what was cancelled or expired stays so; what is promised can be fetched        C12 one signed webhook per end
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holdfast.operator.finding import Violation
from holdfast_proof.history import JobChange, RunHistory
from holdfast_systems.conversion.documents import KIND
from holdfast_systems.conversion.jobs import GATEWAY
from holdfast_systems.conversion.sim.gateway import SETTINGS
from holdfast_systems.conversion.webhook import WEBHOOKS

if TYPE_CHECKING:
    from holdfast_systems.conversion.sim.world import ConversionWorld

LEGAL = {
    (None, None), (None, "complete"), (None, "failed"), (None, "cancelled"), ("failed", None), ("complete", "expired"),
    ("failed", "failed"), ("complete", "complete"), ("cancelled", "cancelled"), ("expired", "expired"),
}  # fmt: skip
# Between a call's admission and its first byte lie one transaction and the reading of a file, but no more than this.
SLACK_MS = 7_000
MINUTE_MS = 60_000


class Retried(NamedTuple):
    """A user's retry and what the answer was: a status and the attempts it showed, or a refusal's code."""

    at_ms: int
    job: str
    said: str
    attempts: int


class Fetch(NamedTuple):
    """A user's fetch of a result."""

    asked_ms: int
    at_ms: int
    job: str
    said: str
    content: bytes | None


def check_conversions(world: ConversionWorld, history: RunHistory) -> Iterator[Violation]:
    """Everything that the seed breaks."""
    for predicate in (
        check_outcomes, check_results, check_files, check_retries, check_fetches, check_held, check_limits,
        check_webhooks, check_sources,
    ):  # fmt: skip
        yield from predicate(world, history)


def check_outcomes(world: ConversionWorld, history: RunHistory) -> Iterator[Violation]:
    """C8: a document's outcome takes legal steps only: the cancelled and the expired never become complete."""
    for line in history.of("outcome"):
        if (line.data[0], line.data[1]) not in LEGAL:
            text = f"The document of job {line.id} went from {line.data[0]} to {line.data[1]}, by {line.host}."
            yield Violation("C8", text, line.id)
    rows = world.query(
        "SELECT d.id, d.outcome, j.state FROM conversion_documents AS d JOIN holdfast_jobs AS j ON j.id = d.id"
    )
    fits = {"succeeded": ("complete", "expired"), "dead": ("failed",), "cancelled": ("cancelled",)}
    for job, outcome, state in rows:
        if outcome not in fits.get(state, ()):
            yield Violation("C5", f"Job {job} is {state} but its document is {outcome}.", job)


def check_results(world: ConversionWorld, history: RunHistory) -> Iterator[Violation]:
    """C5: the result that a document names was made by the gateway, for the attempt that won, in its time."""
    calls = {effect.provider_id: effect for effect in world.providers[GATEWAY].effects}
    named = {line.id: line.data[5] for line in history.of("outcome") if line.data[1] == "complete"}
    for job, sha256 in named.items():
        won, claimed = _winner(history, job)
        call = calls.get(world.made.get(sha256, ""))
        if won is None or claimed is None or call is None:
            yield Violation("C5", f"The result of job {job} was never made by the gateway.", job)
        elif call.host != won.host or not claimed.at_ms <= call.at_ms <= won.at_ms:
            text = f"The result of job {job} is of a call by {call.host}, but {won.host} won."
            yield Violation("C5", text, job)


def _winner(history: RunHistory, job: str) -> tuple[JobChange | None, JobChange | None]:
    changes = history.changes.get(job, [])
    won = next((change for change in changes if change.event == "succeeded"), None)
    claims = [change for change in changes if won and change.event == "claimed" and change.attempt == won.attempt]
    return won, claims[-1] if claims else None


def check_files(world: ConversionWorld, history: RunHistory) -> Iterator[Violation]:
    """C1, C5: when all is over and swept, the folders hold what the documents promise, whole, and nothing else."""
    rows = world.query("SELECT id, outcome, source, source_gone, result_sha256 FROM conversion_documents")
    sources = {row["source"]: row["id"] for row in rows if not row["source_gone"]}
    results = {row["id"]: row["result_sha256"] for row in rows if row["outcome"] == "complete"}
    uploads = {path.name for path in SETTINGS.uploads.iterdir()}
    for name in sorted(uploads - set(sources)):
        yield Violation("C1", f"The upload {name} belongs to nobody and stays.", Path(name).stem)
    for name in sorted(set(sources) - uploads):
        yield Violation("C1", f"The upload {name} is promised and is not there.", sources[name])
    found: dict[str, str] = {}
    for path in sorted(SETTINGS.results.iterdir()):
        found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        job = path.name.split(".")[0]
        if results.get(job) != found[path.name]:
            text = f"The file {path.name} is not the result of its job, which is {results.get(job, 'none')}."
            yield Violation("C5", text, job)
    for job, sha256 in results.items():
        if sha256 not in found.values():
            yield Violation("C5", f"The result of job {job} is promised and is not there.", job)


def check_retries(world: ConversionWorld, history: RunHistory) -> Iterator[Violation]:
    """C7: a retry is taken only of a failed job whose source is there, once, and shows no attempts."""
    gone = {line.id: line.at_ms for line in reversed(list(history.of("outcome"))) if line.data[3] and not line.data[4]}
    taken = [one for one in world.retries if one.attempts >= 0]
    for one in taken:
        if one.said not in ("queued", "processing", "failed") or one.attempts > 1:
            yield Violation("C7", f"A retry of job {one.job} was answered with {one.said}, {one.attempts}.", one.job)
    replays = Counter(change.job for change in history.all_changes() if change.event == "replayed")
    for job, count in Counter(one.job for one in taken).items():
        if count > replays[job]:
            yield Violation(
                "C7", f"{count} retries of job {job} were taken and it was revived {replays[job]} times.", job
            )
    for change in history.all_changes():
        if change.event == "replayed" and gone.get(change.job, change.at_ms + 1) < change.at_ms:
            yield Violation("C7", f"Job {change.job} was retried after its source was gone.", change.job)
        if change.event == "replayed" and (change.failures or change.crashes):
            yield Violation("C7", f"Job {change.job} was retried with {change.failures} attempts spent.", change.job)


def check_sources(world: ConversionWorld, history: RunHistory) -> Iterator[Violation]:
    """C7: no attempt finds its source gone: it is kept as long as anybody may need it."""
    for change in history.all_changes():
        if change.note.get("error_class") == "IO_ERROR":
            yield Violation("C7", f"An attempt of job {change.job} found no source ({change.event}).", change.job)


def check_fetches(world: ConversionWorld, history: RunHistory) -> Iterator[Violation]:
    """C5, C8: what is said to be complete can be fetched, and is what the document names."""
    named = {line.id: line.data[5] for line in history.of("outcome") if line.data[1] == "complete"}
    for fetch in world.fetches:
        if fetch.said == "IO_ERROR":
            yield Violation("C8", f"The result of job {fetch.job} is said to be there and is not.", fetch.job)
        elif fetch.content is not None and hashlib.sha256(fetch.content).hexdigest() != named.get(fetch.job):
            yield Violation("C5", f"Job {fetch.job} gave out what is not its result.", fetch.job)


def check_held(world: ConversionWorld, history: RunHistory) -> Iterator[Violation]:
    """C4: while the breaker holds dispatch, nobody calls the gateway."""
    gates = [line for line in history.of("gate") if line.id == GATEWAY and line.data[0] != line.data[1]]
    for line, following in zip_longest(gates, gates[1:]):
        if line.data[1] != "open":
            continue
        until_ms = following.at_ms if following else world.loop.now_ms
        for call in world.providers[GATEWAY].log:
            called = call.kind == "send" and line.at_ms + SLACK_MS < call.at_ms < until_ms
            if called and not history.stalled(call.host, line.at_ms - 2 * SLACK_MS, call.at_ms):
                text = f"{call.host} called the gateway while dispatch was held (call {call.call}, {call.token})."
                yield Violation("C4", text)


def check_limits(world: ConversionWorld, history: RunHistory) -> Iterator[Violation]:
    """C1, C12: nobody has more unfinished jobs, or uploads a minute, than a user may."""
    uploads: dict[str, list[int]] = {}
    owners: dict[str, str] = {}
    live: dict[str, set[str]] = {}
    for line in history.lines:
        if line.what == "job" and line.id in owners:
            ended = line.data[1] not in ("queued", "processing", "waiting")
            (live[owners[line.id]].discard if ended else live[owners[line.id]].add)(line.id)
        if line.what != "document":
            continue
        owner, created_at = line.data[0], line.data[1]
        before = [at for at in uploads.setdefault(owner, []) if at > created_at - MINUTE_MS]
        if len(before) >= SETTINGS.uploads_max_per_minute:
            yield Violation("C12", f"{owner} uploaded {len(before) + 1} files within a minute.", line.id)
        if len(live.setdefault(owner, set())) >= SETTINGS.queued_max_per_user:
            yield Violation("C12", f"{owner} has {len(live[owner]) + 1} unfinished jobs.", line.id)
        uploads[owner].append(created_at)
        owners[line.id] = owner
        live[owner].add(line.id)


def check_webhooks(world: ConversionWorld, history: RunHistory) -> Iterator[Violation]:
    """C12: every end of a job with a webhook is told once, signed, and as it was."""
    arrived = [effect.payload for effect in world.providers["webhook"].effects if isinstance(effect.payload, tuple)]
    for job, what, _, genuine in arrived:
        if not genuine:
            yield Violation("C12", f"The webhook '{what}' of job {job} has a wrong signature.", job)
    for (job, what, _, _), count in Counter(arrived).items():
        if count > 1:
            yield Violation("C12", f"The receiver was told '{what}' of job {job} {count} times.", job)
    ordered = {line.data[1] for line in history.born.values() if line.data[0] == WEBHOOKS.kind}
    wanted = {key for line in history.of("document") if line.data[3] for key in _ends(history, line.id)}
    for key in sorted(wanted - ordered):
        yield Violation("C12", f"Nobody was told of the end '{key}'.", key.split("/")[0])
    for key in sorted(ordered - wanted):
        yield Violation("C12", f"A webhook was ordered for '{key}', which did not happen.", key.split("/")[0])


def _ends(history: RunHistory, job: str) -> Iterator[str]:
    """Every end of a job, as its webhook names it."""
    words = {"succeeded": "complete", "dead": "failed", "cancelled": "cancelled"}
    epoch = 0
    for change in history.changes.get(job, ()):
        epoch = change.epoch
        if change.state in words and change.old_state != change.state:
            yield f"{job}/{epoch}/{words[change.state]}"
    if any(line.id == job and line.data[:2] == ["complete", "expired"] for line in history.of("outcome")):
        yield f"{job}/{epoch}/expired"


def tally_of(world: ConversionWorld, history: RunHistory) -> dict[str, int]:
    """What happened that a run of many seeds must have seen."""
    counts: Counter[str] = Counter({f"gateway {world.kind}": 1, "death around a write": world.torn})
    for wish in world.wishes:
        counts[f"upload {wish.answer}"] += 1
    for one in world.retries:
        counts[f"retry {one.said if one.attempts < 0 else 'taken'}"] += 1
    for fetch in world.fetches:
        counts[f"fetch {fetch.said}"] += 1
    for _, _, well in world.probes:
        counts[f"probe {'well' if well else 'sick'}"] += 1
    for line in history.of("outcome"):
        counts[f"outcome {line.data[1]}"] += line.data[0] != line.data[1]
    for line in history.of("gate"):
        counts[f"gate {line.data[1]}"] += line.data[0] != line.data[1] and line.id == GATEWAY
    for change in history.all_changes():
        if history.kind_of(change.job).name == KIND and change.event:
            counts[f"convert {change.event}"] += 1
    counts["webhook"] = len(world.providers["webhook"].effects)
    return counts
