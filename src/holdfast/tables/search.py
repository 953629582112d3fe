"""Jobs by a query, and the declared fields that they are found by.

Why so: docs/decisions/0048-sorted-and-owned.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from holdfast.core.job import JobOrder
from holdfast.core.text_filter import TextFilter
from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch
from holdfast.tables.job_rows import JobLine

sql = load_statements(Path(__file__).with_suffix(".sql"), JobLine)
LOWEST, HIGHEST = str(UUID(int=0)), str(UUID(int=2**128 - 1))
CLOCKS_APART_MS = 3_600_000
PAYLOADS_MAX = 10_000
"""An input has no index: those of so many jobs are looked into, the newest first."""


SORTED_BY: dict[JobOrder, tuple[str, ...]] = {
    JobOrder.NEWEST: ("id",),
    JobOrder.OLDEST: ("id",),
    JobOrder.DEADLINE: ("deadline_at", "id"),
    JobOrder.FAILURES: ("failures", "id"),
}
DESCENDING = frozenset({JobOrder.NEWEST, JobOrder.FAILURES})


async def jobs_matching(
    tx: Tx,
    *,
    before: str | Sequence[Any] | None,
    limit: int,
    order: JobOrder = JobOrder.NEWEST,
    texts: Mapping[str, TextFilter],
    state: str | None = None,
    held: bool | None = None,
    from_id: str | None = None,
    to_id: str | None = None,
    created_from: int | None = None,
    created_to: int | None = None,
    inputs: Sequence[Sequence[str]] = (),
    term: tuple[str, str] | None = None,
    is_declared: bool = False,
) -> list[JobLine]:
    """In an order; `before` is what the last row of the page before was sorted by (`SORTED_BY`). `texts` are of kind,
    queue, stage, provider, owner, key and error; of each of `inputs` one of three patterns must fit.

    `term`, one of the inputs as a field and its value, finds jobs of any age whose kind declares that field;
    `is_declared` says that all kinds that are asked for do."""
    asked = {
        "held": None if held is None else int(held),
        "created_from": created_from,
        "created_to": created_to,
        "inputs": batch.keyed({str(number): list(each) for number, each in enumerate(inputs)}) if inputs else None,
        **{f"{name}_like" if each.is_pattern else name: each.text for name, each in texts.items()},
    }
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    within: dict[str, Any] = {
        "from_id": max(from_id or LOWEST, _first_id(created_from)),
        "to_id": min(to_id or HIGHEST, _last_id(created_to)),
        "limit": limit,
    }
    if before is not None:
        values = [before] if isinstance(before, str) else list(before)
        within |= {"before_id": values[-1], **({"before_value": values[0]} if len(values) > 1 else {})}
    lines = {*given, order, *([state] if state else ()), *([f"before_{order}"] if before is not None else ())}
    lines |= set() if "key" in given else {"within"}
    rows: list[JobLine] = []
    if term is not None:
        by_term = sql.choose(sql.jobs_matching, {*lines, "field"})
        rows += await tx.rows(by_term, into=JobLine, field=term[0], value=term[1], **within, **given)
    if term is None or not is_declared:
        if inputs:
            oldest = await tx.rows(sql.oldest_searched, payloads_max=PAYLOADS_MAX)
            within["from_id"] = max(within["from_id"], oldest[0]["id"] if oldest else LOWEST)
        rows += await tx.rows(sql.choose(sql.jobs_matching, {*lines, "any"}), into=JobLine, **within, **given)
    by_place = {tuple(getattr(row, name) for name in SORTED_BY[order]): row for row in rows}
    return [by_place[place] for place in sorted(by_place, reverse=order in DESCENDING)[:limit]]


def _first_id(created: int | None) -> str:
    """The lowest id of jobs that were created then or later. An id begins with the time of its making, by a clock that
    may differ from the one that dates the row."""
    return LOWEST if created is None else _id_of(created - CLOCKS_APART_MS, "0")


def _last_id(created: int | None) -> str:
    return HIGHEST if created is None else _id_of(created + CLOCKS_APART_MS, "f")


def _id_of(moment: int, rest: str) -> str:
    time = min(max(0, moment), 2**48 - 1)
    return str(UUID(f"{time:012x}".ljust(32, rest)))


async def put(tx: Tx, terms: Mapping[str, Iterable[tuple[str, str]]]) -> None:
    """Let jobs be found by these fields and values."""
    rows = [(field, batch.storable(value), job_id) for job_id, own in terms.items() for field, value in own]
    if rows:
        await tx.rows(sql.put, batch=batch.numbered(rows))


async def forget(tx: Tx, job_ids: Iterable[str]) -> None:
    await tx.rows(sql.forget, batch=batch.ids(job_ids))
