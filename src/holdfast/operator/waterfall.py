"""A job's life on a time axis: attempts with their calls and effects inside, and every gap with its reason.

    created .. wait ..| attempt 1 (calls, effects) |.. backoff ..| attempt 2 |.. held ..| attempt 3 |

Pure: rows in, bars out. A bar that has not ended reaches to `now`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.core.family import JOIN_KEY

ENDINGS = {
    "succeeded": "good",
    "advanced": "good",
    "rewound": "",
    "waiting": "",
    "released": "",
    "snoozed": "",
    "held": "warn",
    "retried": "warn",
    "lost": "warn",
    "cancelled": "warn",
    "buried": "error",
    "expired": "error",
    "taken_back": "error",
}
"""How an attempt, or a job between two, may be left, and the tone of it."""
ENDED_JOBS = frozenset({"succeeded", "cancelled"})
DIED = frozenset({"buried", "expired", "taken_back"})


class JobEvent(NamedTuple):
    """A row of a job's history."""

    seq: int
    attempt: int
    type: str
    at: int
    data: str | None

    def facts(self) -> dict[str, Any]:
        found = json.loads(self.data or "{}")
        return found if isinstance(found, dict) else {}


class Call(NamedTuple):
    """A call of a provider."""

    stage: str | None
    attempt: int | None
    provider: str
    started_at: int
    duration_ms: int
    outcome: str
    status: int | None
    error_class: str | None
    cost_micros: int
    units: str | None


class EffectBar(NamedTuple):
    """An external effect, as the ledger has it."""

    key: str
    stage: str | None
    provider: str
    provider_class: str
    status: str
    provider_id: str | None
    sends: int
    first_sent_at: int | None
    last_sent_at: int | None
    marked_at: int | None
    error_class: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of the picture. `what` is attempt, call, effect or gap; `until` is None while it goes on."""

    what: str
    title: str
    since: int
    until: int | None
    tone: str = ""
    reason: str = ""
    attempt: int | None = None


def draw_waterfall(
    events: Sequence[JobEvent],
    calls: Sequence[Call],
    effects: Sequence[EffectBar],
    stages: Mapping[int, str],
    stage: str,
) -> list[Bar]:
    """The bars, in the order of time; what happened inside of an attempt follows it. `stages` names the stages of
    attempts whose results are kept, `stage` is the job's present one."""
    names = _name_stages(events, calls, stages, stage)
    bars: list[Bar] = []
    drawn: set[str] = set()
    for number, event in enumerate(events):
        if event.type == "claimed":
            bar = _draw_attempt(event, _ending_of(events[number + 1 :], event.attempt), names.get(event.attempt, ""))
            bars += [bar, *_draw_inside(bar, calls, effects, drawn)]
        elif event.type == "created" or event.type in ENDINGS or event.type in ("parked", "replayed", "resumed"):
            bars += _draw_gap(event, events[number + 1 :])
    bars += [_draw_effect(effect) for effect in effects if effect.key not in drawn and effect.first_sent_at is not None]
    return bars


def _ending_of(later: Iterable[JobEvent], attempt: int) -> JobEvent | None:
    return next((event for event in later if event.attempt == attempt and event.type in ENDINGS), None)


def _draw_attempt(claimed: JobEvent, ending: JobEvent | None, stage: str) -> Bar:
    title = f"attempt {claimed.attempt}" + (f": {stage}" if stage else "")
    if ending is None:
        return Bar("attempt", title, claimed.at, None, "", "under way", claimed.attempt)
    return Bar("attempt", title, claimed.at, ending.at, ENDINGS[ending.type], _describe(ending), claimed.attempt)


def _describe(ending: JobEvent) -> str:
    facts = ending.facts()
    if ending.type == "waiting":
        return "waits for its children" if str(facts.get("note")).startswith(JOIN_KEY) else "waits for an answer"
    what = f"{facts['error_class']}: {facts.get('message', '')}" if facts.get("error_class") else facts.get("note")
    return ending.type.replace("_", " ") + (f": {what}" if what else "")


def _draw_inside(attempt: Bar, calls: Sequence[Call], effects: Sequence[EffectBar], drawn: set[str]) -> list[Bar]:
    inside = [_draw_call(call) for call in calls if call.attempt == attempt.attempt]
    for effect in effects:
        sent = effect.last_sent_at
        if effect.key in drawn or sent is None or sent < attempt.since:
            continue
        if attempt.until is None or sent <= attempt.until:
            drawn.add(effect.key)
            inside.append(_draw_effect(effect))
    return sorted(inside, key=lambda bar: bar.since)


def _draw_call(call: Call) -> Bar:
    status = f" {call.status}" if call.status is not None else ""
    reason = f"{call.outcome}{status}" + (f", {call.error_class}" if call.error_class else "")
    tone = "" if call.outcome == "ok" else "warn"
    return Bar("call", call.provider, call.started_at, call.started_at + call.duration_ms, tone, reason, call.attempt)


def _draw_effect(effect: EffectBar) -> Bar:
    since = effect.first_sent_at or 0
    ended = effect.marked_at if effect.marked_at is not None else effect.last_sent_at
    tone = {"sent": "good", "failed": "error"}.get(effect.status, "warn")
    sends = f"{effect.sends} sends" if effect.sends != 1 else "1 send"
    return Bar("effect", effect.key, since, max(since, ended or since), tone, f"{effect.status}, {sends}")


def _draw_gap(event: JobEvent, later: Sequence[JobEvent]) -> list[Bar]:
    """The time from an event until the job is claimed or moved again, and what it waited for."""
    if event.type in ENDED_JOBS:
        return []
    following = next((each for each in later if each.type == "claimed" or each.type == "replayed"), None)
    change = next((each for each in later if each.type in ENDINGS or each.type in ("parked", "resumed")), None)
    ends = [each.at for each in (following, change) if each is not None]
    until = min(ends) if ends else None
    if until is not None and until <= event.at:
        return []
    tone, title, reason = _name_gap(event)
    due = event.facts().get("run_at")
    if isinstance(due, int) and event.at < due and until is not None and due < until:
        wait = Bar("gap", "waits for a worker", due, until, "", "due, and no worker was free")
        return [Bar("gap", title, event.at, due, tone, reason), wait]
    return [Bar("gap", title, event.at, until, tone, reason)]


def _name_gap(event: JobEvent) -> tuple[str, str, str]:
    facts = event.facts()
    note = str(facts.get("note") or "")
    if event.type in DIED:
        return "error", "dead letter", "until a person replays it"
    if event.type == "retried":
        return "warn", "pause before the next try", note or f"after {facts.get('error_class', 'a failure')}"
    if event.type == "parked":
        return "warn", "held", "its provider's breaker is not closed, or its limit is reached"
    if event.type in ("held", "snoozed"):
        return "warn" if event.type == "held" else "", "held" if event.type == "held" else "put off", note
    if event.type == "lost":
        return "warn", "worker lost", "the pause after a lost worker"
    if event.type == "waiting":
        is_join = note.startswith(JOIN_KEY)
        return "", "waits for its children" if is_join else "waits for an answer", "" if is_join else note
    if event.type == "released":
        return "", "waits for a worker", "the one before was stopping"
    return "", "waits for a worker", "replayed" if event.type == "replayed" else ""


def _name_stages(
    events: Sequence[JobEvent], calls: Sequence[Call], stages: Mapping[int, str], stage: str
) -> dict[int, str]:
    """The stage of each attempt: by its result or its calls, else by what is known of the others of the same stage."""
    known = {call.attempt: call.stage for call in calls if call.attempt is not None and call.stage} | dict(stages)
    names: dict[int, str] = {}
    together: list[int] = []
    led: str | None = None
    for event in events:
        if event.type == "claimed":
            together.append(event.attempt)
        elif event.type in ("advanced", "rewound", "replayed"):
            names |= _name_together(together, known, led)
            together, led = [], event.facts().get("stage")
    return names | _name_together(together, known, led or stage)


def _name_together(attempts: Sequence[int], known: Mapping[int, str], led: str | None) -> dict[int, str]:
    """The name of attempts of one stage: what led to it, or what is known of any of them."""
    name = led or next((known[attempt] for attempt in attempts if attempt in known), None)
    return {} if name is None else dict.fromkeys(attempts, name)
