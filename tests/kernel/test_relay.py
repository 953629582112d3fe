"""The outbox and its relay: in order within an aggregate, marked after the confirm, in spite of bad rows."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from holdfast import App
from holdfast.errors import NotHandled, TransportDown, Unroutable
from holdfast.kernel.kernel import Kernel, Tuning
from holdfast.kernel.loop import repeat
from holdfast.kernel.relay import relay, relay_once
from holdfast.stores.statement import _statement
from holdfast.tables import ops, outbox
from holdfast.testing import HandClock
from holdfast.transports.seam import Message
from tests.kernel.brokers import Broker, Heard
from tests.kernel.places import Place, close_all, rows

app = App("relay")


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def kernel(place: Place, clock: HandClock, broker: Broker) -> Kernel:
    return place.kernel(app, clock=clock, transport=broker, watch=Heard(), tuning=Tuning(relay_retries_max=3))


async def put(kernel: Kernel, *names: str, aggregate: str | None = None) -> None:
    async with kernel.store.transaction() as tx:
        messages = [
            (kernel.new_uuid4(), aggregate or name, "x/y", "t", json.dumps({"n": name}), '{"h":"1"}') for name in names
        ]
        await outbox.put(tx, messages, kernel.now())


async def statuses(kernel: Kernel) -> dict[str, tuple[str, int]]:
    found = await rows(kernel.store, "SELECT payload, status, retry_count FROM holdfast_outbox ORDER BY seq")
    return {json.loads(row["payload"])["n"]: (row["status"], row["retry_count"]) for row in found}


@pytest.mark.spec("K10", "K21")
async def test_what_came_in_below_the_floor_goes_out_whole_once_it_is_seen(
    kernel: Kernel, broker: Broker, place: Place, clock: HandClock
) -> None:
    """A transaction that took its time brings more than a batch of old messages."""
    await put(kernel, "first")
    while await relay_once(kernel):
        pass
    late = [f"late{n}" for n in range(3 * kernel.tuning.relay_batch)]
    async with kernel.store.transaction() as tx:
        rows_of_late = [(kernel.new_uuid4(), name, "x/y", "t", json.dumps({"n": name}), "{}") for name in late]
        await outbox.put(tx, rows_of_late, kernel.now() - 60_000)
    clock.advance(2)
    await relay(kernel)
    assert sorted(broker.names) == sorted(["first", *late])
    await close_all(place)


@pytest.mark.spec("K10", "000.7")
async def test_messages_of_an_aggregate_go_out_in_order_of_creation(
    kernel: Kernel, broker: Broker, place: Place
) -> None:
    await put(kernel, "a1", "a2", "a3", aggregate="a")
    await put(kernel, "b1", "b2", aggregate="b")
    while await relay_once(kernel):
        pass
    assert [n for n in broker.names if n < "b"] == ["a1", "a2", "a3"]
    assert [n for n in broker.names if n > "b"] == ["b1", "b2"]
    assert set((await statuses(kernel)).values()) == {("published", 0)}
    (first, *_) = broker.taken
    assert (first.correlation_id, first.type, dict(first.headers)) == ("a", "t", {"h": "1"})
    await close_all(place)


@pytest.mark.spec("K10", "000.4")
async def test_a_batch_is_bounded(kernel: Kernel, broker: Broker, place: Place) -> None:
    await put(kernel, *[f"{n:03}" for n in range(120)])
    assert [await relay_once(kernel) for _ in range(4)] == [50, 50, 20, 0]
    assert sorted(broker.names[:50]) == [f"{n:03}" for n in range(50)], "the oldest go first"
    assert sorted(broker.names[50:100]) == [f"{n:03}" for n in range(50, 100)]
    await close_all(place)


@pytest.mark.spec("K10")
async def test_a_backlog_goes_out_in_several_batches_at_once(kernel: Kernel, broker: Broker, place: Place) -> None:
    for n in range(6):
        await put(kernel, *[f"{a:02}{n}" for a in range(60)])
    for n in range(6):
        await put(kernel, f"z{n}", aggregate="z")
    while await relay(kernel):
        pass
    assert sorted(broker.names) == sorted(
        [f"{a:02}{n}" for n in range(6) for a in range(60)] + [f"z{n}" for n in range(6)]
    )
    mine = [name for name in broker.names if name[0] == "z"]
    assert mine == sorted(mine), "in order although several batches were under way"
    assert set((await statuses(kernel)).values()) == {("published", 0)}
    await close_all(place)


@pytest.mark.spec("K10")
async def test_the_next_of_an_aggregate_follows_without_a_bell(kernel: Kernel, broker: Broker, place: Place) -> None:
    await put(kernel, "a1", "a2", "a3", aggregate="a")
    assert await relay(kernel) == 3 and broker.names == ["a1", "a2", "a3"], "whoever marks looks once more"
    await close_all(place)


@pytest.mark.spec("K10")
@pytest.mark.parametrize("statement", ["published", "release"])
async def test_ending_a_batch_reads_its_rows_and_not_the_backlog(kernel: Kernel, place: Place, statement: str) -> None:
    await put(kernel, *[f"{n}" for n in range(2_000)])
    explain = "EXPLAIN " if place.dialect == "postgres" else "EXPLAIN QUERY PLAN "
    asked = getattr(outbox.sql, statement)
    asked = replace(asked, sqlite=explain + asked.sqlite, postgres=explain + asked.postgres)
    named = {"now": kernel.now(), "error": "", "token": "t", "batch": json.dumps({str(n): 0 for n in range(50)})}
    async with kernel.store.transaction() as tx:
        plan = "\n".join(str(tuple(row)) for row in await tx.rows(asked, **{name: named[name] for name in asked.order}))
    assert "holdfast_outbox_next" not in plan and "holdfast_outbox_order" not in plan
    assert "holdfast_outbox_pkey" in plan or "USING INTEGER PRIMARY KEY" in plan
    await close_all(place)


@pytest.mark.spec("K10")
async def test_a_broker_that_goes_down_ends_every_batch_under_way(kernel: Kernel, broker: Broker, place: Place) -> None:
    await put(kernel, *[f"{n:03}" for n in range(300)])
    taking = broker.publish

    async def publish(message: Message) -> None:
        broker.down = len(broker.taken) >= 120
        await taking(message)

    broker.publish = publish  # type: ignore[method-assign]
    with pytest.raises(TransportDown):
        await relay(kernel)
    pending = [name for name, (status, _) in (await statuses(kernel)).items() if status == "pending"]
    assert len(pending) + len(set(broker.names)) == 300
    leases = await rows(kernel.store, "SELECT seq FROM holdfast_outbox WHERE lease_token IS NOT NULL")
    assert list(leases) == [], "nothing is left leased for the next try to wait for"
    await close_all(place)


@pytest.mark.spec("K10")
async def test_two_relays_at_once_publish_each_row_once(kernel: Kernel, broker: Broker, place: Place) -> None:
    other = replace(kernel, store=place.open(kernel.store._clock))  # type: ignore[attr-defined]
    for aggregate in "abcdef":
        await put(kernel, *[f"{aggregate}{n}" for n in range(6)], aggregate=aggregate)

    async def drain(which: Kernel) -> None:
        idle = 0
        while idle < 20:
            idle = 0 if await relay_once(which) else idle + 1
            await asyncio.sleep(0)

    await asyncio.gather(drain(kernel), drain(other))
    assert sorted(broker.names) == sorted(f"{a}{n}" for a in "abcdef" for n in range(6))
    for aggregate in "abcdef":
        mine = [name for name in broker.names if name[0] == aggregate]
        assert mine == sorted(mine), "in order although two relays took turns"
    await close_all(place)


@pytest.mark.spec("K10", "000.8")
async def test_a_bad_row_backs_off_alone_and_is_set_aside_at_last(
    kernel: Kernel, broker: Broker, place: Place, clock: HandClock
) -> None:
    broker.refuses["bad"] = Unroutable("no queue for token=abcdefabcdef0123456789")
    await put(kernel, "good", "bad", "fine")
    assert await relay_once(kernel) == 2
    assert await statuses(kernel) == {"good": ("published", 0), "bad": ("pending", 1), "fine": ("published", 0)}
    assert await relay_once(kernel) == 0 and broker.tried.count("bad") == 1, "it waits for its own time"
    for retry in (2, 3):
        clock.advance(10)
        await put(kernel, f"more{retry}")
        assert await relay_once(kernel) == 1
        assert (await statuses(kernel))["bad"][1] == retry
    assert (await statuses(kernel))["bad"] == ("failed", 3)
    clock.advance(3_600)
    assert await relay_once(kernel) == 0 and broker.tried.count("bad") == 3
    (row,) = await rows(kernel.store, "SELECT error_message FROM holdfast_outbox WHERE status = 'failed'")
    assert "no queue" in row["error_message"] and "abcdefabcdef" not in row["error_message"]
    assert isinstance(kernel.watch, Heard) and kernel.watch.counts["outbox_set_aside"] == 1
    await close_all(place)


@pytest.mark.spec("K10")
@pytest.mark.parametrize(("tried", "wait_s"), [(0, 1), (1, 2), (3, 8), (5, 32), (6, 60), (40, 60)])
async def test_a_row_waits_twice_as_long_each_time_and_a_minute_and_a_half_at_most(
    kernel: Kernel, broker: Broker, place: Place, tried: int, wait_s: int
) -> None:
    broker.refuses["bad"] = NotHandled("the consumer failed")
    await put(kernel, "bad")
    async with kernel.store.transaction() as tx:
        await tx.rows(_statement("tried", {None: f"UPDATE holdfast_outbox SET retry_count = {tried}"}))
    assert await relay_once(kernel) == 0
    (row,) = await rows(kernel.store, "SELECT available_at FROM holdfast_outbox")
    assert wait_s <= (row["available_at"] - kernel.now()) / 1_000 <= 1.5 * wait_s
    await close_all(place)


@pytest.mark.spec("K10")
async def test_a_row_that_was_set_aside_no_longer_holds_its_aggregate(
    kernel: Kernel, broker: Broker, place: Place, clock: HandClock
) -> None:
    broker.refuses["a1"] = Unroutable("no")
    await put(kernel, "a1", "a2", aggregate="a")
    for _ in range(3):
        assert await relay_once(kernel) == 0
        assert broker.names == [], "order is kept while there is hope"
        clock.advance(60)
    assert await relay_once(kernel) == 1 and broker.names == ["a2"]
    broker.refuses.clear()
    async with kernel.store.transaction() as tx:
        (aside,) = await ops.outbox_page(tx, before=None, limit=9, status="failed")
        assert await outbox.requeue(tx, aside.id, kernel.now())
    assert await relay_once(kernel) == 1 and broker.names == ["a2", "a1"]
    await close_all(place)


@pytest.mark.spec("K10")
async def test_a_broker_that_is_down_is_no_rows_fault(
    kernel: Kernel, broker: Broker, place: Place, clock: HandClock
) -> None:
    await put(kernel, "one", "two")
    broker.down = True
    for _ in range(12):
        with pytest.raises(TransportDown):
            await relay_once(kernel)
        clock.advance(30)
    assert await statuses(kernel) == {"one": ("pending", 0), "two": ("pending", 0)}
    found = await rows(kernel.store, "SELECT error_message, lease_token FROM holdfast_outbox")
    assert all(row["lease_token"] is None and "s3cret" not in row["error_message"] for row in found)
    broker.down = False
    assert await relay_once(kernel) == 2 and sorted(broker.names) == ["one", "two"]
    await close_all(place)


@pytest.mark.spec("K10", "K11")
async def test_a_message_whose_consumer_fails_is_offered_until_it_is_taken_and_holds_up_no_other(
    kernel: Kernel, broker: Broker, place: Place, clock: HandClock
) -> None:
    await put(kernel, "bad", "good")
    broker.refuses["bad"] = NotHandled("the consumer failed")
    assert await relay_once(kernel) == 1 and broker.names == ["good"]
    for _ in range(6):  # twice as often as a bad row would be tried
        clock.advance(120)
        assert await relay_once(kernel) == 0
    assert (await statuses(kernel))["bad"] == ("pending", 7)
    broker.refuses.clear()
    clock.advance(120)
    assert await relay_once(kernel) == 1 and broker.names == ["good", "bad"]
    await close_all(place)


@pytest.mark.spec("K10")
async def test_rows_that_wait_too_long_are_warned_about(kernel: Kernel, place: Place, clock: HandClock) -> None:
    watch = kernel.watch
    assert isinstance(watch, Heard)
    await put(kernel, "fresh")
    await relay_once(kernel)
    assert "outbox.stale" not in watch.lines
    await put(kernel, "old")
    clock.advance(61)
    await relay_once(kernel)
    assert "outbox.stale" in watch.lines and watch.counts["outbox_stale"] == 1
    await close_all(place)


@pytest.mark.spec("K10", "000.9")
async def test_a_broker_that_swallows_everything_does_not_swallow_the_warning(
    kernel: Kernel, broker: Broker, place: Place, clock: HandClock
) -> None:
    await put(kernel, "old")
    clock.advance(61)
    async with broker.held():
        relaying = asyncio.create_task(relay_once(kernel))
        await asyncio.wait_for(broker.asked.wait(), 30)
        assert isinstance(kernel.watch, Heard) and kernel.watch.counts["outbox_stale"] == 1
    await relaying
    await close_all(place)


@pytest.mark.spec("K10", "000.5")
@pytest.mark.parametrize(
    "failpoint, times", [("relay.after_claim", 1), ("relay.after_publish", 2), ("relay.after_mark", 1)]
)
async def test_a_relay_that_dies_repeats_at_most_what_it_had_not_marked(
    kernel: Kernel, broker: Broker, place: Place, clock: HandClock, failpoint: str, times: int
) -> None:
    class Died(Exception): ...

    async def die(name: str) -> None:
        if name == failpoint:
            raise Died

    await put(kernel, "one")
    kernel.failpoint = die
    with pytest.raises(Died):
        await relay_once(kernel)
    kernel = replace(kernel, failpoint=_nowhere)
    assert await relay_once(kernel) == 0, "its lease still holds"
    clock.advance(31)
    await relay_once(kernel)
    assert broker.names == ["one"] * times and (await statuses(kernel))["one"][0] == "published"
    assert len({message.id for message in broker.taken}) == 1, "under the same id, for consumers to see"
    await close_all(place)


async def _nowhere(name: str) -> None: ...


@pytest.mark.spec("K10")
async def test_a_commit_wakes_the_relay_at_once(kernel: Kernel, broker: Broker, place: Place) -> None:
    stop = asyncio.Event()
    running = asyncio.create_task(repeat(kernel, "relay", relay_once, 600, stop, "outbox"))
    for name in ("one", "two"):
        async with kernel.store.transaction() as tx:
            message = (kernel.new_uuid4(), name, "x/y", "t", json.dumps({"n": name}), "{}")
            await outbox.put(tx, [message], kernel.now())
            await tx.notify("outbox")
        async with asyncio.timeout(5):
            assert await broker.arrived.get() == name
    stop.set()
    await running
    await close_all(place)
