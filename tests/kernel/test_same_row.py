"""One order is one row, whichever door it comes through: alone, in a batch, by bulk load, on a caller's connection."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from typing import Any

import psycopg
import pytest

from holdfast import (
    App,
    Client,
    Context,
    Job,
    Priority,
    Provider,
    SyncClient,
    enqueue,
    enqueue_many,
    stage,
)
from holdfast.kernel.app import kind_of
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import (
    LOAD_ROWS_MIN,
    Options,
    prepare,
    submit,
    submit_in,
    submit_many,
    submit_orders,
)
from holdfast.stores.clock import SystemClock
from tests.kernel.places import Place, close_all, rows

app = App("doors")
TEXT = 'tab\t newline\n back\\slash "quoted" é 漢 \\N'
WORDS: Options = {
    "delay_s": 5.0,
    "priority": Priority.LOW,
    "deadline_s": 60.0,
    "owner": "the owner",
    "trace": "00-" + "a" * 32 + "-" + "b" * 16 + "-01",
}


@app.job(version=3)
class Enter(Job[str]):
    @stage(provider=Provider("gate"))
    async def begin(self, ctx: Context, text: str) -> str:
        return text


@app.job(version=3, fair_by="owner")
class Stand(Job[str]):
    @stage(provider=Provider("gate"))
    async def begin(self, ctx: Context, text: str) -> str:
        return text


Door = Callable[[Kernel, Place, type[Job[str]], Options], Coroutine[Any, Any, None]]


async def alone(kernel: Kernel, place: Place, job: type[Job[str]], given: Options) -> None:
    await submit(kernel, job, TEXT, **given)


async def in_a_transaction(kernel: Kernel, place: Place, job: type[Job[str]], given: Options) -> None:
    kind = kind_of(job)
    order = prepare(kind, TEXT, job_id=kernel.new_id(), now=kernel.now(), **given)
    async with kernel.store.transaction() as tx:
        await submit_in(tx, [order], kernel.now())


async def in_a_batch(kernel: Kernel, place: Place, job: type[Job[str]], given: Options) -> None:
    now, kind = kernel.now(), kind_of(job)
    orders = [prepare(kind, TEXT, job_id=kernel.new_id(), now=now, **given) for _ in range(3)]
    await submit_orders(kernel, orders)


async def in_company(kernel: Kernel, place: Place, job: type[Job[str]], given: Options) -> None:
    await asyncio.gather(*[submit(kernel, job, TEXT, **given) for _ in range(3)])


async def by_bulk_load(kernel: Kernel, place: Place, job: type[Job[str]], given: Options) -> None:
    await submit_many(kernel, job, [TEXT] * LOAD_ROWS_MIN, **given)


async def on_a_connection(kernel: Kernel, place: Place, job: type[Job[str]], given: Options) -> None:
    with connected(place) as connection:
        enqueue(connection, job, TEXT, **given)


async def many_on_a_connection(kernel: Kernel, place: Place, job: type[Job[str]], given: Options) -> None:
    with connected(place) as connection:
        enqueue_many(connection, job, [TEXT] * 3, **given)


async def by_a_client(kernel: Kernel, place: Place, job: type[Job[str]], given: Options) -> None:
    await Client(kernel).enqueue(job, TEXT, **given)
    await Client(kernel).enqueue_many(job, [TEXT] * 3, **given)


async def by_a_client_of_threads(kernel: Kernel, place: Place, job: type[Job[str]], given: Options) -> None:
    def ask() -> None:
        url = place.url if place.dialect == "postgres" else f"sqlite:///{place.url}"
        with SyncClient.open(app, database=url) as client:
            client.enqueue(job, TEXT, **given)
            client.enqueue_many(job, [TEXT] * 3, **given)

    await asyncio.to_thread(ask)


def connected(place: Place) -> Any:
    return psycopg.connect(place.url) if place.dialect == "postgres" else sqlite3.connect(place.url)


DOORS: tuple[Door, ...] = (
    alone, in_a_transaction, in_a_batch, in_company, by_bulk_load, on_a_connection, many_on_a_connection,
    by_a_client, by_a_client_of_threads,
)  # fmt: skip


@pytest.mark.spec("K1", "K18", "K19")
@pytest.mark.parametrize("job", [Enter, Stand])
@pytest.mark.parametrize("given", [WORDS, {}], ids=["all is said", "nothing is said"])
async def test_the_same_order_is_the_same_row_through_every_door(
    place: Place, given: Options, job: type[Job[str]]
) -> None:
    kernel = place.kernel(app, clock=SystemClock())
    stored = {door.__name__: await through(door, kernel, place, job, given) for door in DOORS}
    waits = job is Stand
    expected = {
        "kind": f"doors.{job.__name__.lower()}",
        "queue": "doors",
        "stage": "begin",
        "state": "queued",
        "provider": None if waits else "gate",
        "parked": int(waits),
        "hold": "turn" if waits else None,
        "fair_key": given.get("owner", "-") if waits else None,
        "version": 3,
        "priority": Priority.LOW if given else Priority.NORMAL,
        "owner": given.get("owner"),
        "trace": given.get("trace"),
        "is_due": 0 if given and not waits else 1,
        "run_at": 5_000 if given else 0,
        "deadline_at": 60_000 if given else None,
        "payload": '"tab\\t newline\\n back\\\\slash \\"quoted\\" é 漢 \\\\N"',
        "job_key": None,
        "attempt": 0,
    }
    first = stored["alone"]
    assert {name: first[name] for name in expected} == expected
    assert {door: row for door, row in stored.items() if row != first} == {}, "every column is the same"
    await close_all(place)


async def through(door: Door, kernel: Kernel, place: Place, job: type[Job[str]], given: Options) -> dict[str, Any]:
    """The row that a door writes, its times since its creation; all the rows of a door are alike."""
    await door(kernel, place, job, given)
    found = await rows(kernel.store, "SELECT * FROM holdfast_jobs")
    alike = {tuple(sorted(since_creation(row).items(), key=lambda pair: pair[0])) for row in found}
    assert len(alike) == 1, f"{door.__name__} writes rows that differ"
    async with kernel.store.transaction() as tx:
        from holdfast.stores.statement import _statement

        await tx.rows(_statement("clear", {None: "DELETE FROM holdfast_jobs"}))
    return dict(alike.pop())


def since_creation(row: dict[str, Any]) -> dict[str, Any]:
    made = row["created_at"]
    times = ("created_at", "updated_at", "run_at", "deadline_at")
    since = {name: None if row[name] is None else row[name] - made for name in times}
    assert abs(since["updated_at"] or 0) < 1_000, "written when it was created"
    slack = {name: None if value is None else round(value, -3) for name, value in since.items()}
    return {name: value for name, value in row.items() if name not in ("id", *times)} | slack
