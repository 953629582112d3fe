"""Behind a real PgBouncer, as it comes: sessions are shared by transaction, or lent for as long as one is connected."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from dataclasses import replace

import asyncpg
import psycopg
import pytest

from holdfast.errors import StoreError, StoreUnavailable
from holdfast.stores.connecting import Connecting, Pooler
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres_errors import translating
from holdfast.stores.postgres_session import PLANNER
from holdfast.stores.statement import _statement
from holdfast.tables import workers
from holdfast.tables.schema import KERNEL
from tests.acceptance.deployment import Deployment, all_ended, rows
from tests.acceptance.process import until
from tests.acceptance.test_restarts import Told, client, noticed
from tests.acceptance.verify import verify
from tests.services.child import free_ports
from tests.services.pgbouncer import PgBouncer

pytestmark = pytest.mark.slow

Begin = Callable[[str], PgBouncer]
ORDERS = 15
HEARD_S = 20.0
ASKED = ", ".join(f"current_setting('{name}') AS {name}" for name in PLANNER)
SETTINGS = _statement("settings", {None: f"SELECT {ASKED}"})  # type: ignore[dict-item]


async def planned(store: PostgresStore) -> list[dict[str, str]]:
    """The planner settings that a statement meets, in each way to run one."""
    found = []
    for way in (store.single_statement, store.reading, store.transaction):
        async with way() as tx:
            found.append(dict((await tx.rows(SETTINGS))[0]))  # type: ignore[call-overload]
    return found


@pytest.mark.spec("K28")
@pytest.mark.parametrize("mode", ["transaction", "session"])
async def test_a_fleet_works_behind_pgbouncer_and_through_its_death(
    site: Deployment, pgbouncer: Begin, mode: str
) -> None:
    bouncer = pgbouncer(mode)
    there = replace(site, url=bouncer.url(site.url), processes=[])
    given = {"WORKER_LEASE_TTL_SEC": "4"} | ({"HOLDFAST_POOLER": "session"} if mode == "session" else {})
    workers = [there.worker(**given) for _ in range(2)]
    looked = there.start("check", "--connect", "--json", **given)
    assert await looked.until_ended() == 0, looked.tail()
    (line,) = json.loads(looked.log.read_text().splitlines()[-1])["connections"]
    heard = "notifications do not arrive: workers poll" if mode == "transaction" else "notifications arrive"
    assert line["found"].startswith("PostgreSQL 1") and heard in line["found"] and "the schema fits" in line["found"]
    told, stop = Told(), asyncio.Event()
    async with there.kernel() as kernel:
        async with asyncio.TaskGroup() as group:
            for name in range(4):
                group.create_task(client(kernel, name, told, stop))
            await more_acked(told)
            workers[0].send(signal.SIGKILL)
            await more_acked(told)
            await asyncio.to_thread(bouncer.kill)
            await noticed(told)
            bouncer.begin()
            await more_acked(told)
            stop.set()

        async def ended() -> bool:
            try:
                return await all_ended(kernel)
            except StoreError:
                return False

        await until(ended, "all jobs to end", 60, process=workers[1])
        assert workers[1].exit_code() is None, workers[1].tail()
        assert await workers[1].end() == 0, workers[1].tail()
        known = await rows(kernel, "SELECT CAST(id AS TEXT) AS id, job_key FROM holdfast_jobs WHERE job_key LIKE '%:%'")
        found = {row["job_key"]: row["id"] for row in known}
        assert {key: found.get(key) for key in told.acked} == told.acked, "acknowledged and lost"
        await verify(there, kernel)


async def more_acked(told: Told) -> None:
    goal = len(told.acked) + ORDERS

    async def reached() -> bool:
        return len(told.acked) >= goal

    await until(reached, f"{goal} acknowledged jobs")


@pytest.mark.spec("K28")
async def test_the_schema_is_migrated_through_a_pooler(postgres_url: str, pgbouncer: Begin) -> None:
    store = PostgresStore(pgbouncer("transaction").url(postgres_url))
    assert len(await store.migrate(KERNEL)) == len(KERNEL)
    assert await store.migrate(KERNEL) == []
    assert len(await store.installed()) == len(KERNEL)
    await store.close()


@pytest.mark.spec("K28")
async def test_settings_in_the_url_hold_for_every_transaction_through_a_pooler(
    postgres_url: str, pgbouncer: Begin
) -> None:
    apart = f"{postgres_url}?search_path=mine"
    pooled_url = pgbouncer("transaction").url(postgres_url) + "?search_path=mine"
    blind = PostgresStore(pooled_url)
    with pytest.raises(StoreUnavailable, match="HOLDFAST_LISTEN_URL"):
        await blind.migrate(KERNEL)
    await blind.close()
    store = PostgresStore(pooled_url, connecting=Connecting(listen_url=postgres_url))
    assert len(await store.migrate(KERNEL)) == len(KERNEL)
    async with store.single_statement() as tx:
        await workers.seen(tx, "w1", "x", 0, 1)
    direct, elsewhere = PostgresStore(apart), PostgresStore(postgres_url)
    async with direct.reading() as tx:
        assert await workers.known(tx, 1) == ["w1"]
    assert await elsewhere.installed() == []
    for each in (store, direct, elsewhere):
        await each.close()


@pytest.mark.spec("K28")
async def test_statements_are_planned_alike_through_a_pooler_and_leave_nothing_behind(
    postgres_url: str, pgbouncer: Begin
) -> None:
    off = [dict.fromkeys(PLANNER, "off")] * 3
    pooled_url = pgbouncer("transaction").url(postgres_url)
    store, direct = PostgresStore(pooled_url), PostgresStore(postgres_url)
    assert await planned(direct) == off
    for _ in range(5):  # whichever session is lent
        assert await planned(store) == off
    assert store._sessions.needs_begin
    await store.close()
    with psycopg.connect(pooled_url, autocommit=True) as other:
        for _ in range(5):
            found = other.execute("SHOW enable_seqscan", prepare=False).fetchone()
            assert found == ("on",), "what Holdfast needs must not be left to the next one who gets the session"
    name = postgres_url.rpartition("/")[2]
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        for setting in PLANNER:
            admin.execute(f"ALTER DATABASE {name} SET {setting} = off".encode())
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    again = PostgresStore(pooled_url)
    assert await planned(again) == off
    assert not again._sessions.needs_begin, "a single statement is one message again"
    await again.close()
    await direct.close()


@pytest.mark.spec("K28")
@pytest.mark.parametrize(
    ("mode", "connecting", "hears"),
    [
        ("transaction", Connecting(), False),
        ("transaction", Connecting(listen_url="direct"), True),
        ("session", Connecting(pooler=Pooler.SESSION), True),
        ("session", Connecting(), False),
    ],
    ids=["transaction", "direct", "session", "unnamed"],
)
async def test_notifications_are_heard_where_a_session_lasts(
    postgres_url: str, pgbouncer: Begin, mode: str, connecting: Connecting, hears: bool
) -> None:
    if connecting.listen_url is not None:
        server = postgres_url.rpartition("/")[0]  # the database is that of the other URL
        connecting = replace(connecting, listen_url=server)
    store = PostgresStore(pgbouncer(mode).url(postgres_url), connecting=connecting)
    listener = store.listen("queue:x")
    assert (
        await listener.wait(HEARD_S if hears else 1.0) is hears
    )  # every listener is woken once when the connection stands
    assert store.is_heard() is hears
    if hears:
        async with store.transaction() as tx:
            await tx.notify("queue:x")
        assert await listener.wait(HEARD_S)
    listener.close()
    await store.close()


@pytest.mark.spec("K28")
async def test_what_a_pooler_refuses_is_named(postgres_url: str, pgbouncer: Begin) -> None:
    bouncer = pgbouncer("transaction")
    with pytest.raises(StoreUnavailable, match="refuses the parameter 'search_path'"), translating():
        await asyncpg.connect(bouncer.url(postgres_url) + "?search_path=mine")
    blind = PostgresStore(bouncer.url(postgres_url), connecting=Connecting(pooler=Pooler.NONE))
    await planned(blind)  # prepared in the one session that there is
    with psycopg.connect(bouncer.url(postgres_url)) as other:
        other.execute("SELECT 1")  # which is now another's, until it commits
        with pytest.raises(StoreUnavailable, match="HOLDFAST_POOLER=transaction") as caught:
            await planned(blind)
        assert "statement_cache_size" not in str(caught.value), "an option that Holdfast does not have"
    await blind.close()


@pytest.mark.spec("K28")
async def test_an_address_at_which_nothing_is_heard_is_named(postgres_url: str, pgbouncer: Begin) -> None:
    pooled_url = pgbouncer("transaction").url(postgres_url)
    nobody = f"postgresql://holdfast@127.0.0.1:{free_ports(1)[0]}"
    for listen_url, cause in ((pooled_url, "leads to a pooler"), (nobody, "cannot be reached"), (postgres_url, "")):
        store = PostgresStore(pooled_url, connecting=Connecting(listen_url=listen_url))
        found = await store.examine()
        assert found.hears is (cause == "")
        assert [cause in problem for problem in found.problems] == [True] * bool(cause), found
        await store.close()
