"""Incidents at the desk: list them, see one with its timeline, take it, hand it on, talk about it, close it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from typing_extensions import TypedDict

from holdfast.core.breaker import Gate
from holdfast.core.redact import redact_text
from holdfast.errors import InvalidInput, NotAllowed
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.questions.explain import iso
from holdfast.operator.attention import COUNTED, Topic, shape_notice
from holdfast.operator.desk import Desk
from holdfast.operator.overview import look_at
from holdfast.operator.page import BY_ID, ListPage, fetch_page
from holdfast.operator.shape import shape_row
from holdfast.stores.seam import Tx
from holdfast.system import OpenSystem
from holdfast.tables import audit, incidents, ops
from holdfast.tables.audit import AuditRecord
from holdfast.tables.incidents import Incident, MinuteHits
from holdfast.tables.ops import GateStep

WORDS_LENGTH_MAX = 4_000
MINUTE_MS = 60_000
SAYS = {
    "incident.opened": "It began to ask for a person",
    "incident.reopened": "It is back",
    "incident.worse": "It became a page",
    "incident.over": "It is over",
    "incident.acknowledged": "has it",
    "incident.assigned": "handed it on",
    "incident.commented": "says",
    "incident.closed": "closed it",
}


class TimelineEntry(TypedDict):
    """A line of a timeline."""

    at: str
    who: str | None
    what: str
    text: str


async def list_incidents(desk: Desk, page: ListPage, state: str | None = None) -> dict[str, Any]:
    """Incidents, the newest first; those that go on say how it is now."""
    found = await fetch_page(desk, page, BY_ID, incidents.page, state=state)
    going_on = {item["system"] for item in found["items"] if item["state"] == "open"}
    now = {system.name: await _read_notices(system) for system in desk.systems if system.name in going_on}
    for item in found["items"]:
        item["unit"] = unit_of(item["topic"])
        item["now"] = now.get(item["system"], {}).get((item["topic"], item["subject"]))
    return found


async def show_incident(desk: Desk, id: str) -> dict[str, Any]:
    """An incident: how it is now, whom it hit, what happened when, and which jobs were in it."""
    system, row = await desk.find(incidents.show, id, "incident")
    notices = await _read_notices(system) if row.state == "open" else {}
    async with system.kernel.store.reading() as tx:
        hit = [shape_row(each) for each in await incidents.hit(tx, id)]
        jobs = [shape_row(each) for each in await incidents.jobs_hit(tx, id)]
        timeline = await _read_timeline(tx, row, system.kernel.now())
    now = notices.get((row.topic, row.subject))
    about = {"system": system.name, **shape_row(row), "unit": unit_of(row.topic)}
    return {**about, "now": now, "hit": hit, "timeline": timeline, "jobs": jobs}


def unit_of(topic: str) -> str:
    """What an incident counts, in the singular; a topic of another release counts jobs."""
    return next((unit for known, unit in COUNTED.items() if known == topic), "job")


async def _read_notices(system: OpenSystem) -> dict[tuple[str, str], dict[str, Any]]:
    _, notices = await look_at(system)
    return {(notice.topic, notice.subject): shape_notice(notice) for notice in notices}


async def _read_timeline(tx: Tx, row: Incident, now: int) -> list[TimelineEntry]:
    """What people and the kernel did about it, what its provider's breaker did, and the deaths, minute by minute."""
    began_at, until = row.began_at, (row.ended_at or now) + 1
    lines = [_audit_entry(each) for each in await audit.of_subject(tx, f"incident:{row.id}")]
    for each in await incidents.letters_by_minute(tx, row.id):
        lines.append(_deaths(each))
    if row.topic == Topic.PROVIDER:
        gates = await ops.gates_since(tx, row.subject, began_at)
        lines += _gate_entries([gate for gate in gates if began_at <= gate.at < until])
        for act in await incidents.acts_between(tx, f"breaker:{row.subject}", began_at, until):
            reason = _data(act).get("reason", "")
            lines.append(_entry(act.at, act.actor, act.action.replace(".", " "), str(reason)))
    return sorted(lines, key=lambda line: line["at"])


def _gate_entries(gates: Sequence[GateStep]) -> list[TimelineEntry]:
    """What a breaker did. Trials that fail one after the other are one line, however long the outage lasts."""
    entries: list[TimelineEntry] = []
    failed: list[GateStep] = []
    for gate, after in zip_longest(gates, gates[1:]):
        is_trial = gate.gate == Gate.HALF_OPEN
        if is_trial and after is not None and after.gate == Gate.OPEN:
            failed.append(after)
        elif not (failed and failed[-1] is gate):
            entries += [*_failed_trials(failed), _gate_entry(gate, "trial calls decide" if is_trial else gate.reason)]
            failed = []
    return [*entries, *_failed_trials(failed)]


def _failed_trials(failed: Sequence[GateStep]) -> list[TimelineEntry]:
    if not failed:
        return []
    number = len(failed)
    if number == 1:
        return [_entry(failed[0].at, None, "a trial of the provider failed", "")]
    return [_entry(failed[0].at, None, f"{number} trials of the provider failed", f"the last at {iso(failed[-1].at)}")]


def _gate_entry(gate: GateStep, reason: str) -> TimelineEntry:
    name = gate.gate.replace("_", " ")
    return _entry(gate.at, None, f"breaker {name}", "" if reason == name else reason)


def _audit_entry(row: AuditRecord) -> TimelineEntry:
    data = _data(row)
    text = _assignee(row) or data.get("text") or data.get("summary") or data.get("sentence") or ""
    who = None if row.actor == "kernel" else row.actor
    return _entry(row.at, who, SAYS.get(row.action, row.action), str(text))


def _assignee(row: AuditRecord) -> str | None:
    """To whom it was handed, as it was typed: a colleague's address is no customer's."""
    return json.loads(row.data or "{}").get("assignee") if row.action == "incident.assigned" else None


def _data(row: AuditRecord) -> Mapping[str, Any]:
    data = shape_row(row)["data"]
    return data if isinstance(data, dict) else {}


def _deaths(row: MinuteHits) -> TimelineEntry:
    number, role = row.jobs, row.role
    jobs = f"{number:,} job{'' if number == 1 else 's'}"
    how = "missed the deadline" if role == "late" else "died"
    return _entry(row.minute * MINUTE_MS, None, f"{jobs} {how}", row.error_class or "")


def _entry(at: int, who: str | None, what: str, text: str) -> TimelineEntry:
    return TimelineEntry(at=iso(at), who=who, what=what, text=text)


async def acknowledge_incident(desk: Desk, id: str, *, actor: str) -> dict[str, Any]:
    """Say that you have it. Whoever does first has it; it is theirs unless it was somebody's already."""
    system, row = await desk.find(incidents.show, id, "incident")
    now = system.kernel.now()
    async with system.kernel.store.transaction() as tx:
        if not await incidents.acknowledge(tx, id, actor, now):
            fresh = await incidents.show(tx, id) or row
            whose = fresh.acknowledged_by
            raise NotAllowed(f"Incident {id} is closed." if whose is None else f"Incident {id} is {whose}'s already.")
        await audit.write(tx, actor, "incident.acknowledged", f"incident:{id}", None, now)
    return await _shape(desk, id)


async def assign_incident(desk: Desk, id: str, *, assignee: str, actor: str) -> dict[str, Any]:
    """Hand it to somebody."""
    kernel = await _find(desk, id)
    name = _clean(assignee, "The person's name")
    async with kernel.store.transaction() as tx:
        if not await incidents.assign(tx, id, name):
            raise NotAllowed(f"Incident {id} is closed.")
        await audit.write(tx, actor, "incident.assigned", f"incident:{id}", {"assignee": name}, kernel.now())
    return await _shape(desk, id)


async def comment_incident(desk: Desk, id: str, *, text: str, actor: str) -> dict[str, Any]:
    """Write a line into its timeline; also after it was closed."""
    kernel = await _find(desk, id)
    words = _clean(text, "A comment")
    async with kernel.store.transaction() as tx:
        await audit.write(tx, actor, "incident.commented", f"incident:{id}", {"text": words}, kernel.now())
    return await _shape(desk, id)


async def close_incident(desk: Desk, id: str, *, summary: str, actor: str) -> dict[str, Any]:
    """Close it when it is over, with what was learned."""
    kernel = await _find(desk, id)
    words = _clean(summary, "The summary")
    now = kernel.now()
    async with kernel.store.transaction() as tx:
        if not await incidents.close(tx, id, words, now):
            row = await incidents.show(tx, id)
            is_open = row is not None and row.state == "open"
            raise NotAllowed(
                f"Incident {id} goes on; acknowledge it, and close it when it is over."
                if is_open
                else f"Incident {id} is closed already."
            )
        await audit.write(tx, actor, "incident.closed", f"incident:{id}", {"summary": words}, now)
    return await _shape(desk, id)


async def _find(desk: Desk, id: str) -> Kernel:
    system, _ = await desk.find(incidents.show, id, "incident")
    return system.kernel


async def _shape(desk: Desk, id: str) -> dict[str, Any]:
    system, row = await desk.find(incidents.show, id, "incident")
    return {"system": system.name, **shape_row(row), "unit": unit_of(row.topic)}


def _clean(text: str, noun: str) -> str:
    words = redact_text(text.strip())
    if not words or len(words) > WORDS_LENGTH_MAX:
        raise InvalidInput(f"{noun} must have 1 to {WORDS_LENGTH_MAX:,} characters.")
    return words
