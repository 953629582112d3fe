"""Rows that the clock, or a provider's answers, write again and again: nothing gets dearer by their own versions."""

from __future__ import annotations

import re
from statistics import median

import psycopg
import pytest

from holdfast import App, Breaker, Context, Job, Provider, stage
from holdfast.core.aggregates import BUSY, LOOK_MS
from holdfast.core.breaker import BreakerState, Gate
from holdfast.core.job import Claimed
from holdfast.core.outcome import Done
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.relay import relay_once
from holdfast.kernel.settle import Ending
from holdfast.kernel.submit import submit_many
from holdfast.kernel.turn import turn
from holdfast.operator.replays import replay_some
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.seam import Tx
from holdfast.tables import jobs, joins, keepers, leases, outbox, providers, replays, rollups, schedules, workers
from holdfast.tables.jobs import NIL
from holdfast.tables.replays import Group, NewReplay
from holdfast.tables.rollups import EVENTS, Position
from holdfast.tables.schedules import NewSchedule
from holdfast.testing import HandClock
from tests.horizon.explaining import ExplainingStore
from tests.horizon.statements import BEHIND_THEIR_OWN
from tests.horizon.test_flat import MORE, Anywhere, held_snapshot, vacuum

VERSIONS = 5_000
"""More than a day of a worker's signs, of a minutely schedule and of an outage's gate; seven hours of a keeper; as many
commits in which children of one parent end."""
ROUNDS = 15
A_FEW = 2
"""Buffers: a level more of the index, for a key that has a number."""
LEASE_MS, RENEW_S = 60_000, 20
RENEWALS = 2_000
"""Eleven hours of one job."""
VERSIONS_A_PAGE = 25
"""At least so many. The write that begins a page, and no other, checks the key against all pages before it."""
WRITE = """UPDATE {table} SET {change} WHERE ctid = (SELECT n.ctid FROM {table} AS n ORDER BY n.{key} DESC LIMIT 1);"""
AGAIN = [
    ("holdfast_keepers", "lease_until = i", "name"),
    ("holdfast_worker_signs", "seq = seq + 1, seen_at = i", "name DESC, n.seq"),
    ("holdfast_rollup_positions", "at = i", "name"),
    ("holdfast_schedules", "last_at = i", "name"),
    ("holdfast_joins", "unended = unended + 1", "id"),
    ("holdfast_replays", "next_at = i", "id"),
    ("holdfast_breakers", "not_before = i, gate = CASE i % 2 WHEN 0 THEN 'closed' ELSE 'open' END", "name"),
]
PROBE = """INSERT INTO holdfast_worker_signs VALUES ('readyz:here', i, 0, 0);
DELETE FROM holdfast_worker_signs WHERE name = 'readyz:here' AND seq = i;"""

PASTS = """
INSERT INTO holdfast_outbox (id, aggregate_id, destination, message_type, payload, created_at, available_at)
SELECT gen_random_uuid(), 'busy', 'there', 'told', '{{}}', 0, 0 FROM generate_series(1, {many});
UPDATE holdfast_outbox SET lease_token = 't', lease_until = 1 WHERE status = 'pending';
UPDATE holdfast_outbox SET lease_token = NULL, lease_until = NULL, status = 'published', processed_at = 1
 WHERE status = 'pending';
INSERT INTO holdfast_replay_letters (replay_id, letter_id, job_id, deaths)
SELECT (SELECT id FROM holdfast_replays), CAST(lpad(CAST(n AS TEXT), 32, '0') AS uuid), gen_random_uuid(), 1
  FROM generate_series(1, {many} + 1000) AS n;
UPDATE holdfast_replay_letters SET done_at = 1 WHERE letter_id < CAST(lpad('{many}', 32, '0') AS uuid)"""
"""Messages of one aggregate, and letters of one replay: each row is written a few times, and all lie under one key."""

app = App("again")
api = Provider("api", breaker=Breaker())


@app.job()
class Call(Job[int]):
    @stage(provider=api)
    async def ask(self, ctx: Context, number: int) -> None: ...


@pytest.mark.slow
@pytest.mark.spec("K21")
async def test_a_row_that_is_written_again_and_again_costs_no_more_behind_its_own_versions(postgres_url: str) -> None:
    clock = HandClock()
    store = ExplainingStore(postgres_url, clock=clock)
    kernel = Kernel(store, Registry([app]), Anywhere())
    await kernel.migrate()
    await begin(kernel)
    leave_pasts(postgres_url, A_FEW)
    vacuum(postgres_url)
    clean, _ = await measured(kernel, store, clock)
    with held_snapshot(postgres_url):
        write_again(postgres_url)
        leave_pasts(postgres_url, VERSIONS)
        kernel = Kernel(store, kernel.registry, kernel.transport)
        behind, most = await measured(kernel, store, clock)
        plain = walk(postgres_url)
    await store.close()

    assert BEHIND_THEIR_OWN - set(clean) == set(), "never run here"
    dearer = {name: (clean[name], behind[name]) for name in clean if behind[name] > MORE * clean[name] + A_FEW}
    assert dearer == {}
    del most["outbox.claim_from"]  # now and then it is the look from the bottom itself
    assert {name: cost for name, cost in most.items() if cost > clean[name] + VERSIONS / VERSIONS_A_PAGE} == {}
    assert plain > 10 * behind["keepers.look"], "there is nothing to walk over here"


@pytest.mark.slow
@pytest.mark.spec("K21")
async def test_a_lease_is_renewed_for_eleven_hours_at_the_same_cost(postgres_url: str) -> None:
    """Behind a snapshot as long: what a renewal looks at and what it writes, as a rule and at the most."""
    clock = HandClock()
    store = ExplainingStore(postgres_url, clock=clock)
    kernel = Kernel(store, Registry([app]))
    await kernel.migrate()
    await submit_many(kernel, Call, range(1))
    (leased,), _ = await turn(kernel, "w", ["again"], [], 1)
    with held_snapshot(postgres_url):
        for _ in range(RENEWALS):
            clock.advance(RENEW_S)
            async with PostgresStore.transaction(store) as tx:
                assert await leases.keep(tx, [leased.job], clock.now_ms(), LEASE_MS)
        store.forget()
        async with kernel.store.transaction() as tx:
            assert await leases.keep(tx, [leased.job], clock.now_ms(), LEASE_MS)
            await leases.renew(tx, {leased.job.id: leased.job.attempt}, clock.now_ms() + 7_200_000)
    await store.close()
    assert store.buffers["leases.held"] <= 8 and store.buffers["leases.renew"] <= 80, dict(store.buffers)


async def begin(kernel: Kernel) -> None:
    async with kernel.store.transaction() as tx:
        await keepers.take(tx, "again", "w", 1, 0)
        await workers.seen(tx, "w", "again", 0, kernel.now(), heeds=True)
        await providers.ensure(tx, "api", 0)
        await rollups.lock(tx, EVENTS)
        row = NewSchedule("s", "* * * * *", "again.call", "1", "UTC", 0, "allow", 1)
        await schedules.ensure(tx, row, kernel.now(), kernel.now())
        parent = Claimed._make([NIL, *[0] * (len(Claimed._fields) - 1)])._replace(stage="ask")
        await joins.begin(tx, "join", parent, "all", "again.call", "spawning", 0)
        replay = NewReplay(NIL, "again.call", "ask", "BAD", "olga", "code", "mended", None, False, 60.0)
        assert await replays.begin(tx, replay, Group("letters"), 1, 0) == 0
        assert await joins.grow(tx, "join", 0, VERSIONS, 0) and await joins.seal(tx, "join", VERSIONS, 0)


async def measured(kernel: Kernel, store: ExplainingStore, clock: HandClock) -> tuple[dict[str, float], dict[str, int]]:
    """What each statement costs as a rule, and at the most, once a process knows where the pasts end."""
    await tell(kernel, clock, BUSY + A_FEW)
    await replay_some(kernel)
    store.forget()
    await tell(kernel, clock, ROUNDS)
    for number in range(ROUNDS):
        clock.advance(60)
        async with kernel.store.transaction() as tx:
            await write(tx, clock.now_ms(), number)
        assert await replay_some(kernel) == 0 and len(store.costs["replays.mark"]) > number
    async with kernel.store.transaction() as tx:
        await look(tx, clock.now_ms())
    await submit_many(kernel, Call, range(5))
    taken, _ = await turn(kernel, "w", ["again"], [], 5)
    await turn(kernel, "w", ["again"], [Ending(leased.job, Done(None), None) for leased in taken], 5)
    costs = {name: store.costs[name] for name in BEHIND_THEIR_OWN & set(store.costs)}
    return {name: median(each) for name, each in costs.items()}, {name: max(each) for name, each in costs.items()}


async def tell(kernel: Kernel, clock: HandClock, many: int) -> None:
    """So many messages of the same aggregate, one after another."""
    for _ in range(many):
        clock.advance(LOOK_MS / 1_000)
        async with kernel.store.transaction() as tx:
            message = (kernel.new_uuid4(), "busy", "nowhere", "told", "{}", "{}")
            await outbox.put(tx, [message], kernel.now())
        assert await relay_once(kernel) == 1


async def write(tx: Tx, now: int, number: int) -> None:
    assert await keepers.take(tx, "again", "w", now, now)
    await workers.seen(tx, "w", "again", number, now, heeds=True)
    await workers.probe(tx, "readyz:here")
    await workers.hold(tx, "w", now + LEASE_MS)
    assert not await joins.count_down(tx, {"join": 1}, now)
    row = await providers.lock(tx, "api", now)
    gate = Gate.OPEN if number % 2 == 0 else Gate.CLOSED
    await providers.swap(tx, "api", row.state, BreakerState(gate, generation=row.state.generation + 1), now)
    await providers.set_not_before(tx, "api", now)
    position = await rollups.lock(tx, EVENTS)
    await rollups.move(tx, EVENTS, Position(position.seq, now))
    (first,) = await schedules.upcoming(tx, ["again.call"], [])
    due = await schedules.lock_due(tx, first.name, now)
    assert due is not None and await schedules.advance(tx, first.name, due.next_at, now + 60_000, now)


async def look(tx: Tx, now: int) -> None:
    await keepers.look(tx, "again")
    await workers.company(tx, "again", "{}", 0)
    await workers.read_every(tx)
    await providers.read(tx, "api")
    await providers.read_with_lease(tx, "api", jobs.NIL, 1)
    await providers.read_every(tx)
    await providers.names(tx)
    await providers.read_watched(tx, ["again"], {})
    await rollups.read_position(tx, EVENTS)
    assert await joins.ready(tx, 5, 0) == []
    assert not await joins.move(tx, "join", "left", "gone", now)
    assert not await joins.grow(tx, "join", 0, 1, now) and not await joins.seal(tx, "join", 0, now)
    await schedules.read_every(tx)


def write_again(url: str) -> None:
    texts = [WRITE.format(table=table, change=change, key=key) for table, change, key in AGAIN]
    body = re.sub(r"\s+", " ", " ".join([*texts, PROBE]))
    loop = f"DO $$ BEGIN SET LOCAL enable_seqscan = off; FOR i IN 1..{VERSIONS} LOOP {body} END LOOP; END $$"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(loop.encode())


def leave_pasts(url: str, many: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE holdfast_replay_letters")
        for text in PASTS.format(many=many).split(";\n"):
            connection.execute(text.encode())
        connection.execute("ANALYZE")


def walk(url: str) -> int:
    """What it costs to find the keeper's row by its key, from the other end."""
    with psycopg.connect(url) as connection:
        connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
        text = b"EXPLAIN (ANALYZE, BUFFERS) SELECT owner FROM holdfast_keepers WHERE name = 'again'"
        lines = "\n".join(str(row[0]) for row in connection.execute(text))
    return sum(int(number) for number in re.findall(r"shared hit=(\d+)", lines)[:1])
