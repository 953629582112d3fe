"""How the operator's routes reach several systems: pages over all of them, one thing by its id, rows as JSON.

A page's cursor is opaque to clients: it says, for each system, what was its last row on the page before.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Query, Request

from holdfast.core.redact import redact
from holdfast.core.words import Words as Words
from holdfast.errors import InvalidInput, NotFound
from holdfast.http.auth import require
from holdfast.http.problem import Problem
from holdfast.kernel.explain import iso
from holdfast.stores.seam import Row, Tx
from holdfast.system import OpenSystem

OPERATOR = require("operator")
PAGE_MAX = 200

JSON_COLUMNS = frozenset({"data", "error", "payload", "sanitized_context", "units", "value"})
TIME_COLUMNS = frozenset({"at", "not_before", "lease_until"})
FLAGS = frozenset({"parked", "is_late", "retryable"})


Filter = Annotated[Words | None, Query()]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
SystemName = Annotated[str | None, Query(description="Only this system.")]
Cursor = Annotated[str | None, Query(alias="next", description="`next` of the page before.", max_length=4_000)]

Fetch = Callable[..., Awaitable[Sequence[Row]]]
"""`fetch(tx, before=, limit=, ...)`: rows before a key (None: from the top), the newest first, at most so many."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a list is ordered by: the row's key within its system, and what compares across systems."""

    key: str
    across: str
    valid: Callable[[Any], bool]


def is_uuid(key: Any) -> bool:
    try:
        return isinstance(key, str) and str(UUID(key)) == key
    except ValueError:
        return False


def is_sequence(key: Any) -> bool:
    return isinstance(key, int) and 0 <= key < 2**63


def is_text(key: Any) -> bool:
    return isinstance(key, str) and "\0" not in key


BY_ID = Order("id", "id", is_uuid)
BY_KEY = Order("key", "key", is_text)


def by_sequence(across: str) -> Order:
    """Numbers of one system mean nothing in another: a time compares there."""
    return Order("seq", across, is_sequence)


def systems_of(request: Request, system: str | None) -> list[OpenSystem]:
    """The systems asked for; unknown names are 404."""
    opened: Sequence[OpenSystem] = request.app.state.systems
    found = [one for one in opened if system is None or one.name == system]
    if not found:
        raise NotFound(f"No system named '{system}' runs here; known: {', '.join(one.name for one in opened)}.")
    return found


@dataclass(frozen=True, slots=True)
class Asked:
    """Which page of a list is asked for, and of which systems."""

    systems: Sequence[OpenSystem]
    limit: int
    cursor: str | None

    async def page(self, order: Order, fetch: Fetch, **filters: Any) -> dict[str, Any]:
        """One page over all systems, the newest first: `{items, next}`; `next` is null on the last page."""
        starts = _decoded(self.cursor, order)
        found: list[tuple[Any, str, Row]] = []
        for one in self.systems:
            async with one.kernel.store.reading() as tx:
                rows = await fetch(tx, before=starts.get(one.name), limit=self.limit + 1, **filters)
            found += [(row[order.across], one.name, row) for row in rows]
        found.sort(key=lambda entry: (entry[0], entry[1], entry[2][order.key]), reverse=True)
        shown, more = found[: self.limit], len(found) > self.limit
        for _, name, row in shown:
            starts[name] = row[order.key]
        items = [{"system": name, **shaped(row)} for _, name, row in shown]
        return {"items": items, "next": _encoded(starts) if more else None}


def _asked(request: Request, system: SystemName = None, limit: Limit = 50, cursor: Cursor = None) -> Asked:
    return Asked(systems_of(request, system), limit, cursor)


Paging = Annotated[Asked, Depends(_asked)]


async def every(systems: Sequence[OpenSystem], read: Callable[[Tx], Awaitable[Sequence[Row]]]) -> list[dict[str, Any]]:
    """A short list that needs no pages."""
    items: list[dict[str, Any]] = []
    for one in systems:
        async with one.kernel.store.reading() as tx:
            items += [{"system": one.name, **shaped(row)} for row in await read(tx)]
    return items


async def holder(
    systems: Sequence[OpenSystem], read: Callable[[Tx, str], Awaitable[Row | None]], id: UUID, noun: str
) -> tuple[OpenSystem, Row]:
    """The system whose store has this id, and the row."""
    for one in systems:
        async with one.kernel.store.reading() as tx:
            row = await read(tx, str(id))
        if row is not None:
            return one, row
    raise NotFound(f"There is no {noun} {id}.")


def provider_holder(systems: Sequence[OpenSystem], name: str) -> OpenSystem:
    """The system that declares a provider; two that do must be told apart by `?system=`."""
    found = [one for one in systems if name in one.kernel.registry.providers]
    if not found:
        raise NotFound(f"No system here declares a provider named '{name}'.")
    if len(found) > 1:
        names = [one.name for one in found]
        detail = f"Several systems have a provider named '{name}'; add ?system= with one of {', '.join(names)}."
        raise Problem(409, "SYSTEM_AMBIGUOUS", detail, systems=names)
    return found[0]


def shaped(row: Row) -> dict[str, Any]:
    """A row as JSON: times in ISO 8601, and stored JSON as itself, redacted: it may hold what a user or a provider
    wrote. Keys stay as they are, for an operator must be able to name them."""
    values: Mapping[str, Any] = dict(row)
    return {name: _value(name, value) for name, value in values.items()}


def _value(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in JSON_COLUMNS and isinstance(value, str):
        return redact(_parsed(value))
    if isinstance(value, int) and (name in TIME_COLUMNS or name.endswith("_at")):
        return iso(value)
    return bool(value) if name in FLAGS else value


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # an effect's error is plain words


def _encoded(starts: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(starts).encode()).decode().rstrip("=")


def _decoded(cursor: str | None, order: Order) -> dict[str, Any]:
    if not cursor:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError):
        found = None
    if not isinstance(found, dict) or not all(map(order.valid, found.values())):
        raise InvalidInput("The `next` parameter must be what an earlier page gave.")
    return found
