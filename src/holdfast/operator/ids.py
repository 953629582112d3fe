"""Ids as people type them: whole, or their first eight characters and more. Every door of the desk asks here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal
from uuid import UUID

from holdfast.errors import NotFound
from holdfast.operator.desk import Desk
from holdfast.operator.query import id_range, is_id_part
from holdfast.stores.seam import Tx
from holdfast.tables import ops, replays

Noun = Literal["job", "dead letter", "incident", "replay"]
READERS: dict[Noun, Callable[[Tx, str, str], Awaitable[list[str]]]] = {
    "job": ops.job_ids,
    "dead letter": ops.letter_ids,
    "incident": ops.incident_ids,
    "replay": replays.ids,
}
NOUNS: dict[str, Noun] = {"job_id": "job", "case_id": "dead letter", "id": "incident", "replay_id": "replay"}
"""What the desk's verbs call the ids that they take."""


async def complete_id(desk: Desk, noun: Noun, text: str) -> str:
    """The one id that begins with the text; a whole one as it is written. What cannot be one is not there."""
    try:
        return str(UUID(text))
    except ValueError:
        pass
    if not is_id_part(text):
        is_short = 0 < len(text) < 8 and set(text.lower()) <= set("0123456789abcdef")
        way_out = "; type eight characters of its id, or more" if is_short else ""
        raise NotFound(f"There is no {noun} {text}{way_out}.")
    lowest, highest = id_range(text.lower())
    fitting: list[str] = []
    for system in desk.systems:
        async with system.kernel.store.reading() as tx:
            fitting += await READERS[noun](tx, lowest, highest)
    if len(fitting) > 1:
        raise NotFound(
            f"Several ids begin with {text}: {', '.join(sorted(fitting)[:2])} and maybe more; type more of it."
        )
    if not fitting:
        raise desk.missing(f"There is no {noun} whose id begins with {text}")
    return fitting[0]


async def complete_ids(desk: Desk, given: dict[str, Any]) -> None:
    """Replace each id among a verb's arguments by the whole of it."""
    for name in given.keys() & NOUNS.keys():
        if isinstance(given[name], str):
            given[name] = await complete_id(desk, NOUNS[name], given[name])
