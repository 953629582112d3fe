"""Pages over several systems, the newest first where no other order is asked for.

A page's cursor is opaque to clients: it says, for each system, what was its last row on the page before.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from holdfast.errors import InvalidInput
from holdfast.operator.desk import Desk
from holdfast.operator.shape import shape_row

PAGE_MAX = 200
Fetch = Callable[..., Awaitable[Sequence[NamedTuple]]]
"""`fetch(tx, before=, limit=, ...)`: rows before a key (None: from the top), the newest first, at most so many."""


@dataclass(frozen=True, slots=True)
class ListPage:
    """Which page of a list is wanted."""

    limit: int = 50
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Ordering:
    """What a list is ordered by: the columns of the row's key within its system, and what compares across systems."""

    key: tuple[str, ...]
    across: str
    is_valid: Callable[[Any], bool]
    is_descending: bool = True

    def key_of(self, row: NamedTuple) -> Any:
        """One value, or a list of them, as a cursor holds it."""
        values = [getattr(row, name) for name in self.key]
        return values[0] if len(values) == 1 else values


def is_uuid(key: Any) -> bool:
    try:
        return isinstance(key, str) and str(UUID(key)) == key
    except ValueError:
        return False


def _is_sequence(key: Any) -> bool:
    return isinstance(key, int) and 0 <= key < 2**63


def is_number_and_uuid(key: Any) -> bool:
    return isinstance(key, list) and len(key) == 2 and _is_sequence(key[0]) and is_uuid(key[1])


def _is_text(key: Any) -> bool:
    return isinstance(key, str) and "\0" not in key


BY_ID = Ordering(("id",), "id", is_uuid)
BY_KEY = Ordering(("key",), "key", _is_text)


def by_sequence(across: str) -> Ordering:
    """Numbers of one system mean nothing in another: a time compares there."""
    return Ordering(("seq",), across, _is_sequence)


async def fetch_page(desk: Desk, page: ListPage, ordering: Ordering, fetch: Fetch, **filters: object) -> dict[str, Any]:
    """One page over all systems, in their order: `{items, next}`; `next` is null on the last page."""
    starts = _decode(page.cursor, ordering)
    entries: list[tuple[Any, str, NamedTuple]] = []
    for system in desk.systems:
        async with system.kernel.store.reading() as tx:
            rows = await fetch(tx, before=starts.get(system.name), limit=page.limit + 1, **filters)
        entries += [(getattr(row, ordering.across), system.name, row) for row in rows]
    entries.sort(key=lambda entry: (entry[0], entry[1], ordering.key_of(entry[2])), reverse=ordering.is_descending)
    shown, is_more = entries[: page.limit], len(entries) > page.limit
    for _, name, row in shown:
        starts[name] = ordering.key_of(row)
    items = [{"system": name, **shape_row(row)} for _, name, row in shown]
    return {"items": items, "next": _encode(starts) if is_more else None}


def _encode(starts: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(starts).encode()).decode().rstrip("=")


def _decode(cursor: str | None, ordering: Ordering) -> dict[str, Any]:
    if not cursor:
        return {}
    try:
        starts = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError):
        starts = None
    if not isinstance(starts, dict) or not all(map(ordering.is_valid, starts.values())):
        raise InvalidInput("The `next` parameter must be what an earlier page gave.")
    return starts
