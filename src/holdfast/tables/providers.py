"""One row per provider: its breaker and its gate; and apart, what every call changes: outcomes, rate, places. All
processes of a deployment share them. Who changes either holds the lock of the first (`lock`)."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from holdfast.core import breaker
from holdfast.core.breaker import BreakerState, Gate
from holdfast.core.rate import Places, Usage
from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))


class ProviderRow(NamedTuple):
    """What the store knows of a provider. `not_before` is when it asked to be called again."""

    state: BreakerState
    not_before: int | None = None
    usage: Usage = Usage()
    places: Places = MappingProxyType({})
    ramp: int = 0
    ramp_at: int = 0


async def ensure(tx: Tx, name: str, now: int) -> None:
    await tx.rows(sql.ensure, name=name, now=now)


async def read(tx: Tx, name: str) -> ProviderRow:
    return (await read_all(tx, [name]))[name]


async def read_all(tx: Tx, names: Collection[str]) -> dict[str, ProviderRow]:
    """The row of each. A provider that was never in trouble has none, and none is needed."""
    rows = await tx.rows(sql.read, names=batch.ids(names))
    return dict.fromkeys(names, ProviderRow(BreakerState())) | {row["name"]: _provider_row(row) for row in rows}


async def read_with_lease(tx: Tx, name: str, job_id: str, attempt: int) -> tuple[ProviderRow, bool]:
    """A provider's row, and whether the attempt still holds its job."""
    (row,) = await tx.rows(sql.read_with_lease, name=name, job_id=job_id, attempt=attempt)
    return ProviderRow(BreakerState()) if row["name"] is None else _provider_row(row), bool(row["held"])


async def lock(tx: Tx, name: str, now: int) -> ProviderRow:
    """Keep others from a provider's row, and from what is counted of it, until this transaction ends."""
    rows = await tx.rows(sql.lock, name=name)
    if not rows:
        await ensure(tx, name, now)
        rows = await tx.rows(sql.lock, name=name)
    used = await tx.rows(sql.used, name=name)
    if not used:
        await tx.rows(sql.begin_use, name=name)
        used = await tx.rows(sql.used, name=name)
    (row,), (use,) = rows, used
    state = _standing(row["gate"], row["state"], use["counted"])
    return ProviderRow(state, row["not_before"], _usage(use), json.loads(use["places"]), use["ramp"], use["ramp_at"])


async def keep(tx: Tx, names: Collection[str]) -> None:
    """Let nobody move the gates of these until the transaction ends. In one order, as all who hold several."""
    for name in sorted(names):
        await tx.rows(sql.lock, name=name)


def _provider_row(row: Row) -> ProviderRow:
    state = _standing(row["gate"], row["state"], row["counted"])
    return ProviderRow(state, row["not_before"], _usage(row), json.loads(row["places"]))


def state_of(stored: StoredProvider) -> BreakerState:
    return _standing(stored.gate, stored.state, stored.counted)


def _standing(gate: str, stored: str, counted: str | None) -> BreakerState:
    """Outcomes are counted apart while the gate is closed. Whoever moves the gate, code of before included, starts a
    new generation in the row itself: what was counted of an older one is over."""
    state = _state(stored)
    if counted is None or gate != Gate.CLOSED:
        return state
    counting = _state(counted)
    return counting if counting.gate is Gate.CLOSED and counting.generation >= state.generation else state


def _state(text: str) -> BreakerState:
    stored = json.loads(text)
    return breaker.from_row(stored) if stored else BreakerState()


def _usage(row: Row) -> Usage:
    return Usage(tuple((at, calls) for at, calls in json.loads(row["recent"])), row["tokens"], row["tokens_at"])


async def swap(tx: Tx, name: str, before: BreakerState, after: BreakerState, now: int) -> None:
    """Write the new state under the row's lock, and log a change of gate. While a gate stays closed, what is counted
    leaves the row alone that every turn looks up."""
    if after == before:
        return
    body = batch.text(breaker.to_row(after))
    if before.gate is after.gate is Gate.CLOSED and before.generation == after.generation:
        await tx.rows(sql.count, name=name, state=body)
        return
    await tx.rows(sql.swap, name=name, gate=after.gate, state=body, now=now)
    if after.gate is not before.gate:
        await log(tx, name, after.gate, after.reason or after.gate, now)


async def set_not_before(tx: Tx, name: str, not_before: int) -> None:
    await tx.rows(sql.set_not_before, name=name, not_before=not_before)


async def lift_gate(tx: Tx, name: str) -> None:
    """Let the provider be called now, whatever it asked for."""
    await tx.rows(sql.lift_gate, name=name)


async def spend(tx: Tx, name: str, usage: Usage) -> None:
    recent = batch.text(usage.recent)
    await tx.rows(sql.spend, name=name, tokens=usage.tokens, tokens_at=usage.tokens_at, recent=recent)


async def set_places(tx: Tx, name: str, places: Places) -> None:
    await tx.rows(sql.set_places, name=name, places=batch.text(dict(places)))


async def set_ramp(tx: Tx, name: str, ramp: int, now: int) -> None:
    await tx.rows(sql.set_ramp, name=name, ramp=ramp, now=now)


async def log(tx: Tx, name: str, gate: str, reason: str, now: int) -> None:
    await tx.rows(sql.log, name=name, gate=gate, reason=reason, now=now)


class GateMove(NamedTuple):
    """A change of a provider's gate."""

    name: str
    gate: str
    at: int
    reason: str


async def history(tx: Tx, name: str | None, limit: int = 50) -> list[GateMove]:
    return await tx.rows(sql.history, into=GateMove, name=name, limit=limit)


class StoredProvider(NamedTuple):
    """A provider as it is stored; `counted` is what every call adds to."""

    name: str
    gate: str
    state: str
    not_before: int | None
    updated_at: int
    counted: str | None


async def read_every(tx: Tx) -> list[StoredProvider]:
    return await tx.rows(sql.read_every, into=StoredProvider)


async def names(tx: Tx) -> list[str]:
    return [row["name"] for row in await tx.rows(sql.names)]


class WatchedProvider(NamedTuple):
    """A breaker, and since when the first job has been parked that it holds back; `ours` if jobs of ours are."""

    name: str
    gate: str
    first: int | None
    ours: bool


async def read_watched(tx: Tx, queues: Sequence[str], floors: Mapping[str, int]) -> list[WatchedProvider]:
    """Every breaker; a provider with a floor is looked at from there on."""
    from_floor = batch.keyed({name: [at] for name, at in floors.items()})
    rows = await tx.rows(sql.read_watched, queues=batch.ids(queues), floors=from_floor)
    return [WatchedProvider(row["name"], row["gate"], row["first"], bool(row["ours"])) for row in rows]
