"""Predicates about the grading service and the queues between: one grading per request, every answer sent, every bad
message in the dead letters, nothing acked before it is kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from holdfast.operator.finding import Violation
from holdfast_proof.history import HistoryLine
from holdfast_proof.messages import BrokerEvent
from holdfast_systems.grading import refused
from holdfast_systems.grading.contract import CALLBACK_QUEUE, DEAD_LETTER_QUEUE, REQUEST_QUEUE
from holdfast_systems.grading.sim.apps import LLM_RUNS
from holdfast_systems.grading.sim.evidence import Evidence, Graded

# No retry mends these.
HOPELESS = ("AUDIO_", "CONTENT_", "INVALID_")
# What a handler may meet without being wrong: the message comes again.
EXCUSED = frozenset(["StoreBusy", "StoreUnavailable", "BrokerDown", "TransportDown"])


def check_gradings(evidence: Evidence) -> Iterator[Violation]:
    """G4: a request has one job, one result forever, and no call that no attempt of its job accounts for."""
    jobs = {line.data[0]: request_id for request_id, line in evidence.requests.items()}
    for job, born in evidence.history.born.items():
        if job not in jobs and born.data[0] != refused.KIND:
            yield Violation("G4", f"Job {job} grades a request that another job has.", job)
    for line in evidence.history.of("grading"):
        write = Graded(*line.data)
        if write.old_status == "completed" and (write.status, write.answer) != (write.old_status, write.old_answer):
            yield Violation("G4", f"The result of request {line.id} was replaced.", evidence.job_of(line.id))
    for request_id, said in evidence.ours.items():
        results = {json.dumps(tree["data"], sort_keys=True) for tree in said if tree["kind"] == "completed"}
        if len(results) > 1:
            yield Violation("G4", f"Request {request_id} was answered with {len(results)} results.")
    yield from _judge_calls(evidence)


def _judge_calls(evidence: Evidence) -> Iterator[Violation]:
    """An attempt asks the model once per run and the transcriber once; who claimed nothing asks nothing."""
    claims: Counter[tuple[str, str, str]] = Counter()
    for job, changes in evidence.history.changes.items():
        for change in changes:
            claims[job, change.stage, change.host] += change.event == "claimed"
    jobs: dict[str, set[str]] = {}
    for request_id, one in evidence.by_request.items():
        if (graded_by := evidence.job_of(request_id)) is not None:
            jobs.setdefault(one.work, set()).add(graded_by)
    for name, stage, runs in (("llm", "grade", LLM_RUNS), ("stt", "transcribe", 1)):
        calls = Counter(
            (event.token, event.host) for event in evidence.history.providers[name].log if event.kind == "send"
        )
        for (work, host), count in calls.items():
            ours = sorted(jobs.get(work, ()))
            claimed = sum(claims[job, stage, host] for job in ours)
            if count > runs * claimed:
                text = f"{name} was asked {count} times for {work} by {host}, in {claimed} attempts."
                yield Violation("G4", text, ours[0] if ours else None)


def check_answers(evidence: Evidence) -> Iterator[Violation]:
    """G6, G7, G14: an answer is in the outbox exactly if what it tells of was committed."""
    ends: Counter[str] = Counter()
    repeats: Counter[str] = Counter()
    openings: Counter[tuple[str, str, int]] = Counter()
    for line in evidence.history.of("grading"):
        write = Graded(*line.data)
        if write.finishes:
            ends[line.id] += 1
        elif write.repeats != write.old_repeats:
            repeats[line.id] += write.old_status != "running"
        else:
            openings[line.id, write.provider, write.generation] += 1
    for request_id in evidence.requests:
        said = [tree for tree in evidence.ours.get(request_id, ()) if _code(tree) != "INVALID_INPUT"]
        finals = sum(tree["kind"] == "completed" or _is_final(tree) for tree in said)
        job = evidence.job_of(request_id)
        if finals != ends[request_id] + repeats[request_id]:
            text = f"Request {request_id} ended {ends[request_id]} times and was asked for again {repeats[request_id]}"
            yield Violation("G14", f"{text} times, but {finals} final callbacks were written.", job)
        held = sum(_code(tree) == "CIRCUIT_OPEN" for tree in said)
        told = sum(count for (request, _, _), count in openings.items() if request == request_id)
        if held != told:
            yield Violation(
                "G7", f"Request {request_id} was held {told} times and its sender was told {held} times.", job
            )
    for (request_id, provider, generation), count in openings.items():
        if count > 1:
            text = f"Request {request_id} was told {count} times of opening {generation} of {provider}."
            yield Violation("G7", text, evidence.job_of(request_id))
    yield from _judge_ends(evidence, ends)


def _judge_ends(evidence: Evidence, ends: Counter[str]) -> Iterator[Violation]:
    """Every end of a job is an end of its request; the dead are laid down beside the queue."""
    letters = Counter(letter["requestId"] for letter in evidence.letters if letter.get("stage") != "intake")
    for request_id, line in evidence.requests.items():
        changes = evidence.history.changes.get(line.data[0], ())
        moved = [change for change in changes if change.state != change.old_state]
        ended = sum(change.state in ("succeeded", "dead", "cancelled") for change in moved)
        late = line.data[0] not in evidence.history.born
        if ends[request_id] != ended + late:
            text = f"The job of request {request_id} ended {ended} times and its answer was kept {ends[request_id]}"
            yield Violation("G14", f"{text} times.", line.data[0])
        hopeless = [c for c in moved if c.event == "retried" and str(c.note.get("error_class")).startswith(HOPELESS)]
        if hopeless:
            text = f"The job of request {request_id} was tried again after {hopeless[0].note['error_class']}."
            yield Violation("G6", text, line.data[0])
        dead = sum(change.state == "dead" for change in moved)
        if letters[request_id] != dead:
            text = f"The job of request {request_id} died {dead} times and left {letters[request_id]} dead letters."
            yield Violation("G6", text, line.data[0])


def check_poison(evidence: Evidence) -> Iterator[Violation]:
    """G5: what is no request ends in the dead letters once, and its sender hears of it where it can be named."""
    taken = {line.id: position for position, line in enumerate(evidence.history.lines) if line.what == "inbox"}
    known = {line.id: position for position, line in enumerate(evidence.history.lines) if line.what == "request"}
    wanted: Counter[str] = Counter()
    for poison in evidence.poisons:
        laid = sum(letter["originalSha256"] == poison.sha256 for letter in evidence.letters)
        if laid != 1:
            yield Violation("G5", f"'{poison.message_id}' was laid down {laid} times.")
        if poison.request_id is not None and poison.identity in taken:
            accepted = known.get(poison.request_id)
            wanted[poison.request_id] += accepted is None or accepted > taken[poison.identity]
    found = Counter(
        {request_id: sum(_code(tree) == "INVALID_INPUT" for tree in said) for request_id, said in evidence.ours.items()}
    )
    for request_id in sorted(wanted.keys() | found.keys()):
        if wanted[request_id] != found[request_id]:
            text = f"Request {request_id} was refused {wanted[request_id]} times and its sender was told"
            yield Violation("G5", f"{text} {found[request_id]} times.")


def check_refused(evidence: Evidence) -> Iterator[Violation]:
    """G5, K8: what could not be read is a case, with the ids that came in it; and it is read again by a replay only."""
    names = {poison.identity: poison for poison in evidence.poisons}
    taken = {line.id for line in evidence.history.of("inbox")}
    born = {line.data[1]: job for job, line in evidence.history.born.items() if line.data[0] == refused.KIND}
    for identity, poison in names.items():
        if identity in taken and identity not in born:
            yield Violation("G5", f"'{poison.message_id}' was refused and there is no job for its case.")
    for identity, job in born.items():
        last = evidence.history.changes[job][-1]
        if last.state not in ("dead", "cancelled"):
            yield Violation("G5", f"The refused message of job {job} is {last.state} at the end of all.", job)
        elif last.state == "dead" and evidence.cases.get(job) != (names[identity].request_id or job):
            yield Violation("K7", f"The case of job {job} names the request {evidence.cases.get(job)!r}.", job)


def check_deliveries(evidence: Evidence) -> Iterator[Violation]:
    """S16: a message is acked once it is kept, not before; S18: and what was published is kept in the end."""
    kept = _Kept(evidence)
    for event in evidence.history.broker:
        if event.kind.startswith("raised ") and event.kind.removeprefix("raised ") not in EXCUSED:
            yield Violation("crash", f"The handler of {event.message_id} in {event.host} {event.kind}.")
        if event.kind == "acked" and not kept.holds(event):
            yield Violation("S16", f"Message {event.message_id} of {event.queue} was acked by {event.host} unkept.")
    for request_id in evidence.by_request:
        if request_id not in evidence.requests:
            yield Violation("S18", f"The request {request_id} never reached the grading service.")
    for message_id, identity in evidence.laid.items():
        if identity not in kept.letters:
            yield Violation("G5", f"The letter {message_id} was never kept for a person.")
    for said in evidence.ours.values():
        for tree in said:
            if tree["eventId"] not in kept.callbacks:
                yield Violation("G14", f"The {tree['kind']} callback {tree['eventId']} never reached the main app.")


def check_order(evidence: Evidence) -> Iterator[Violation]:
    """K10: the messages of one request or submission leave one after the other, in the order they were written."""
    left: dict[str, int] = {}
    for event in evidence.history.broker:
        if event.kind == "publishing":
            left.setdefault(event.message_id, event.at_ms)
    marked = {line.id: line.at_ms for line in evidence.history.of("outbox") if line.data[1] == "published"}
    last: dict[tuple[str, bool], str] = {}
    for line in evidence.history.of("told"):
        # The two services have an outbox each: what one calls by a submission's id the other may, too.
        group = (line.data[0], line.data[2] == REQUEST_QUEUE)
        before = last.get(group)
        last[group] = line.id
        if before is not None and line.id in left and left[line.id] < marked.get(before, left[line.id] + 1):
            yield Violation("K10", f"Message {line.id} left before message {before} of {line.data[0]}.")


class _Kept:
    """When each message was first written down, and by whom."""

    def __init__(self, evidence: Evidence) -> None:
        self.callbacks: dict[str, int] = {}
        self.requests: dict[tuple[str, str], int] = {}
        self.refused: dict[str, int] = {}
        self.letters: dict[str, int] = {}
        for line in evidence.history.of("callback", "spoiled", "inbox", "request", "grading", "letter"):
            self._note(line)
        self.carried = evidence.carried | evidence.resent
        self.poisons = {poison.message_id: poison.identity for poison in evidence.poisons}
        self.evidence = evidence

    def _note(self, line: HistoryLine) -> None:
        if line.what == "callback":
            self.callbacks.setdefault(line.id, line.at_ms)
        elif line.what == "letter":
            self.letters.setdefault(line.id, line.at_ms)
        elif line.what in ("spoiled", "inbox"):
            self.refused.setdefault(line.id, line.at_ms)
        else:
            self.requests.setdefault((line.id, line.host), line.at_ms)

    def holds(self, event: BrokerEvent) -> bool:
        if event.queue == CALLBACK_QUEUE:
            garbage = self.evidence.garbage.get(event.message_id)
            known = self.evidence.events.get(event.message_id, event.message_id)
            at_ms = self.callbacks.get(known) if garbage is None else self.refused.get(garbage)
        elif event.queue == DEAD_LETTER_QUEUE:
            at_ms = self.letters.get(self.evidence.laid[event.message_id])
        elif event.message_id in self.poisons:
            at_ms = self.refused.get(self.poisons[event.message_id])
        else:
            at_ms = self.requests.get((self.carried[event.message_id], event.host))
        return at_ms is not None and at_ms <= event.at_ms


def _code(tree: dict[str, Any]) -> str | None:
    found: str | None = tree["data"]["error"]["code"] if tree["kind"] == "error" else None
    return found


def _is_final(tree: dict[str, Any]) -> bool:
    return tree["kind"] == "error" and not tree["data"]["error"]["retryable"]
