"""Predicates about providers: effects by class, tokens, evidence, Retry-After, breakers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from holdfast.operator.finding import Violation
from holdfast_proof.history import HistoryLine, JobChange, ProviderTale, RunHistory
from holdfast_proof.provider_stub import Effect, ProviderEvent

DEFINITE = frozenset({"limited", "refused", "unreachable"})
# Between a call's admission and its first byte lie one transaction and the wait for it, but no more than this.
SLACK_MS = 7_000


def check_effects(history: RunHistory) -> Iterator[Violation]:
    """S7: at most one effect per token; more only if a stalled process sent after it had lost its lease."""
    owners = _owners(history)
    for tale in _effect_tales(history):
        by_token: dict[str, list[Effect]] = {}
        for effect in tale.effects:
            by_token.setdefault(effect.token, []).append(effect)
        for token, effects in by_token.items():
            for before, after in pairwise(effects):
                forgotten = tale.dedup == "token" and after.at_ms - before.at_ms >= tale.retention_ms
                sent = [_sent_at(tale, effect.call) for effect in (before, after)]
                zombie = any(_is_zombie(history, owners.get(token), call) for call in sent)
                if not forgotten and not (zombie and tale.dedup != "token"):
                    job = owners.get(token)
                    text = f"{tale.name} ({tale.dedup}) did the effect '{after.payload}' twice, as {before.provider_id}"
                    yield Violation("S7", f"{text} and {after.provider_id}.", job)


def check_resends(history: RunHistory) -> Iterator[Violation]:
    """S8: after doubt, nothing is sent again without proof: a lookup late enough, or a person's word."""
    owners = _owners(history)
    for tale in _effect_tales(history):
        if tale.dedup == "token":
            continue
        for token, calls in _sends(tale).items():
            for before, after in pairwise(calls):
                if _was_definite(tale, before) or _is_zombie(history, owners.get(token), before):
                    continue
                if before.at_ms <= history.answered.get(token, -1) <= after.at_ms:
                    continue
                if tale.dedup == "lookup" and _looked_between(tale, before, after):
                    continue
                text = f"{tale.name} was sent call {after.call} although call {before.call} of its token was in doubt."
                yield Violation("S8", text, owners.get(token))


def check_senders(history: RunHistory) -> Iterator[Violation]:
    """S4: an effect that cannot be repeated is sent by the process that holds its job, and by no other."""
    owners = _owners(history)
    for tale in _effect_tales(history):
        if tale.dedup == "token" or history.pauses_excused:
            continue
        for token, calls in _sends(tale).items():
            for call in calls:
                if token in owners and _holder(history, owners[token], call.at_ms) != call.host:
                    text = f"{tale.name} was sent call {call.call} by {call.host}, which did not hold the job."
                    yield Violation("S4", text, owners[token])


def check_tokens(history: RunHistory) -> Iterator[Violation]:
    """S9: a provider sees one token per key, the ledger's; S10: and none that it may have forgotten."""
    owners = _owners(history)
    known = {line.data[6] for line in history.of("planned")}
    for tale in _effect_tales(history):
        for token, calls in _sends(tale).items():
            if token not in known:
                text = f"{tale.name} was sent the token {token[:12]}, which is in no ledger row."
                yield Violation("S9", text, owners.get(token))
            late = _sent_too_late(tale, calls)
            if late is not None and tale.dedup == "token" and token not in history.answered:
                text = f"{tale.name} was sent a token again after it may have forgotten it (call {late.call})."
                yield Violation("S10", text, owners.get(token))


def _sent_too_late(tale: ProviderTale, calls: Sequence[ProviderEvent]) -> ProviderEvent | None:
    """The first send that the provider may have taken for a new one: an earlier one was in doubt for longer than a
    token is remembered. A lookup that came late enough, and in time, has ended all doubt before it."""
    doubtful: list[ProviderEvent] = []
    for call in calls:
        if doubtful and _looked_between(tale, doubtful[-1], call, doubtful[0].at_ms + tale.retention_ms):
            doubtful = []
        if doubtful and call.at_ms - doubtful[0].at_ms > tale.retention_ms:
            return call
        if not _was_definite(tale, call):
            doubtful.append(call)
    return None


def check_evidence(history: RunHistory) -> Iterator[Violation]:
    """S6: what is marked as sent was done by the provider; S20: what was done is not denied by the ledger."""
    rows: dict[str, HistoryLine] = {}
    for line in history.of("planned", "effect"):
        rows[line.data[6]] = line
    for token, line in rows.items():
        tale = history.providers.get(line.data[8])
        if tale is None:
            continue
        done = {effect.provider_id for effect in tale.effects if effect.token == token}
        status, provider_id, job = line.data[1], line.data[5], line.data[7]
        if status == "sent" and provider_id not in done:
            yield Violation("S6", f"The effect '{line.id}' is marked as sent but {tale.name} never did it.", job)
        if done and status in ("planned", "failed"):
            yield Violation("S20", f"{tale.name} did the effect '{line.id}' but the ledger calls it {status}.", job)
    for job, changes in history.changes.items():
        if changes[-1].state == "succeeded":
            mine = [line for line in rows.values() if line.data[7] == job]
            # A handler may go on without an effect that was refused or that a person was asked about; in silence never.
            silent = [line.id for line in mine if line.data[1] != "sent" and line.data[9] is None]
            if silent:
                yield Violation("S6", f"Job {job} succeeded but its effect '{silent[0]}' is not marked as sent.", job)


def check_doubts(history: RunHistory) -> Iterator[Violation]:
    """S20: the ledger does not forget an earlier send in doubt because a later one under the same token was refused."""
    for line in history.of("effect"):
        tale = history.providers.get(line.data[8])
        if line.data[1] not in ("planned", "failed") or tale is None or tale.dedup != "token":
            continue
        if line.data[6] in history.answered:
            continue
        sends = [call for call in _sends(tale).get(line.data[6], ()) if call.at_ms < line.at_ms]
        # It was asked afterwards, and has nothing: that is no refusal, and settles every doubt of before.
        unsettled = [call for call in sends if not _looked_after(tale, call, line.at_ms)]
        doubtful = [call for call in unsettled[:-1] if not _was_definite(tale, call)]
        if doubtful:
            text = f"The ledger calls '{line.id}' {line.data[1]} although call {doubtful[0].call} is in doubt."
            yield Violation("S20", text, line.data[7])


def check_retry_after(history: RunHistory) -> Iterator[Violation]:
    """S13: nobody calls before a recorded Retry-After, neither the job that was told nor any other, nor a replay."""
    for line in history.of("gate"):
        _, _, before, until, _ = line.data
        if until is None or until == before:
            continue
        tale = history.providers.get(line.id)
        until_ms = until - history.epoch_ms - history.skew_ms
        for call in _calls_between(history, tale, line.at_ms + SLACK_MS, until_ms):
            early_ms = until_ms - call.at_ms
            text = f"{line.id} was called by {call.host} {early_ms} ms before it asked to be (call {call.call})."
            yield Violation("S13", text, _job_of(history, call))
    for change in history.all_changes():
        if change.event == "claimed" and change.not_before and change.wall_ms + history.skew_ms < change.not_before:
            early_ms = change.not_before - change.wall_ms
            yield Violation("S13", f"Job {change.job} was claimed {early_ms} ms before its Retry-After.", change.job)
        if change.note.get("error_class") == "RATE_LIMITED" and change.event in ("retried", "buried"):
            yield from _kept_retry_after(history, change)


def check_heard(history: RunHistory) -> Iterator[Violation]:
    """S13: a process that was told to come back later does not call before, whether or not it could write that down.

    Of providers only: a host that a user named speaks to the job that called it, and has no row."""
    known = {line.id for line in history.of("gate")}
    for tale in history.providers.values():
        for told in tale.log if tale.name in known else ():
            if told.kind != "answer" or told.detail != "limited" or told.retry_at_ms is None:
                continue
            for call in _calls_between(history, tale, told.at_ms + SLACK_MS, told.retry_at_ms):
                if call.host == told.host:
                    early_ms = told.retry_at_ms - call.at_ms
                    text = f"{tale.name} told {call.host} to come back later, and was called {early_ms} ms too early."
                    yield Violation("S13", text, _job_of(history, call))


def _kept_retry_after(history: RunHistory, change: JobChange) -> Iterator[Violation]:
    """The wait that the provider asked for is on the row that was written because of it. Of a host that was paused
    between deciding and writing it may be over by then."""
    if change.not_before is not None:
        over_ms = change.not_before - history.epoch_ms
        if change.not_before + history.skew_ms >= change.wall_ms or history.stalled(change.host, over_ms, change.at_ms):
            return
    yield Violation("S13", f"Job {change.job} was rate limited and its row forgot for how long.", change.job)


def check_breakers(history: RunHistory) -> Iterator[Violation]:
    """S14: while a breaker is open nothing is called; half open, no more than its trials; being held costs nothing."""
    gates: dict[str, list[HistoryLine]] = {}
    for line in history.of("gate"):
        if line.data[0] != line.data[1]:
            gates.setdefault(line.id, []).append(line)
    for name, lines in gates.items():
        for line, following in zip(lines, [*lines[1:], None], strict=True):
            until = line.data[4]
            if line.data[1] != "open" or until is None:
                continue
            until_ms = min(until - history.epoch_ms - history.skew_ms, following.at_ms if following else until)
            tale = history.providers.get(name)
            for call in _calls_between(history, tale, line.at_ms + SLACK_MS, until_ms):
                text = f"{name} was called by {call.host} while its breaker was open (call {call.call})."
                yield Violation("S14", text, _job_of(history, call))
    for change in history.all_changes():
        if change.note.get("error_class") == "PROVIDER_HELD":
            yield Violation("S14", f"Job {change.job} paid for a provider that was held ({change.event}).", change.job)


def check_entries(history: RunHistory) -> Iterator[Violation]:
    """S14: no stage is entered while its provider is held, but for a trial: neither by a claim nor by going on."""
    gates: dict[str, str] = {}
    moves = {line.seq: line for line in history.of("gate")}
    entries = {change.seq: change for change in history.all_changes() if change.event == "claimed"}
    for seq in sorted({*moves, *entries}):
        if seq in moves:
            gates[moves[seq].id] = moves[seq].data[1]
            continue
        change = entries[seq]
        is_trial = change.old_hold == "trial" and not change.went_on
        if gates.get(change.provider or "", "closed") != "closed" and not is_trial:
            text = f"Job {change.job} entered '{change.stage}' while {change.provider} was held, by {change.host}."
            yield Violation("S14", text, change.job)


def _calls_between(history: RunHistory, tale: ProviderTale | None, from_ms: int, to_ms: int) -> Iterator[ProviderEvent]:
    """Calls begun in between by processes that had not been paused with permission to call."""
    for call in tale.log if tale else ():
        called = call.kind in ("send", "lookup") and from_ms < call.at_ms < to_ms
        if called and not history.stalled(call.host, from_ms - 2 * SLACK_MS, call.at_ms):
            yield call


def _effect_tales(history: RunHistory) -> list[ProviderTale]:
    names = {line.data[8] for line in history.of("planned")}
    return [tale for name, tale in history.providers.items() if name in names]


def _owners(history: RunHistory) -> dict[str, str]:
    """Which job a token belongs to."""
    return {line.data[6]: line.data[7] for line in history.of("planned")}


def _job_of(history: RunHistory, call: ProviderEvent) -> str | None:
    head = call.token.split("/")[0]
    return head if head in history.born else _owners(history).get(call.token)


def _sends(tale: ProviderTale) -> dict[str, list[ProviderEvent]]:
    found: dict[str, list[ProviderEvent]] = {}
    for event in tale.log:
        if event.kind == "send":
            found.setdefault(event.token, []).append(event)
    return found


def _sent_at(tale: ProviderTale, call: int) -> ProviderEvent:
    return next(event for event in tale.log if event.call == call and event.kind == "send")


def _looked_after(tale: ProviderTale, send: ProviderEvent, until_ms: int) -> bool:
    """Whether the provider was asked for the token after the last send, and answered."""
    asked = {e.call for e in tale.log if e.kind == "lookup" and e.token == send.token and e.at_ms > send.at_ms}
    return any(e.call in asked and e.kind == "answer" and e.at_ms <= until_ms for e in tale.log)


def _was_definite(tale: ProviderTale, call: ProviderEvent) -> bool:
    """The caller heard an answer that proves that nothing was done."""
    return any(e.call == call.call and e.kind == "answer" and e.detail in DEFINITE for e in tale.log)


def _looked_between(
    tale: ProviderTale, before: ProviderEvent, after: ProviderEvent, until_ms: int | None = None
) -> bool:
    """Whether the provider was asked for the token so long after a send that it would have arrived, and answered."""
    last_ms = after.at_ms if until_ms is None else min(after.at_ms, until_ms)
    asked = {
        e.call
        for e in tale.log
        if e.kind == "lookup" and e.token == before.token and before.at_ms + 20_000 <= e.at_ms <= last_ms
    }
    return any(e.call in asked and e.kind == "answer" and e.detail == "ok" for e in tale.log)


def _is_zombie(history: RunHistory, job: str | None, call: ProviderEvent) -> bool:
    """The caller did not hold the job's lease when it called: it had been paused since its last check."""
    return history.pauses_excused and _holder(history, job or "", call.at_ms) != call.host


def _holder(history: RunHistory, job: str, at_ms: int) -> str:
    """Who held the job just then. What happened in the very same millisecond may have happened after."""
    holder = ""
    for change in history.changes.get(job, ()):
        if change.event == "claimed" and change.at_ms <= at_ms:
            holder = change.host
        elif change.state != "processing" and change.at_ms < at_ms:
            holder = ""
    return holder


EFFECTS = (
    check_effects,
    check_resends,
    check_senders,
    check_tokens,
    check_evidence,
    check_doubts,
    check_retry_after,
    check_heard,
    check_breakers,
    check_entries,
)
