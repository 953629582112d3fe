"""What asks for a person. The one function that decides it: console, front page, API, command line, metrics and alert
rules all read its answer, so that no two lights can differ.

It is pure: a look at a system goes in, notices come out. A notice of severity `page` wakes somebody, one of severity
`ticket` waits for the morning. A light that is on says what it is about, since when, and what to do.

Why so: docs/decisions/0023-one-desk-one-light.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from holdfast.core.breaker import Gate
from holdfast.core.case import CaseState
from holdfast.core.failure import Category
from holdfast.kernel.questions.horizon import held_back
from holdfast.operator.phrases import are, begin_with, clock, count_of, span, verb_for
from holdfast.operator.shape import shape_row
from holdfast.operator.snapshot import LOOK_CLOSER_S, BreakerView, DyingJobs, Lane, Snapshot
from holdfast.tables.incidents import Hit

OUTBOX_LAG_S = 60.0
WAIT_LONG_S = 300.0
WAIT_TOO_LONG_S = 1_800.0
WAIT_FACTOR = 5.0
"""Waiting is unusual from so many times the usual wait on, and never below a minute."""
UNUSUAL_S = LOOK_CLOSER_S
OUTAGE_LONG_S = 900.0
DYING_MANY = 10
"""More jobs than these that died of one thing in a quarter of an hour wake somebody."""


class Severity(StrEnum):
    PAGE = "page"
    TICKET = "ticket"


class Topic(StrEnum):
    """What a notice is about; the page of the console that helps is named after it."""

    STORE = "store_down"
    BROKER = "broker_down"
    NO_WORKER = "no_worker"
    UNDECLARED = "undeclared"
    WAITING = "waiting_long"
    DEADLINES = "deadlines_at_risk"
    OUTBOX = "outbox_lag"
    ASIDE = "messages_set_aside"
    PROVIDER = "provider_down"
    UNTRIED = "provider_untried"
    DOUBT = "effects_in_doubt"
    ESCALATED = "letters_escalated"
    BUG = "letters_of_bugs"
    DYING = "jobs_dying"
    LETTERS = "letters_open"
    HORIZON = "old_transaction"
    PAUSED = "paused"


TO_DO: dict[Topic, str] = {
    Topic.STORE: "See whether the database runs, can be reached from here, and has room.",
    Topic.BROKER: "See whether the broker runs and can be reached; nothing is lost meanwhile.",
    Topic.NO_WORKER: "Start `holdfast worker` for this queue.",
    Topic.UNDECLARED: "Start a worker whose code declares the stage, or take the deploy back.",
    Topic.WAITING: "Start more workers, or see what the running ones do.",
    Topic.DEADLINES: "See what holds them up; what misses its deadline becomes a dead letter and can be replayed.",
    Topic.OUTBOX: "See whether a relay runs and the broker answers.",
    Topic.ASIDE: "Publish them again or let them go.",
    Topic.PROVIDER: "See the provider's status page. Its jobs spend nothing, and go on by themselves when it answers.",
    Topic.UNTRIED: "Nothing; or run a job that needs it, to know. A provider with a `probe` is asked by itself.",
    Topic.DOUBT: "Ask the provider, and record for each whether it happened.",
    Topic.ESCALATED: "Have an engineer triage them again: the last fix did not help.",
    Topic.BUG: "Fix the code or the configuration, then replay the group.",
    Topic.DYING: "See the last error; pause the kind if more would die; then fix the cause and replay the group.",
    Topic.LETTERS: "Triage them group by group.",
    Topic.HORIZON: "End the transaction that is named.",
    Topic.PAUSED: "Resume it when the reason is gone; deadlines run meanwhile.",
}

COUNTED: dict[Topic, str] = {
    Topic.BROKER: "message",
    Topic.OUTBOX: "message",
    Topic.UNTRIED: "provider",
    Topic.ASIDE: "message",
    Topic.DOUBT: "effect",
    Topic.ESCALATED: "dead letter",
    Topic.LETTERS: "dead letter",
    Topic.HORIZON: "old row version",
}
"""What a notice counts, where it is not jobs."""

TO_DO_FORCED = "Close its breaker once the provider works: nothing tries it until then, and deadlines run."


@dataclass(frozen=True, slots=True)
class AttentionNotice:
    """One thing that asks for a person. `sentence` says what, since when, who is hit and what to do."""

    topic: Topic
    severity: Severity
    sentence: str
    number: int = 1
    """How many jobs, messages, letters or effects it is about."""
    subject: str = ""
    """Which of several: a queue, a provider, a stage."""
    owners: int = 0
    """Of how many owners the jobs are, as far as they were counted."""
    since_at: int | None = None
    next_at: int | None = None
    """When something happens by itself: the next trial."""
    late_at: int | None = None
    """When the first of the jobs misses its deadline."""
    answer: str | None = None
    """How the provider answered last."""
    to_do: str = ""
    """What a person does; by its topic, where nothing more is known."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "to_do", self.to_do or TO_DO[self.topic])


def shape_notice(notice: AttentionNotice) -> dict[str, Any]:
    """A notice as JSON, with what to do."""
    return shape_row(asdict(notice))


def what_asks(view: Snapshot | None, away_since: int | None = None) -> list[AttentionNotice]:
    """All that asks for a person in one system, the worst first. `view` is None where the database did not answer, and
    `away_since` is when that was seen first."""
    if view is None:
        since = "does not answer" if away_since is None else f"has not answered since {clock(away_since)}"
        sentence = f"The database {since}: nothing is accepted and nothing runs until it does."
        return [AttentionNotice(Topic.STORE, Severity.PAGE, sentence, since_at=away_since)]
    notices = [
        *_store(view),
        *_broker(view),
        *_pauses(view),
        *_workers(view),
        *_waiting(view),
        *_deadlines(view),
        *_outbox(view),
        *_providers(view),
        *_effects(view),
        *_letters(view),
        *_horizon(view),
    ]
    return sorted(notices, key=lambda notice: notice.severity is not Severity.PAGE)


def _store(view: Snapshot) -> Iterator[AttentionNotice]:
    if view.write_trouble is not None:
        trouble = view.write_trouble
        sentence = f"{trouble[0].upper()}{trouble[1:]}; nothing is accepted and nothing runs until it takes writes."
        yield AttentionNotice(Topic.STORE, Severity.PAGE, sentence)


def _broker(view: Snapshot) -> Iterator[AttentionNotice]:
    if view.broker_trouble is not None:
        trouble = view.broker_trouble.rstrip(".")
        sentence = f"The message broker cannot be used ({trouble}): messages wait and go on later."
        yield AttentionNotice(Topic.BROKER, Severity.PAGE, sentence, view.outbox_pending)


def _pauses(view: Snapshot) -> Iterator[AttentionNotice]:
    for pause, jobs in view.pauses:
        sentence = (
            f"The {pause.sort} '{pause.name}' has been paused by {pause.actor} since {clock(pause.since)} "
            f"({pause.reason}); {count_of(jobs, 'job')} {verb_for(jobs, 'waits', 'wait')} for it."
        )
        yield AttentionNotice(
            Topic.PAUSED, Severity.TICKET, sentence, jobs, f"{pause.sort}:{pause.name}", since_at=pause.since
        )


def _is_paused(view: Snapshot, lane: Lane) -> bool:
    return any(pause.sort == "queue" and pause.name == lane.queue for pause, _ in view.pauses)


def _workers(view: Snapshot) -> Iterator[AttentionNotice]:
    for lane in view.lanes:
        if _is_paused(view, lane):
            continue
        if lane.state == "queued" and lane.oldest_age_s > 0 and lane.queue not in view.served_queues:
            sentence = (
                f"{begin_with(lane.jobs, 'job')} {are(lane.jobs)} queued in '{lane.queue}', the oldest has been due "
                f"for {span(lane.oldest_age_s)}, and no worker serves it: start `holdfast worker`."
            )
            yield _of_queue(Topic.NO_WORKER, Severity.PAGE, sentence, lane, view)
    for waiting in view.undeclared:
        sentence = (
            f"{begin_with(waiting.jobs, 'job')} {are(waiting.jobs)} due: no running worker declares the stage "
            f"'{waiting.stage}' of '{waiting.kind}'. Start a worker whose code has it."
        )
        yield AttentionNotice(
            Topic.UNDECLARED, Severity.PAGE, sentence, waiting.jobs, f"{waiting.kind}/{waiting.stage}"
        )


def _waiting(view: Snapshot) -> Iterator[AttentionNotice]:
    usual_age_s = view.usual_age_s
    unusual_s = WAIT_LONG_S if usual_age_s is None else max(UNUSUAL_S, usual_age_s * WAIT_FACTOR)
    for lane in view.lanes:
        if lane.state != "queued" or lane.queue not in view.served_queues or lane.oldest_age_s < unusual_s:
            continue
        if _is_paused(view, lane):
            continue
        severity = Severity.PAGE if lane.oldest_age_s >= WAIT_TOO_LONG_S else Severity.TICKET
        usually = "" if usual_age_s is None else f" (usually {span(usual_age_s)})"
        sentence = (
            f"The oldest job of the queue '{lane.queue}' has been due for {span(lane.oldest_age_s)}{usually}; "
            f"{count_of(lane.jobs, 'job')} {are(lane.jobs)} queued: start more workers, or see what the "
            "running ones do."
        )
        yield _of_queue(Topic.WAITING, severity, sentence, lane, view)


def _of_queue(topic: Topic, severity: Severity, sentence: str, lane: Lane, view: Snapshot) -> AttentionNotice:
    hit = view.due_in.get(lane.queue, Hit())
    since_at = view.now - int(lane.oldest_age_s * 1_000)
    return AttentionNotice(topic, severity, sentence, lane.jobs, lane.queue, hit.owners, since_at, late_at=hit.late_at)


def _deadlines(view: Snapshot) -> Iterator[AttentionNotice]:
    risk = view.at_risk
    if risk.jobs and risk.first_at is not None:
        misses = "misses" if risk.first_at > view.now else "missed"
        sentence = (
            f"{begin_with(risk.jobs, 'job')} {verb_for(risk.jobs, 'has', 'have')} used three quarters of "
            f"{verb_for(risk.jobs, 'its', 'their')} time; the first {misses} its deadline at {clock(risk.first_at)}."
        )
        yield AttentionNotice(Topic.DEADLINES, Severity.TICKET, sentence, risk.jobs, late_at=risk.first_at)


def _outbox(view: Snapshot) -> Iterator[AttentionNotice]:
    if view.outbox_lag_s > OUTBOX_LAG_S:
        pending = view.outbox_pending
        sentence = (
            f"{begin_with(pending, 'message')} {are(pending)} not yet published, the oldest for "
            f"{span(view.outbox_lag_s)}: see whether a relay runs and the broker answers."
        )
        since_at = view.now - int(view.outbox_lag_s * 1_000)
        yield AttentionNotice(Topic.OUTBOX, Severity.PAGE, sentence, pending, since_at=since_at)
    if view.messages_aside:
        aside = view.messages_aside
        sentence = f"{begin_with(aside, 'message')} {are(aside)} set aside after the last try: publish again or let go."
        yield AttentionNotice(Topic.ASIDE, Severity.TICKET, sentence, aside)


def _providers(view: Snapshot) -> Iterator[AttentionNotice]:
    for breaker in view.breakers:
        began_at = breaker.began_at()
        if breaker.state.gate is Gate.CLOSED or began_at is None:
            continue
        if breaker.is_untried(view.now):
            words = f"Provider '{breaker.name}' was down from {clock(began_at)}; the next job that needs it tries it."
            yield AttentionNotice(Topic.UNTRIED, Severity.TICKET, words, 1, breaker.name, since_at=began_at)
            continue
        severity = Severity.PAGE if breaker.open_s(view.now) >= OUTAGE_LONG_S else Severity.TICKET
        hit = view.held_for.get(breaker.name, Hit())
        yield AttentionNotice(
            Topic.PROVIDER,
            severity,
            _outage(breaker, began_at, hit),
            breaker.parked,
            breaker.name,
            hit.owners,
            began_at,
            None if breaker.state.forced else breaker.state.open_until,
            hit.late_at,
            hit.answer,
            TO_DO_FORCED if breaker.state.forced else "",
        )


def _outage(breaker: BreakerView, began_at: int, hit: Hit) -> str:
    state = breaker.state
    reasons = [state.reason, f"it answered {hit.answer}" if hit.answer else None]
    why = f" ({'; '.join(filter(None, reasons))})" if any(reasons) else ""
    waits = verb_for(breaker.parked, "waits for it and spends", "wait for it and spend")
    held = f"{count_of(breaker.parked, 'job')} {waits} nothing"
    if state.forced:
        after = "a person opened its breaker, and a person must close it"
    elif state.open_until is None or state.gate is Gate.HALF_OPEN:
        after = "it is being tried"
    else:
        after = f"next trial {clock(state.open_until)}"
    return f"Provider '{breaker.name}' has been down since {clock(began_at)}{why}; {held}; {after}."


def _effects(view: Snapshot) -> Iterator[AttentionNotice]:
    for provider, status, number in view.effects:
        if status == "review":
            sentence = (
                f"{begin_with(number, 'effect')} of '{provider}' {are(number)} in doubt: only a person can know "
                f"whether {verb_for(number, 'it', 'they')} happened."
            )
            yield AttentionNotice(Topic.DOUBT, Severity.TICKET, sentence, number, provider)


def _letters(view: Snapshot) -> Iterator[AttentionNotice]:
    """What a user's own input caused is nobody's work here: it was told to the user, and has a lane of its own."""
    escalated = bugs = 0
    for (state, category, cause), number in view.letters.items():
        if state == CaseState.ESCALATED and cause == "service":
            escalated += number
        elif state == CaseState.OPEN and category == Category.BUG and cause == "service":
            bugs += number
    bugs -= min(bugs, view.letters_late)
    if escalated:
        letters = f"{begin_with(escalated, 'dead letter')} {are(escalated)}"
        sentence = f"{letters} escalated: fixed, replayed, and dead again in the same way."
        yield AttentionNotice(Topic.ESCALATED, Severity.PAGE, sentence, escalated)
    if bugs:
        where = _bug_places(view.bugs_in)
        sentence = (
            f"{begin_with(bugs, 'job')} died of a bug or a wrong configuration{where}, and nobody has looked yet."
        )
        yield AttentionNotice(Topic.BUG, Severity.PAGE, sentence, bugs)
    many = [dying for dying in view.dying if dying.letters > DYING_MANY and dying.category != Category.BUG]
    yield from map(_dying, many)
    rest = view.dead_letters_open - escalated - bugs - sum(dying.letters for dying in many)
    if rest > 0:
        yield AttentionNotice(Topic.LETTERS, Severity.TICKET, f"{begin_with(rest, 'dead letter')} to work on.", rest)


def _bug_places(places: Sequence[tuple[str, str]]) -> str:
    if not places:
        return ""
    (kind, stage), *others = places
    return f" in '{stage}' of '{kind}'" + (f" and {count_of(len(others), 'other stage')}" if others else "")


def _dying(jobs: DyingJobs) -> AttentionNotice:
    sentence = (
        f"{begin_with(jobs.letters, 'job')} of '{jobs.kind}' died of {jobs.error_class} in '{jobs.stage}' since "
        f"{clock(jobs.first_at)}, and nobody has looked yet."
    )
    subject = f"{jobs.kind}/{jobs.stage}/{jobs.error_class}"
    number, owners = jobs.letters, jobs.owners
    return AttentionNotice(Topic.DYING, Severity.PAGE, sentence, number, subject, owners, since_at=jobs.first_at)


def _horizon(view: Snapshot) -> Iterator[AttentionNotice]:
    sentence = held_back(view.horizon)
    if sentence is not None:
        yield AttentionNotice(Topic.HORIZON, Severity.TICKET, sentence, view.horizon.dead_versions)
