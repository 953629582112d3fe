"""What the review system promises, as predicates over a simulated history. Providers are asked, not the tables.

R1 one review per key    R2 versions only rise        R4 one mail per (changelist, recipient, version), ever
R3 five sends are five
R5 the same bytes        R6 doubts reach a person     R7 success means that everybody required was told, once
K6 a finished stage is never run or paid for again    K8 the second failure alike escalates
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from holdfast.operator.finding import Violation
from holdfast_proof.history import JobChange, RunHistory
from holdfast_proof.provider_stub import ProviderEvent
from holdfast_proof.world import CANARY
from holdfast_systems.review.reviews import status_of
from holdfast_systems.review.sim.engine import ENV

if TYPE_CHECKING:
    from holdfast_systems.review.sim.world import ReviewWorld

HELD, ELSEWHERE, STRAY = "held", "elsewhere", "stray"
JUST_NOW_MS = 2_000
ATTEMPTS = int(ENV["REVIEW_ATTEMPTS"])


class ReviewAtBirth(NamedTuple):
    """A review as its row was born."""

    job: str
    at_ms: int
    changelist: str
    version: int
    key: str
    fingerprint: str
    review: str


@dataclass(frozen=True, slots=True)
class ReviewEvidence:
    """A seed, as these predicates look at it."""

    world: ReviewWorld
    history: RunHistory
    asked: Mapping[tuple[str, int], ReviewAtBirth]

    def where(self, asked: ReviewAtBirth, call: ProviderEvent, stage: str) -> str:
        """Whether the caller held the job in this stage, in another one, or not at all: then it had been paused until
        its attempt was taken away, and nothing could stop it. What happened in the very same millisecond may have
        happened before or after."""
        before: JobChange | None = None
        moments: list[JobChange] = []
        taken_away = False
        for change in self.history.changes.get(asked.job, ()):
            if change.at_ms < call.at_ms:
                before = change
                lost = change.event in ("lost", "buried") and change.old_stage == stage
                taken_away = taken_away or (lost and self._holder(change) == call.host)
            elif change.at_ms == call.at_ms:
                moments.append(change)
        told = [change for change in (before, *moments) if change is not None]
        holding = [change for change in told if change.state == "processing" and self._holder(change) == call.host]
        if taken_away and self.history.stalled(call.host, call.at_ms - JUST_NOW_MS, call.at_ms):
            return STRAY  # the attempt that was taken away went on, whatever else its process has claimed since
        if any(change.stage == stage for change in holding):
            return HELD
        return ELSEWHERE if holding and not taken_away else STRAY

    def _holder(self, change: JobChange) -> str:
        """Who claimed the attempt that a row shows."""
        for earlier in self.history.changes[change.job]:
            if earlier.event == "claimed" and earlier.attempt == change.attempt:
                return earlier.host
        return ""


def evidence_of(world: ReviewWorld, history: RunHistory) -> ReviewEvidence:
    rows = [ReviewAtBirth(line.id, line.at_ms, *line.data) for line in history.of("review")]
    return ReviewEvidence(world, history, {(row.changelist, row.version): row for row in rows})


def check_reviews(world: ReviewWorld, history: RunHistory) -> Iterator[Violation]:
    """Everything that the seed breaks."""
    seen = evidence_of(world, history)
    for predicate in (
        check_versions, check_answers, check_sends, check_deliveries, check_bodies, check_ends, check_stages,
        check_payments, check_kept, check_bystanders, check_escalations, check_leaks,
    ):  # fmt: skip
        yield from predicate(seen)


def check_versions(seen: ReviewEvidence) -> Iterator[Violation]:
    """R1, R2: a key has one review, and the versions of a changelist only rise, by reruns."""
    keys = Counter(row.key for row in seen.asked.values())
    yield from (Violation("R1", f"The key '{key}' has {count} reviews.") for key, count in keys.items() if count > 1)
    by_key = {wish.request.idempotency_key: wish.request for wish in seen.world.wishes if wish.answer == "new"}
    highest: dict[str, int] = {}
    for row in seen.asked.values():
        before = highest.get(row.changelist, 0)
        if row.version <= before:
            yield Violation("R2", f"Version {row.version} of {row.changelist} was begun after {before}.", row.job)
        request = by_key.get(row.key)
        if before and request is not None and not request.rerun:
            yield Violation("R2", f"Version {row.version} of {row.changelist} was not asked for as a rerun.", row.job)
        highest[row.changelist] = max(before, row.version)


def check_answers(seen: ReviewEvidence) -> Iterator[Violation]:
    """R1, R2: what a caller was told fits the reviews that were there; whatever is asked for under a key that was
    answered before, the answer is that job."""
    answered_before: dict[str, set[str]] = {}
    for wish in sorted(seen.world.wishes, key=lambda wish: wish.answered_ms):
        request, said = wish.request, wish.answer
        there = [row for row in seen.asked.values() if row.at_ms <= wish.answered_ms]
        of_key = [row for row in there if row.key == request.idempotency_key]
        same = [
            row for row in there if (row.changelist, row.version) == (request.changelist_id, request.review_version)
        ]
        latest = max((row.version for row in there if row.changelist == request.changelist_id), default=0)
        known_before = [row for row in same if row.at_ms < wish.asked_ms]
        unlike = [row for row in (*of_key, *same) if row.fingerprint != request.fingerprint]
        fits = {
            "new": any(row.job == wish.job for row in of_key),
            "known": any(row.job == wish.job for row in (*of_key, *same)),
            "known otherwise": any(row.job == wish.job and row in of_key for row in unlike)
            or wish.job in answered_before.get(request.idempotency_key, ()),
            "REVIEW_VERSION_TAKEN": any(row in same for row in unlike),
            "REVIEW_VERSION_LOWER": latest > request.review_version and not known_before,
            "RERUN_NOT_ASKED": latest > 0 and not request.rerun and not known_before,
            None: True,
        }
        if not fits[said]:
            text = f"A caller of {request.changelist_id} v{request.review_version} was told '{said}', wrongly."
            yield Violation("R2", text, wish.job)
        of_this_key = answered_before.setdefault(request.idempotency_key, set())
        if wish.job is not None:
            of_this_key.add(wish.job)
        if len(of_this_key) > 1:
            yield Violation("R1", f"The key '{request.idempotency_key}' was answered with {len(of_this_key)} jobs.")


def check_sends(seen: ReviewEvidence) -> Iterator[Violation]:
    """R3: within one epoch of its job a mail is sent as often as its stage has attempts, and no more. What a provider
    answers that is known to be down, or that asks to be called later, is no attempt."""
    if seen.world.lost_mails:
        return  # told again by another job, with a budget of its own
    name = f"mail.{seen.world.mail}"
    gates = [(line.at_ms, line.data[1]) for line in seen.history.of("gate") if line.id == name]
    heard = {call.call: call for call in seen.world.providers[name].log if call.kind == "answer"}
    sends: dict[tuple[str, int, str], int] = Counter()
    for asked, call in ((asked, call) for stage, asked, call in _calls(seen) if stage == "notify"):
        answer = heard.get(call.call)
        at_ms, detail = (answer.at_ms, answer.detail) if answer is not None else (_written_at(seen, call), "")
        if at_ms is None or not _is_free(at_ms, detail, gates):
            sends[asked.job, _epoch_at(seen, asked.job, call.at_ms), call.token] += 1
    for (job, epoch, token), count in sends.items():
        if count > ATTEMPTS:
            yield Violation("R3", f"The mail {token[:12]} was sent {count} times in epoch {epoch} of its job.", job)


def _written_at(seen: ReviewEvidence, call: ProviderEvent) -> int | None:
    """When the caller of a send that it heard nothing of wrote that down: its breaker counted it then."""
    lines = (line for line in seen.history.of("effect") if line.at_ms > call.at_ms and line.data[6] == call.token)
    return next((line.at_ms for line in lines if line.data[1] != "sending"), None)


def _is_free(at_ms: int, detail: str, gates: Sequence[tuple[int, str]]) -> bool:
    """Whether the gate was not closed a little after the answer, when it is read, or the provider asked to wait."""
    near = [gate for at, gate in gates if at_ms <= at <= at_ms + JUST_NOW_MS]
    before = [gate for at, gate in gates if at < at_ms]
    return "limited" in detail or any(gate != "closed" for gate in (*near, *before[-1:]))


def _epoch_at(seen: ReviewEvidence, job: str, at_ms: int) -> int:
    return max((change.epoch for change in seen.history.changes.get(job, ()) if change.at_ms <= at_ms), default=0)


def check_deliveries(seen: ReviewEvidence) -> Iterator[Violation]:
    """R4, R7: nobody is mailed twice; a review that succeeded was mailed to everybody required."""
    stub = seen.world.providers[f"mail.{seen.world.mail}"]
    mails = Counter(effect.payload[:3] for effect in stub.effects if isinstance(effect.payload, tuple))
    for (changelist, version, recipient), count in mails.items():
        if count > 1:
            job = seen.asked[changelist, version].job
            text = f"{recipient} was mailed {count} times about {changelist} v{version} ({stub.name})."
            yield Violation("R4", text, job)
    rows = seen.world.query(
        "SELECT r.changelist_id, r.review_version, p.recipient, r.job_id FROM reviews AS r JOIN review_recipients AS p "
        "ON p.changelist_id = r.changelist_id AND p.review_version = r.review_version "
        "WHERE r.status = 'succeeded' AND p.required = 1 AND p.superseded_at IS NULL ORDER BY r.id, p.position"
    )
    for changelist, version, recipient, job in rows:
        if not mails[changelist, version, recipient]:
            text = f"The review of {changelist} v{version} succeeded and {recipient} was never mailed."
            yield Violation("R7", text, job)


def check_bodies(seen: ReviewEvidence) -> Iterator[Violation]:
    """R5: a token always comes with the same bytes."""
    for token, bodies in seen.world.posted.items():
        if len(bodies) > 1:
            yield Violation("R5", f"The token {token[:12]} was posted with {len(bodies)} different mails.")


def check_ends(seen: ReviewEvidence) -> Iterator[Violation]:
    """R6, R7: every review succeeded, or failed and a dead letter asks for a person; no doubt is kept from people."""
    rows = seen.world.query(
        "SELECT r.id, r.status, r.job_id, r.changelist_id, r.review_version, j.state AS job_state, "
        "j.first_failure_at, d.id AS letter FROM reviews AS r LEFT JOIN holdfast_jobs AS j ON j.id = r.job_id "
        "LEFT JOIN holdfast_dead_letters AS d ON d.job_id = r.job_id ORDER BY r.id"
    )
    for row in rows:
        name, status = f"{row['changelist_id']} v{row['review_version']}", status_of(row)
        if status not in ("succeeded", "failed"):
            yield Violation("R7", f"The review of {name} is still {status}.", row["job_id"])
        if status != row["status"]:
            yield Violation("R7", f"The review of {name} is {status} but its row says {row['status']}.", row["job_id"])
        if row["job_state"] == "dead" and row["letter"] is None:
            yield Violation("R10", f"The review of {name} failed and has no dead letter.", row["job_id"])
    doubts = "SELECT key, job_id FROM holdfast_effects WHERE status IN ('sending', 'unknown') ORDER BY key"
    for key, job in seen.world.query(doubts):
        yield Violation("R6", f"Whether '{key}' was sent is in doubt, and nobody is asked.", job)


def check_stages(seen: ReviewEvidence) -> Iterator[Violation]:
    """K6: every call belongs to the stage its job is in; a stage that is done calls nobody again."""
    for stage, asked, call in _calls(seen):
        if seen.where(asked, call, stage) == ELSEWHERE:
            text = f"Job {asked.job} made call {call.call} of its stage '{stage}' while it was in another stage."
            yield Violation("K6", text, asked.job)


def check_payments(seen: ReviewEvidence) -> Iterator[Violation]:
    """K6: what a model said of a part of a change is paid for once: when it is kept, nobody asks again."""
    kept: dict[tuple[str, str], int] = {}
    for line in seen.history.of("chunk", "chunk_again"):
        kept.setdefault((line.id, line.data[1]), line.at_ms)
    for asked, call in _prompts(seen):
        at_ms = kept.get((asked.review, call.token.rpartition("#")[2]))
        if at_ms is not None and at_ms < call.at_ms and seen.where(asked, call, "llm") != STRAY:
            text = f"A part of {asked.changelist} v{asked.version} was paid for again (call {call.call})."
            yield Violation("K6", text, asked.job)


def check_kept(seen: ReviewEvidence) -> Iterator[Violation]:
    """K6: when the critique is done, every part of it that was paid for is kept, for replays from whichever stage."""
    kept = {(line.id, line.data[1]): line.at_ms for line in seen.history.of("chunk", "chunk_again")}
    done: dict[str, int] = {}
    for change in seen.history.all_changes():
        if change.event == "advanced" and change.old_stage == "llm":
            done.setdefault(change.job, change.at_ms)
    for asked, call in _prompts(seen):
        part = (asked.review, call.token.rpartition("#")[2])
        if asked.job in done and call.at_ms <= done[asked.job] < kept.get(part, done[asked.job] + 1):
            text = f"The critique of {asked.changelist} v{asked.version} is done and call {call.call} was not kept."
            yield Violation("K6", text, asked.job)


def check_bystanders(seen: ReviewEvidence) -> Iterator[Violation]:
    """R7: one bad recipient fails its own row only: nobody else of that version was left untried. A recipient that a
    correction brought after the last attempt is for the next replay; the clocks of two hosts cannot tell, the order
    of the changes can."""
    rows = seen.world.query(
        "SELECT r.job_id, d.recipient, EXISTS (SELECT 1 FROM review_recipients AS o "
        "WHERE o.superseded_by = d.recipient AND o.changelist_id = d.changelist_id "
        "AND o.review_version = d.review_version) AS corrected "
        "FROM reviews AS r JOIN review_deliveries AS d "
        "ON d.changelist_id = r.changelist_id AND d.review_version = r.review_version "
        "WHERE r.error_class = 'INVALID_RECIPIENT' AND d.status = 'pending' AND d.attempts = 0 ORDER BY d.effect_key"
    )
    for job, recipient, corrected in rows:
        last = [change.event for change in seen.history.changes[job] if change.event in ("buried", "corrected")][-1:]
        if not (corrected and last == ["corrected"]):
            yield Violation("R7", f"{recipient} was not told because of another recipient's bad address.", job)


def check_escalations(seen: ReviewEvidence) -> Iterator[Violation]:
    """K8: a replayed job that fails again in the same way, for good, escalates; any other failure only reopens."""
    for job, changes in seen.history.changes.items():
        deaths = [change for change in changes if change.event == "buried"]
        states = [line.data[-1] for line in seen.history.of("opened", "case") if line.id == job]
        reopened = [state for state in states if state in ("open", "escalated")]
        for number, change in enumerate(deaths[1:], 1):
            alike = change.note.get("error_class") == deaths[number - 1].note.get("error_class")
            final = change.note.get("reason") == "permanent"
            wanted = "escalated" if alike and final else "open"
            if alike and not final and change.note.get("reason") != "exhausted":
                continue  # poison: whether it is retryable is the kernel's to say
            if reopened[number : number + 1] != [wanted]:
                text = f"Death {number + 1} of job {job} left its case {reopened[number : number + 1]}, not {wanted}."
                yield Violation("K8", text, job)


def check_leaks(seen: ReviewEvidence) -> Iterator[Violation]:
    """R8: the secret in the change reaches neither the model nor a mailbox."""
    for effect in seen.world.providers["llm"].effects:
        if CANARY in str(effect.payload):
            yield Violation("R8", f"A prompt carried the planted secret (call {effect.call}).")
    for effect in seen.world.providers[f"mail.{seen.world.mail}"].effects:
        if isinstance(effect.payload, tuple) and effect.payload[3]:
            yield Violation("R8", f"A mail carried the planted secret (call {effect.call}).")


def _calls(seen: ReviewEvidence) -> Iterator[tuple[str, ReviewAtBirth, ProviderEvent]]:
    """Every call of every stage, with the review it was made for."""
    for call in seen.world.providers["source"].log:
        if call.kind == "send":
            changelist, version = call.token.split("/")[3:5]
            yield "fetch", seen.asked[changelist, int(version)], call
    yield from (("llm", asked, call) for asked, call in _prompts(seen))
    owners = {line.data[6]: line.data[7] for line in seen.history.of("planned")}
    jobs = {asked.job: asked for asked in seen.asked.values()}
    for call in seen.world.providers[f"mail.{seen.world.mail}"].log:
        if call.kind == "send" and owners.get(call.token) in jobs:
            yield "notify", jobs[owners[call.token]], call


def _prompts(seen: ReviewEvidence) -> Iterator[tuple[ReviewAtBirth, ProviderEvent]]:
    for call in seen.world.providers["llm"].log:
        if call.kind == "send":
            changelist, version = call.token.rpartition("#")[0].split(" v")
            yield seen.asked[changelist, int(version)], call


def tally_of(world: ReviewWorld, history: RunHistory) -> dict[str, int]:
    """What happened that a run of many seeds must have seen."""
    seen = evidence_of(world, history)
    counts: Counter[str] = Counter({f"mail by {world.mail}": 1})
    for wish in world.wishes:
        counts[f"answer {wish.answer}"] += 1
    for row in world.query("SELECT status FROM review_deliveries ORDER BY effect_key"):
        counts[f"delivery {row[0]}"] += 1
    for change in history.all_changes():
        if change.event == "replayed":
            counts[f"replay {'in full' if change.note.get('full') else 'of ' + change.stage}"] += 1
        if change.event == "buried":
            counts[f"death in {change.old_stage}"] += 1
    counts["escalation"] = sum(line.data[-1] == "escalated" for line in history.of("case"))
    counts["mail lost and told again"] = world.lost_mails
    counts["recipient corrected"] = world.corrections
    counts["kept part"] = sum(1 for _ in history.of("chunk"))
    counts["call by a process that had been paused"] = sum(
        seen.where(asked, call, stage) == STRAY for stage, asked, call in _calls(seen)
    )
    return counts
