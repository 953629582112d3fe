"""Predicates that know the kernel's own workload: which stage tells what, and which job has which effect."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from holdfast.operator.finding import Violation
from holdfast_proof.history import RunHistory
from holdfast_proof.messages import BrokerEvent
from holdfast_proof.provider_stub import Effect
from holdfast_proof.workload import ESSAY_RUNS, notice_key

# (kind, stage) -> what it tells when it is done, and whether the message's id is the same every time.
TELLS = {
    ("sim.digest", "fetch"): ("fetched", True),
    ("sim.digest", "notify"): ("done", False),
    ("sim.letter", "send"): ("done", True),
    ("sim.parcel", "send"): ("done", False),
    ("sim.notice", "send"): ("done", False),
    ("sim.hasty", "think"): ("done", False),
    ("sim.question", "close"): ("done", False),
    ("sim.moody", "try_it"): ("done", False),
    ("sim.tick", "tock"): ("done", False),
}
# kind -> the provider that must have done something for it, and the head of the key.
HAS_EFFECT = {"sim.digest": "mail.token", "sim.letter": "mail.lookup", "sim.parcel": "mail.neither"}


def check_messages_of_stages(history: RunHistory) -> Iterator[Violation]:
    """S16: a stage's message is in the outbox if and only if its result was accepted, and once."""
    told = Counter((line.data[0], line.data[2]) for line in history.of("told"))
    for job in history.born:
        kind = history.kind_of(job).name
        for (of_kind, stage), (what, fixed) in TELLS.items():
            if of_kind != kind:
                continue
            done = sum(
                change.event in ("succeeded", "advanced") and change.old_stage == stage
                for change in history.changes.get(job, ())
            )
            wanted = min(1, done) if fixed else done
            if told[job, what] != wanted:
                text = f"Stage '{stage}' of job {job} was done {done} times and told '{what}' {told[job, what]} times."
                yield Violation("S16", text, job)


def check_effects_of_jobs(history: RunHistory) -> Iterator[Violation]:
    """S6: a job that succeeded has had its effect, by the provider's own account or a person's word."""
    for job in history.born:
        kind = history.kind_of(job).name
        changes = history.changes.get(job)
        if kind not in HAS_EFFECT or not changes or changes[-1].state != "succeeded":
            continue
        key = f"{kind.removeprefix('sim.')}/{job}"
        tale = history.providers[HAS_EFFECT[kind]]
        if not any(effect.payload == key for effect in tale.effects):
            yield Violation("S6", f"Job {job} succeeded but {tale.name} never did '{key}'.", job)


def check_paid(history: RunHistory) -> Iterator[Violation]:
    """S23: what a stage asks for in an epoch is charged once, whatever dies; its answers are kept before it ends."""
    tutor = history.providers["tutor"]
    charged: dict[object, Effect] = {}
    for effect in tutor.effects:
        before, question = charged.get(effect.payload), effect.payload
        charged[question] = effect
        if before is None:
            continue
        if before.token == effect.token and effect.at_ms - before.at_ms >= tutor.retention_ms:
            continue  # asked under the same key, which the provider had forgotten: nobody could know
        assert isinstance(question, tuple)
        yield Violation("S23", f"Question {question[1:]} of job {question[0]} was charged again.", question[0])
    kept = Counter((line.id, *line.data[:2]) for line in history.of("answer", "answered") if line.data[3])
    for change in history.all_changes():
        if change.event == "advanced" and history.kind_of(change.job).name == "sim.essay":
            have = kept[change.job, change.old_stage, change.epoch]
            if have != ESSAY_RUNS:
                text = f"Job {change.job} went on with {have} of {ESSAY_RUNS} paid answers kept."
                yield Violation("S23", text, change.job)


def check_notices(history: RunHistory) -> Iterator[Violation]:
    """S6: a notice that succeeded has had the effect of its own group, and not of one that reads alike."""
    done = {effect.payload for effect in history.providers["mail.token"].effects}
    for accepted in history.accepted:
        changes = history.changes.get(accepted.job or "")
        if accepted.kind != "sim.notice" or not changes or changes[-1].state != "succeeded":
            continue
        key = notice_key(json.loads(accepted.payload)["group"])
        if key not in done:
            yield Violation("S6", f"Job {accepted.job} succeeded but mail.token never did {key}.", accepted.job)


SEEN = frozenset(
    [
        "poison set aside",
        "late result kept",
        "lookup",
        "effect after its caller gave up",
        "callback before anybody waits",
        "callback delivered twice",
        "callback to a job that has ended",
        "replay from the first stage, as asked",
        "jobs that share an effect",
    ]
)
"""What the workload is for: each must happen, or the predicates about it have judged nothing."""
_PATIENCE_MS = 10_000


def tally(history: RunHistory) -> dict[str, int]:
    """How often each of `SEEN` happened."""
    changes = list(history.all_changes())
    callbacks = [event for event in history.broker if event.queue == "sim.callbacks"]
    given = [event for event in callbacks if event.kind == "delivered"]
    notices = sum(line.data[0] == "sim.notice" for line in history.born.values())
    shared = sum(line.id.startswith("sim:/notice/") for line in history.of("planned"))
    return {
        "poison set aside": sum(change.note.get("reason") == "poison" for change in changes),
        "late result kept": sum(line.data[2] for line in history.of("result")),
        "lookup": sum(event.kind == "lookup" for tale in history.providers.values() for event in tale.log),
        "effect after its caller gave up": _late_effects(history),
        "callback before anybody waits": sum(event.kind.startswith("raised") for event in callbacks),
        "callback delivered twice": len(given) - len({event.message_id for event in given}),
        "callback to a job that has ended": sum(_has_ended(history, event) for event in given),
        "replay from the first stage, as asked": sum(bool(change.note.get("full")) for change in changes),
        "jobs that share an effect": max(0, notices - shared),
    }


def _late_effects(history: RunHistory) -> int:
    late = 0
    for tale in history.providers.values():
        sent = {event.call: event.at_ms for event in tale.log if event.kind == "send"}
        late += sum(effect.at_ms - sent[effect.call] > _PATIENCE_MS for effect in tale.effects)
    return late


def _has_ended(history: RunHistory, callback: BrokerEvent) -> bool:
    before = [c for c in history.changes.get(callback.message_id.split("/")[1], ()) if c.at_ms <= callback.at_ms]
    return bool(before) and before[-1].state in ("dead", "succeeded", "cancelled")
