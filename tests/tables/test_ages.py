"""What is forgotten is older than the moment it is told, and what is as old as that, or needed, stays."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Tx
from holdfast.tables import (
    callbacks,
    calls,
    idempotency,
    inbox,
    incidents,
    jobs,
    keepers,
    outbox,
    replays,
    rollups,
    tickets,
    turns,
    workers,
)
from holdfast.tables.calls import NewCall
from holdfast.tables.incidents import Hit
from holdfast.tables.replays import Group, NewReplay
from holdfast.tables.rollups import Cell
from tests.kernel.places import Deploy, rows
from tests.tables.test_fences import Note, app
from tests.tables.test_rare_rows import write

BEFORE = 1_767_225_600_000
"""What was written before it goes."""

Put = Callable[[Kernel, Tx, str, int], Awaitable[Any]]
Forget = Callable[[Tx], Awaitable[Any]]
HIGHEST = "ffffffff-ffff-ffff-ffff-ffffffffffff"


async def publish(kernel: Kernel, tx: Tx, name: str, at: int) -> None:
    await outbox.put(tx, [(kernel.new_uuid4(), name, "there", "told", "{}", "{}")], BEFORE - 5)
    (row,) = await outbox.claim(tx, name, BEFORE, BEFORE + 1, 1)
    assert await outbox.published(tx, name, [row.seq], at) == 1


async def call(kernel: Kernel, tx: Tx, name: str, at: int) -> None:
    await calls.put(tx, [NewCall(kernel.new_id(), None, None, None, name, at, 1, "ok", 200, None, 0, None)])


async def replay(kernel: Kernel, tx: Tx, name: str, at: int) -> None:
    new = NewReplay(kernel.new_id(), "kind", "stage", "class", "ann", "transient", None, None, False, None)
    await replays.begin(tx, new, Group(name), 1, at)
    assert name == "running" or await replays.stop(tx, new.id, at)


async def incident(kernel: Kernel, tx: Tx, name: str, at: int) -> None:
    id = kernel.new_id()
    assert await incidents.open(tx, id, "topic", name, "page", "It is.", at, Hit(), at)
    if name != "running":
        assert await incidents.over(tx, id, at) == "over"
    if name not in ("running", "over"):
        assert await incidents.close(tx, id, "It was.", at)


TABLES: dict[str, tuple[str, str, Put, Forget]] = {
    "inbox": (
        "holdfast_inbox",
        "message_id",
        lambda kernel, tx, name, at: inbox.accept(tx, "us", name, "f", at),
        lambda tx: inbox.prune(tx, 0, BEFORE, 9),
    ),
    "keys": (
        "holdfast_idempotency",
        "key",
        lambda kernel, tx, name, at: idempotency.reserve(tx, "ann", name, "f", at),
        lambda tx: idempotency.prune(tx, 0, BEFORE, 9),
    ),
    "callbacks": (
        "holdfast_callbacks",
        "key",
        lambda kernel, tx, name, at: callbacks.put(tx, name, "{}", at),
        lambda tx: callbacks.prune(tx, 0, BEFORE, 9),
    ),
    "tickets": (
        "holdfast_tickets",
        "digest",
        lambda kernel, tx, name, at: tickets.put(tx, name, "ann", "", at),
        lambda tx: tickets.prune(tx, BEFORE),
    ),
    "keepers": (
        "holdfast_keepers",
        "name",
        lambda kernel, tx, name, at: keepers.take(tx, name, "us", at, 0),
        lambda tx: keepers.forget(tx, BEFORE),
    ),
    "workers": (
        "holdfast_workers",
        "name",
        lambda kernel, tx, name, at: workers.seen(tx, name, "q", 0, at),
        lambda tx: workers.gone(tx, "nobody", BEFORE),
    ),
    "outbox": ("holdfast_outbox", "aggregate_id", publish, lambda tx: outbox.prune(tx, 0, BEFORE, 9)),
    "calls": ("holdfast_calls", "provider", call, lambda tx: calls.prune(tx, jobs.NIL, HIGHEST, BEFORE, 9)),
    "replays": ("holdfast_replays", "fingerprint", replay, lambda tx: replays.prune(tx, BEFORE)),
    "incidents": ("holdfast_incidents", "subject", incident, lambda tx: incidents.prune(tx, BEFORE, 9)),
    "rollups": (
        "holdfast_rollups",
        "name",
        lambda kernel, tx, name, at: rollups.put(tx, [Cell(at, "job", name, "", "", 1, 1, 1)]),
        lambda tx: rollups.prune(tx, 60_000, 0, BEFORE),
    ),
}
NEEDED = {"replays": ("running",), "incidents": ("running", "over")}
"""What has not ended, or nobody has closed, however old it is."""


@pytest.mark.spec("K18")
@pytest.mark.parametrize("table", TABLES)
async def test_what_is_old_goes_and_what_is_not_or_is_needed_stays(deploy: Deploy, table: str) -> None:
    world = await deploy(app)
    kernel = world.kernel
    name, column, put, forget = TABLES[table]
    needed = NEEDED.get(table, ())
    ages = {"old": -1, "at": 0, "new": 1} | dict.fromkeys(needed, -1)
    async with kernel.store.transaction() as tx:
        for each, age in ages.items():
            await put(kernel, tx, each, BEFORE + age)
        await forget(tx)
    left = await rows(kernel.store, f"SELECT {column} AS name FROM {name}")
    assert {row["name"] for row in left} == {"at", "new", *needed}


@pytest.mark.spec("K25")
async def test_what_waits_for_its_turn_again_is_not_counted_as_begun(deploy: Deploy) -> None:
    """A replayed job of a key with a limit gives its place back until its turn comes."""
    world = await deploy(app)
    for hold in ("turn", "limit", None):
        await world.enqueue(Note, {"name": str(hold)})
        await write(
            world,
            "UPDATE holdfast_jobs SET fair_key = 'ann', turn_at = 1,"
            " parked = CASE WHEN CAST(:hold AS TEXT) IS NULL THEN 0 ELSE 1 END, hold = :hold WHERE fair_key IS NULL",
            hold=hold,
        )
    async with world.kernel.store.transaction() as tx:
        assert (await turns.begun(tx, ["ann"], {}, 1))["ann"].unended == 2
