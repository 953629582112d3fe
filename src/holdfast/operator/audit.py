"""Checks a database, live or left behind, against what Holdfast promises. Reads only, in pages; changes nothing, unless
providers are to be asked: what they do not know is then treated as a keeper would (`kernel.verify`).

Every job's events are read as a story and told again: each step must be legal, the story must end where the row is, and
what belongs to the end (a case, evidence of its effects, a deadline that was kept) must be there. A live database moves
between two reads, so a finding counts only if a second look at the same job shows it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from holdfast.core.effect import token_of
from holdfast.core.job import LIVE, TERMINAL
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.ledger.verify import Unanswered, Unknown, Verdict, verify_all
from holdfast.operator.finding import Violation
from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch, jobs

sql = load_statements(Path(__file__).with_suffix(".sql"))

PAGE = 500
# A duty that is late by this many of its own rounds is not being done.
ROUNDS_LATE = 20
ANY = frozenset(str(state) for state in LIVE)
ENDED = frozenset(str(state) for state in TERMINAL)
BUSY = frozenset({"processing"})
ASKED = frozenset({"processing", "waiting"})
STEPS: dict[str, tuple[frozenset[str], str]] = {
    "claimed": (frozenset({"queued"}), "processing"),
    "parked": (frozenset({"queued"}), "queued"),
    "waiting": (BUSY, "waiting"),
    "succeeded": (ASKED, "succeeded"),
    "advanced": (ASKED, "queued"),
    "resumed": (frozenset({"waiting"}), "queued"),
    "buried": (ANY, "dead"),
    "expired": (ANY, "dead"),
    "cancelled": (ANY, "cancelled"),
    "replayed": (frozenset({"dead"}), "queued"),
    "taken_back": (frozenset({"succeeded"}), "dead"),
    **dict.fromkeys(("snoozed", "held", "released", "lost", "retried", "rewound"), (BUSY, "queued")),
}


class AuditedRow(NamedTuple):
    """A job's own row."""

    id: str
    kind: str
    stage: str
    state: str
    parked: int
    provider: str | None
    attempt: int
    failures: int
    crashes: int
    epoch: int
    run_at: int
    deadline_at: int | None
    finished_at: int | None
    lease_until: int | None


class AuditedEvent(NamedTuple):
    job_id: str
    attempt: int
    type: str
    at: int


class AuditedEffect(NamedTuple):
    job_id: str
    key: str
    token: str
    status: str
    provider_id: str | None
    error: str | None
    updated_at: int


OfJob = TypeVar("OfJob", AuditedEvent, AuditedEffect)


class AuditedCase(NamedTuple):
    job_id: str
    state: str
    deaths: int
    replays: int


class AuditedJob(NamedTuple):
    """One job, all that is written about it, and the time at which it was read."""

    job: AuditedRow
    events: Sequence[AuditedEvent]
    effects: Sequence[AuditedEffect]
    case: AuditedCase | None
    now: int


class UnreadMessage(NamedTuple):
    """A message that is long due and not published."""

    id: str


class Orphan(NamedTuple):
    """A job that is held for a provider which nothing watches."""

    id: str
    provider: str | None


UNKNOWN = {
    Verdict.TAKEN_BACK: "its marks were cleared, and it is sent again or its job is reopened: holdfast dead list",
    Verdict.LATER: "nothing was changed: its job still runs, and what it comes to decides",
    Verdict.CORRECTED: "it was sent, and its row has the right id and time now",
    Verdict.PERSON: "a person must say whether it was sent: holdfast effects list --status review",
    Verdict.NOTHING: "nothing was changed: see that the provider is the one that sent it",
}


async def audit(kernel: Kernel, *, ask_providers: bool = False) -> list[Violation]:
    """Every promise that the database shows to be broken; empty if none is. `ask_providers`: also what is marked as
    sent and its provider does not know."""
    found = await _disproved(kernel) if ask_providers else []
    after = jobs.NIL
    while True:
        async with kernel.store.reading() as tx:
            page = await tx.rows(sql.page, into=AuditedRow, after=after, limit=PAGE)
            suspects = [finding for story in await _stories(kernel, tx, page) for finding in judge(kernel, story)]
        found += await _still(kernel, suspects) if suspects else []
        if len(page) < PAGE:
            return found + await _beside_jobs(kernel)
        after = page[-1].id


async def _disproved(kernel: Kernel) -> list[Violation]:
    """S6: what is marked as sent is known to its provider."""
    return [Violation("S6", _text_of(found)) for found in await verify_all(kernel)]


def _text_of(found: Unknown | Unanswered) -> str:
    if isinstance(found, Unanswered):
        return f"What is marked as sent by {found.provider} is not verified: {found.message} Ask again later."
    told = f"and {found.provider} does not know it by the id '{found.provider_id}'; {UNKNOWN[found.verdict]}."
    return f"The effect '{found.key}' is marked as sent, {told}"


def judge(kernel: Kernel, story: AuditedJob) -> Iterator[Violation]:
    """What one job's story breaks."""
    for predicate in PREDICATES:
        yield from predicate(kernel, story)


async def _still(kernel: Kernel, suspects: list[Violation]) -> list[Violation]:
    """What a second look shows again."""
    ids = batch.ids(sorted({one.job for one in suspects if one.job}))
    async with kernel.store.reading() as tx:
        page = await tx.rows(sql.some, into=AuditedRow, batch=ids)
        again = {finding for story in await _stories(kernel, tx, page) for finding in judge(kernel, story)}
    return [one for one in suspects if one in again]


async def _stories(kernel: Kernel, tx: Tx, page: Sequence[AuditedRow]) -> list[AuditedJob]:
    ids = batch.ids(row.id for row in page)
    lowest, highest = (page[0].id, page[-1].id) if page else ("", "")
    events = _by_job(await tx.rows(sql.events, into=AuditedEvent, batch=ids, lowest=lowest, highest=highest))
    effects = _by_job(await tx.rows(sql.effects, into=AuditedEffect, batch=ids))
    cases = {row.job_id: row for row in await tx.rows(sql.cases, into=AuditedCase, batch=ids)}
    now = kernel.now()
    return [AuditedJob(row, events.get(row.id, []), effects.get(row.id, []), cases.get(row.id), now) for row in page]


def _by_job(rows: Sequence[OfJob]) -> dict[str, list[OfJob]]:
    found: dict[str, list[OfJob]] = {}
    for row in rows:
        found.setdefault(row.job_id, []).append(row)
    return found


async def _beside_jobs(kernel: Kernel) -> list[Violation]:
    late_ms = int(ROUNDS_LATE * max(kernel.tuning.relay_poll_s, kernel.tuning.relay_backoff_cap_s) * 1_000)
    async with kernel.store.reading() as tx:
        unread = await tx.rows(sql.unread, into=UnreadMessage, before=kernel.now() - late_ms)
        orphans = await tx.rows(sql.orphans, into=Orphan)
    found = [Violation("L2", f"Message {row.id} is long due and no relay publishes it.") for row in unread]
    for row in orphans:
        text = f"Job {row.id} is parked for provider '{row.provider}', which has no breaker to release it."
        found.append(Violation("S18", text, row.id))
    return found


def check_story(kernel: Kernel, story: AuditedJob) -> Iterator[Violation]:
    """S2, S3: the events are a legal path, with one end per epoch, to where the job is; S5: attempts only rise."""
    job_id, state, attempt = story.job.id, "queued", 0
    for event in story.events:
        if event.type not in STEPS:
            continue
        allowed, after = STEPS[event.type]
        if state not in allowed:
            promise = "S2" if state in ENDED else "S3"
            yield Violation(promise, f"Job {job_id} was {state} when '{event.type}' was written.", job_id)
        if event.attempt < attempt or (event.type == "claimed" and event.attempt == attempt):
            yield Violation("S5", f"Job {job_id} went from attempt {attempt} to {event.attempt}.", job_id)
        state, attempt = after, event.attempt
    if state != story.job.state:
        text = f"The events of job {job_id} end with {state}, its row says {story.job.state}."
        yield Violation("S3", text, job_id)


def check_deadline(kernel: Kernel, story: AuditedJob) -> Iterator[Violation]:
    """S15: no job succeeded after its deadline; L1: none outlives it for long."""
    job, deadline_at = story.job, story.job.deadline_at
    if deadline_at is None:
        return
    if job.state == "succeeded" and (job.finished_at or 0) > deadline_at:
        yield Violation("S15", f"Job {job.id} succeeded after its deadline.", job.id)
    if job.state in ANY and _is_late(deadline_at, kernel.tuning.sweep_s, story.now):
        yield Violation("L1", f"Job {job.id} is long past its deadline and no sweep has ended it.", job.id)


def check_lease(kernel: Kernel, story: AuditedJob) -> Iterator[Violation]:
    """L3: an expired lease is reclaimed; a wait that nobody answered ends."""
    job = story.job
    if job.state == "processing" and _is_late(job.lease_until or 0, kernel.tuning.reap_s, story.now):
        yield Violation("L3", f"The lease of job {job.id} ended long ago and nobody has reclaimed it.", job.id)
    if job.state == "waiting" and _is_late(job.run_at, kernel.tuning.sweep_s, story.now):
        yield Violation("L1", f"Job {job.id} has waited longer than it said it would.", job.id)


def check_budget(kernel: Kernel, story: AuditedJob) -> Iterator[Violation]:
    """S12: no stage has failed more often than its policy allows."""
    job = story.job
    kind = kernel.registry.kinds.get(job.kind)
    stage = kind.by_name.get(job.stage) if kind else None
    if stage is not None and job.failures > stage.plan.retry.attempts:
        text = f"Job {job.id} has failed {job.failures} times in '{job.stage}', which allows"
        yield Violation("S12", f"{text} {stage.plan.retry.attempts}.", job.id)


def check_case(kernel: Kernel, story: AuditedJob) -> Iterator[Violation]:
    """S19: a dead job has a case that is not marked as replayed; a job that lives has none that is open."""
    job, case = story.job, story.case
    if job.state == "dead" and case is None:
        yield Violation("S19", f"Job {job.id} is dead and has no case.", job.id)
    if case is None:
        return
    fits = case.state != "replayed" if job.state == "dead" else case.state in ("replayed", "resolved")
    if not fits:
        yield Violation("S19", f"Job {job.id} is {job.state} but its case is {case.state}.", job.id)
    if case.replays != job.epoch:
        text = f"Job {job.id} is in epoch {job.epoch} but was replayed {case.replays} times."
        yield Violation("S19", text, job.id)


def check_effects(kernel: Kernel, story: AuditedJob) -> Iterator[Violation]:
    """S6: success has evidence; S9: tokens depend on the key alone; S20: doubt about the ended is cleared up."""
    job = story.job
    for effect in story.effects:
        sent = effect.status == "sent" and effect.provider_id is not None
        # A handler may go on without an effect that was refused or that a person was asked about: the ledger says so.
        spoken_of = effect.status != "sent" and effect.error is not None
        if job.state == "succeeded" and not sent and not spoken_of:
            text = f"Job {job.id} succeeded but its effect '{effect.key}' is {effect.status}, without evidence."
            yield Violation("S6", text, job.id)
        if effect.token != token_of(effect.key):
            yield Violation("S9", f"The token of '{effect.key}' is not the one its key gives.", job.id)
        doubtful = effect.status in ("sending", "unknown") and job.state in ENDED
        grace_s = kernel.tuning.reconcile_grace_s + kernel.tuning.reconcile_s
        if doubtful and _is_late(effect.updated_at, grace_s, story.now):
            text = f"Nobody knows whether '{effect.key}' was sent, and nobody is finding out."
            yield Violation("S20", text, job.id)


def _is_late(due: int, every_s: float, now: int) -> bool:
    return now - due > ROUNDS_LATE * every_s * 1_000


PREDICATES = (check_story, check_deadline, check_lease, check_budget, check_case, check_effects)
