"""Predicates that know the kernel's own workload: which stage tells what, and which job has which effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.proof.finding import Finding
from holdfast.proof.history import History

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


def check_messages_of_stages(history: History) -> Iterator[Finding]:
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
                yield Finding("S16", text, job)


def check_effects_of_jobs(history: History) -> Iterator[Finding]:
    """S6: a job that succeeded has had its effect, by the provider's own account or a person's word."""
    for job in history.born:
        kind = history.kind_of(job).name
        changes = history.changes.get(job)
        if kind not in HAS_EFFECT or not changes or changes[-1].state != "succeeded":
            continue
        key = f"{kind.removeprefix('sim.')}/{job}"
        tale = history.providers[HAS_EFFECT[kind]]
        if not any(effect.payload == key for effect in tale.effects):
            yield Finding("S6", f"Job {job} succeeded but {tale.name} never did '{key}'.", job)
