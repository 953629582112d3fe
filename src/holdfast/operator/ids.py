"""Ids as people type them: whole, or their first eight characters and more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.errors import NotFound
from holdfast.operator.desk import Desk
from holdfast.operator.page import is_uuid
from holdfast.operator.query import id_range, is_id_part
from holdfast.stores.seam import Tx
from holdfast.tables import ops

ReadIds = Callable[[Tx, str, str], Awaitable[list[str]]]
NOUNS: dict[str, tuple[str, ReadIds]] = {
    "job_id": ("job", ops.job_ids),
    "case_id": ("dead letter", ops.letter_ids),
    "id": ("incident", ops.incident_ids),
}
"""What the desk's verbs call the ids that they take."""


async def complete_ids(desk: Desk, given: dict[str, Any]) -> None:
    """Replace each id among a verb's arguments of which only the beginning was typed by the one id that begins so."""
    for name in given.keys() & NOUNS.keys():
        text = given[name]
        if isinstance(text, str) and is_id_part(text) and not is_uuid(text):
            given[name] = await _complete(desk, text, *NOUNS[name])


async def _complete(desk: Desk, text: str, noun: str, read: ReadIds) -> str:
    lowest, highest = id_range(text.lower())
    fitting: list[str] = []
    for system in desk.systems:
        async with system.kernel.store.reading() as tx:
            fitting += await read(tx, lowest, highest)
    if len(fitting) > 1:
        raise NotFound(
            f"Several ids begin with {text}: {', '.join(sorted(fitting)[:2])} and maybe more; type more of it."
        )
    if not fitting:
        raise NotFound(f"There is no {noun} whose id begins with {text}.")
    return fitting[0]
