"""An incident as a page to keep: Markdown, from its rows, with room for what only people know."""

from __future__ import annotations

from typing import Any

from holdfast.operator.desk import Desk
from holdfast.operator.incidents import TimelineEntry, show_incident
from holdfast.operator.phrases import count_of

ROLES = {"held": "waited", "dead": "died", "late": "missed their deadline"}


async def write_postmortem(desk: Desk, id: str) -> str:
    """The post-mortem of an incident, as far as the database can write it."""
    return render(await show_incident(desk, id))


def render(incident: dict[str, Any]) -> str:
    """Pure: the same incident gives the same page."""
    title = incident["topic"].replace("_", " ") + (f": {incident['subject']}" if incident["subject"] else "")
    lines = [
        f"# {title[0].upper()}{title[1:]}",
        "",
        incident["sentence"],
        "",
        f"- System: {incident['system']}",
        f"- Began: {incident['began_at']}",
        f"- Over: {incident['ended_at'] or 'it goes on'}",
        f"- Severity: {incident['severity']}",
        f"- Acknowledged: {incident['acknowledged_at'] or 'by nobody'} {incident['acknowledged_by'] or ''}".rstrip(),
        f"- In whose hands: {incident['assignee'] or 'nobody'}",
        "",
        "## Who was hit",
        "",
        *_hit(incident),
        "",
        "## Timeline",
        "",
        *[_line(entry) for entry in incident["timeline"]],
        "",
        "## Summary",
        "",
        incident["summary"] or "_What was it, what helped, what is to change?_",
        "",
    ]
    return "\n".join(lines)


def _hit(incident: dict[str, Any]) -> list[str]:
    most, unit = incident["jobs_max"], incident["unit"]
    counted = [f"- {_of(item['jobs'], 'job', item['owners'])} {ROLES[item['role']]}" for item in incident["hit"]]
    return [f"- At most {_of(most, unit, incident['owners_max'])} at once", *counted]


def _of(number: int, unit: str, owners: int) -> str:
    return count_of(number, unit) + (f" of {count_of(owners, 'owner')}" if owners else "")


def _line(entry: TimelineEntry) -> str:
    who = f"{entry['who']} " if entry["who"] else ""
    text = f": {entry['text']}" if entry["text"] else ""
    return f"- {entry['at']} {who}{entry['what']}{text}".replace("\n", " ")
