"""Replays of whole groups of dead letters, and the letters in them. Functions named as the statements in
`replays.sql`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch
from holdfast.tables.jobs import NIL
from holdfast.tables.typed import fetch_first

sql = load_statements(Path(__file__).with_suffix(".sql"))


class Group(NamedTuple):
    """The letters of a fingerprint that a replay may still take; `ids` narrows them."""

    fingerprint: str
    ids: tuple[str, ...] | None = None

    def bind(self) -> dict[str, Any]:
        return {
            "fingerprint": self.fingerprint,
            "is_chosen": int(self.ids is not None),
            "batch": batch.ids(self.ids or ()),
        }


class NewReplay(NamedTuple):
    id: str
    kind: str
    stage: str
    error_class: str
    actor: str
    cause: str
    evidence: str | None
    changes: str | None
    is_full: bool
    per_minute: float | None


class Upcoming(NamedTuple):
    """A letter that is not taken yet, and how often its job had died when the replay began."""

    id: str
    deaths: int


async def begin(tx: Tx, new: NewReplay, group: Group, limit: int, now: int) -> int:
    """Write it with its letters; return how many they are, 0 if one of this group has not ended."""
    fields = {**new._asdict(), "is_full": int(new.is_full)}
    if not await tx.rows(sql.begin, fingerprint=group.fingerprint, now=now, **fields):
        return 0
    return len(await tx.rows(sql.enrol, id=new.id, limit=limit, **group.bind()))


class GroupReplay(NamedTuple):
    """The replay of a group, as it is stored."""

    id: str
    fingerprint: str
    kind: str
    stage: str
    error_class: str
    actor: str
    cause: str
    evidence: str | None
    changes: str | None
    is_full: int
    per_minute: float | None
    state: str
    next_at: int
    created_at: int
    ended_at: int | None


async def due(tx: Tx, now: int) -> GroupReplay | None:
    """A running replay whose next letter is due."""
    return await fetch_first(GroupReplay, tx, sql.due, now=now)


async def upcoming(tx: Tx, id: str, limit: int, first: str = NIL) -> list[Upcoming]:
    """The next letters of a replay, from one on below which all are done."""
    return [Upcoming(*row) for row in await tx.rows(sql.upcoming, id=id, limit=limit, first=first)]


async def mark(tx: Tx, id: str, letter_id: str, detail: str | None, now: int) -> None:
    """A letter was taken; `detail` says why it could not be replayed."""
    await tx.rows(sql.mark, id=id, letter_id=letter_id, detail=detail, now=now)


async def advance(tx: Tx, id: str, next_at: int, now: int, first: str = NIL) -> None:
    """When the next letter is due; ended when none is left from `first` on, below which all are done."""
    await tx.rows(sql.advance, id=id, next_at=next_at, now=now, first=first)


async def pause(tx: Tx, id: str) -> bool:
    return bool(await tx.rows(sql.pause, id=id))


async def resume(tx: Tx, id: str, now: int) -> bool:
    return bool(await tx.rows(sql.resume, id=id, now=now))


async def stop(tx: Tx, id: str, now: int) -> bool:
    return bool(await tx.rows(sql.stop, id=id, now=now))


async def show(tx: Tx, id: str) -> GroupReplay | None:
    return await fetch_first(GroupReplay, tx, sql.show, id=id)


async def page(tx: Tx, *, before: str | None, limit: int, fingerprint: str | None = None) -> list[GroupReplay]:
    return await tx.rows(sql.page, into=GroupReplay, before=before, limit=limit, fingerprint=fingerprint)


async def progress(tx: Tx, id: str) -> dict[str, int]:
    """How many letters there are by what became of them."""
    return {row["outcome"]: row["letters"] for row in await tx.rows(sql.progress, id=id)}


class TroubledLetter(NamedTuple):
    """A letter that went wrong again."""

    letter_id: str
    job_id: str
    detail: str | None


async def troubles(tx: Tx, id: str, limit: int) -> list[TroubledLetter]:
    return await tx.rows(sql.troubles, into=TroubledLetter, id=id, limit=limit)


class GroupFacts(NamedTuple):
    """What a replay of a group would meet."""

    letters: int
    owners: int
    first: str | None
    effects: dict[str, int]
    costs: dict[str, int]
    results: dict[str, int]


async def facts_of(tx: Tx, group: Group) -> GroupFacts:
    bound = group.bind()
    owners = (await tx.rows(sql.owners_of, **bound))[0]
    return GroupFacts(
        owners["letters"],
        owners["owners"],
        owners["first"],
        {row["status"]: row["effects"] for row in await tx.rows(sql.effects_of, **bound)},
        {row["stage"] or "": row["cost_micros"] for row in await tx.rows(sql.costs_of, **bound)},
        {row["stage"]: row["jobs"] for row in await tx.rows(sql.results_of, **bound)},
    )


async def letters_of(tx: Tx, group: Group, limit: int) -> list[str]:
    """The first letters of a group."""
    return [row["id"] for row in await tx.rows(sql.letters_of, limit=limit, **group.bind())]


async def prune(tx: Tx, before: int) -> None:
    """Forget what ended before a time."""
    await tx.rows(sql.prune_letters, before=before)
    await tx.rows(sql.prune, before=before)


async def ids(tx: Tx, lowest: str, highest: str) -> list[str]:
    return [row["id"] for row in await tx.rows(sql.ids, lowest=lowest, highest=highest)]
