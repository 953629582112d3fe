"""The critical pairs of statements, in every order, on two real PostgreSQL sessions, with the kernel's own functions.

READ COMMITTED shows anomalies that SQLite cannot: each pair here is one that a job queue has got wrong somewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from holdfast import NotAllowed
from holdfast.core.job import Claimed
from holdfast.core.outcome import Next
from holdfast.engines.worker import Worker
from holdfast.errors import LeaseLost
from holdfast.kernel.effects import perform
from holdfast.kernel.intake import called_back
from holdfast.kernel.kernel import Kernel, Registry, Tuning
from holdfast.kernel.ledger.reconcile import reconcile_once
from holdfast.kernel.operate import cancel, remediate, replay, triage
from holdfast.kernel.reap import reap_once, sweep_once
from holdfast.kernel.relay import relay_once
from holdfast.kernel.settle import Ending
from holdfast.kernel.submit import submit
from holdfast.kernel.turn import turn
from holdfast.stores.connecting import Connecting
from holdfast.stores.postgres import PostgresStore
from holdfast.tables import leases, outbox
from holdfast.tables.schema import KERNEL
from holdfast.testing import HandClock
from tests.acceptance.deployment import rows
from tests.acceptance.interleave import GatedStore, connect
from tests.acceptance.pairs import NEWS, Confirmed, Pairs, Sent, made
from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def database(postgres_server: PostgresServer) -> str:
    """Quick to detect a deadlock, and spared the disk: what is looked at here is isolation, not durability."""
    url = postgres_server.create_database()
    name = url.rpartition("/")[2]
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        for limit in ("deadlock_timeout = '20ms'", "synchronous_commit = off"):
            connection.execute(f"ALTER DATABASE {name} SET {limit}".encode())
    return url


@pytest.fixture
async def pairs(database: str) -> AsyncIterator[Pairs]:
    sent, published = Sent(), []
    clocks = [HandClock() for _ in range(3)]
    stores = [PostgresStore(database, clock=clock, connecting=Connecting(connections=2)) for clock in clocks]
    await stores[2].migrate(KERNEL)
    registry = Registry([made(sent)])
    tuning = Tuning(reconcile_grace_s=0.001)
    transports = [Confirmed(published) for _ in range(2)]
    for transport in transports:
        await transport.declare([NEWS])
    watcher = await connect(database)
    yield Pairs(
        Kernel(GatedStore(stores[0]), registry, transports[0], tuning=tuning),
        Kernel(GatedStore(stores[1]), registry, transports[1], tuning=tuning),
        Kernel(stores[2], registry, tuning=tuning),
        watcher,
        sent,
        clocks,
        published,
    )
    await watcher.connection.close()
    for store in stores:
        await store.close()


async def at(kernel: Kernel, gate: str) -> None:
    """A step of the test's own."""
    assert isinstance(kernel.store, GatedStore)
    await kernel.store.party.gate(gate)


async def end(kernel: Kernel, job: Claimed) -> Any:
    return await turn(kernel, "w1", ["pairs"], [Ending(job, Next(7), "7")], 0)


async def claim(kernel: Kernel, _: Any) -> list[Claimed]:
    taken, _ = await turn(kernel, "w2", ["pairs"], [], 10)
    return [one.job for one in taken]


@pytest.mark.spec("K2")
async def test_two_claims_never_share_a_job(pairs: Pairs) -> None:
    async def seed() -> None:
        for number in (1, 2):
            await submit(pairs.free, pairs.kind("plain"), number)

    async def check(_: Any, left: list[Claimed], right: list[Claimed]) -> None:
        taken = [job.id for job in left + right]
        assert len(taken) == len(set(taken)) == 2

    await pairs.in_every_order(seed, claim, claim, check)


@pytest.mark.spec("K2", "K3")
async def test_a_claim_and_a_reap(pairs: Pairs) -> None:
    async def seed() -> Claimed:
        job = await pairs.leased()
        pairs.advance(61)
        return job

    async def check(job: Claimed, taken: list[Claimed], reaped: int) -> None:
        row = await pairs.job()
        assert reaped == 1 and row["crashes"] == 1
        assert (row["state"], row["attempt"]) == (("processing", 2) if taken else ("queued", 1))

    async def claim_later(kernel: Kernel, given: Any) -> list[Claimed]:
        pairs.clocks[0].advance(5)  # past the delay of a lost job, so that what was reaped is due at once
        return await claim(kernel, given)

    await pairs.in_every_order(seed, claim_later, _reap, check)


async def _reap(kernel: Kernel, _: Any) -> int:
    return await reap_once(kernel)


@pytest.mark.spec("K3", "K15")
async def test_a_settlement_and_a_reap(pairs: Pairs) -> None:
    async def seed() -> Claimed:
        job = await pairs.leased()
        pairs.advance(61)
        return job

    async def check(job: Claimed, _: Any, reaped: int) -> None:
        row = await pairs.job()
        found = (row["state"], row["crashes"], row["results"], row["late"])
        assert found in (("succeeded", 0, 1, 0), ("queued", 1, 0, 1)), found

    await pairs.in_every_order(seed, end, _reap, check)


@pytest.mark.spec("K3")
async def test_a_renewal_and_a_reap(pairs: Pairs) -> None:
    async def seed() -> Claimed:
        job = await pairs.leased()
        pairs.advance(61)
        return job

    async def renew(kernel: Kernel, job: Claimed) -> bool:
        async with kernel.store.transaction() as tx:
            return bool(await leases.renew(tx, {job.id: job.attempt}, kernel.now() + 60_000))

    async def check(job: Claimed, renewed: bool, reaped: int) -> None:
        row = await pairs.job()
        assert (row["state"], row["crashes"]) == (("processing", 0) if renewed else ("queued", 1))
        assert not (renewed and row["lease_owner"] != "w1")

    await pairs.in_every_order(seed, renew, _reap, check, frozenset({"renew", "expired", "turn", "commit"}))


@pytest.mark.spec("K14", "K15")
async def test_a_settlement_in_time_and_a_sweep(pairs: Pairs) -> None:
    async def seed() -> Claimed:
        job = await pairs.leased(deadline_s=30)
        pairs.clocks[1].advance(31)  # only the sweeper's clock is past the deadline
        return job

    async def sweep(kernel: Kernel, _: Any) -> int:
        return await sweep_once(kernel)

    async def check(job: Claimed, _: Any, swept: int) -> None:
        row = await pairs.job()
        found = (row["state"], row["letters"], row["results"], row["late"])
        assert found in (("succeeded", 0, 1, 0), ("dead", 1, 0, 1)), found
        pairs.clocks[1].advance(-31)

    gates = frozenset({"turn", "put", "overdue", "unanswered", "open", "commit"})
    await pairs.in_every_order(seed, end, sweep, check, gates)


@pytest.mark.spec("K15", "K18")
async def test_a_settlement_and_a_cancellation(pairs: Pairs) -> None:
    async def withdraw(kernel: Kernel, job: Claimed) -> str:
        return await cancel(kernel, job.id, "ada")

    async def check(job: Claimed, _: Any, cancelled: Any) -> None:
        row = await pairs.job()
        found = (row["state"], row["results"], row["late"])
        won = not isinstance(cancelled, NotAllowed)
        assert found == (("cancelled", 0, 1) if won else ("succeeded", 1, 0)), found

    gates = frozenset({"turn", "put", "lock_one", "commit"})
    await pairs.in_every_order(pairs.leased, end, withdraw, check, gates)


@pytest.mark.spec("K10")
async def test_two_relays_publish_each_message_once_and_in_order(pairs: Pairs) -> None:
    async def seed() -> list[str]:
        ids = [pairs.free.new_uuid4() for _ in range(3)]
        told = [(one, "first" if at < 2 else "other", "news", "", "{}", "{}") for at, one in enumerate(ids)]
        async with pairs.free.store.transaction() as tx:
            await outbox.put(tx, told, pairs.free.now())
        return ids

    async def check(ids: list[str], left: Any, right: Any) -> None:
        while await relay_once(pairs.left):  # what neither of the two could have claimed yet
            pass
        assert sorted(pairs.published) == sorted(ids), "published twice, or never"
        assert pairs.published.index(ids[0]) < pairs.published.index(ids[1]), "overtaken within its aggregate"
        assert await rows(pairs.free, "SELECT id FROM holdfast_outbox WHERE status <> 'published'") == []

    async def relay(kernel: Kernel, _: Any) -> int:
        return await relay_once(kernel)

    # The other statements only look, for where the next claim may begin.
    await pairs.in_every_order(seed, relay, relay, check, frozenset({"claim", "published", "commit"}))


@pytest.mark.spec("K12")
async def test_a_send_and_a_reconciliation(pairs: Pairs) -> None:
    """The job was swept while its worker was sending: the row ends marked with what the provider has."""

    async def seed() -> Claimed:
        return await pairs.leased(deadline_s=30)

    async def send(kernel: Kernel, job: Claimed) -> str:
        async def post(token: str) -> str:
            await at(kernel, "post")
            return await pairs.sent.send(token)

        return await perform(kernel, job, kernel.registry.provider("mail"), "mail/1", post, None, timeout_s=5)

    async def clear(kernel: Kernel, job: Claimed) -> int:
        await at(kernel, "cancel")
        await cancel(pairs.free, job.id, "ada")
        pairs.clocks[1].advance(1)
        return await reconcile_once(kernel)

    async def check(job: Claimed, sent: Any, _: Any) -> None:
        found = await rows(pairs.free, "SELECT status, provider_id, sends FROM holdfast_effects")
        assert len(pairs.sent.tokens) <= 1, "sent twice"
        if isinstance(sent, str):
            assert [(one["status"], one["provider_id"]) for one in found] == [("sent", "mail-1")]
        else:
            assert isinstance(sent, LeaseLost), sent
            assert pairs.sent.tokens == [] or found[0]["status"] == "sent", "an effect that the ledger does not know of"
        pairs.clocks[1].advance(-1)

    gates = frozenset({"begin_new", "post", "mark", "cancel", "in_doubt", "backfill", "unsent", "commit"})
    await pairs.in_every_order(seed, send, clear, check, gates, counts=(5, 4))


@pytest.mark.spec("K8")
async def test_two_replays_of_one_dead_letter(pairs: Pairs) -> None:
    async def seed() -> str:
        await submit(pairs.free, pairs.kind("plain"), 7, deadline_s=1)
        pairs.advance(2)
        await sweep_once(pairs.free)
        (case,) = await rows(pairs.free, "SELECT CAST(id AS TEXT) AS id FROM holdfast_dead_letters")
        await triage(pairs.free, case["id"], cause="data", actor="ada")
        await remediate(pairs.free, case["id"], evidence="mended", actor="ada")
        return str(case["id"])

    async def once_more(kernel: Kernel, case_id: str) -> Any:
        return await replay(kernel, case_id, actor="ada")

    async def check(_: str, left: Any, right: Any) -> None:
        assert sorted(isinstance(one, NotAllowed) for one in (left, right)) == [False, True], (left, right)
        row = await pairs.job()
        assert (row["state"], row["epoch"]) == ("queued", 1)
        assert [one["replays"] for one in await rows(pairs.free, "SELECT replays FROM holdfast_dead_letters")] == [1]

    await pairs.in_every_order(seed, once_more, once_more, check, frozenset({"lock", "revive", "commit"}))


@pytest.mark.spec("K14", "K15")
async def test_a_callback_in_time_and_a_sweep(pairs: Pairs) -> None:
    async def seed() -> None:
        await submit(pairs.free, pairs.kind("waits"), 1)
        await Worker(pairs.free).run_until_idle()
        pairs.clocks[1].advance(11)  # only the sweeper's clock says that nobody called back in time

    async def call(kernel: Kernel, _: Any) -> bool:
        return await called_back(kernel, "answer:1", "m1", '"yes"')

    async def sweep(kernel: Kernel, _: Any) -> int:
        return await sweep_once(kernel)

    async def check(_: Any, called: bool, swept: int) -> None:
        row = await pairs.job()
        inbox = len(await rows(pairs.free, "SELECT message_id FROM holdfast_inbox"))
        found = (called, row["state"], row["results"], row["letters"])
        assert found in ((True, "succeeded", 1, 0), (False, "dead", 0, 1)), found
        assert inbox == int(called), "a callback that had no effect must not make its next try a duplicate"
        pairs.clocks[1].advance(-11)

    gates = frozenset({"lock_waiting", "turn", "unanswered", "commit"})
    await pairs.in_every_order(seed, call, sweep, check, gates)
