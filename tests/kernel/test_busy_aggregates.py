"""Messages that a relay meets again and again: in order, whatever is committed late or is sent again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from holdfast import App
from holdfast.core.aggregates import BUSY, LOOK_MS
from holdfast.errors import StoreUnavailable, TransportDown, Unroutable
from holdfast.kernel.kernel import Kernel, Tuning
from holdfast.kernel.relay import relay_once
from holdfast.stores.seam import Tx
from holdfast.tables import ops, outbox
from holdfast.testing import HandClock
from tests.kernel.brokers import Broker, Heard
from tests.kernel.places import Place, close_all, rows
from tests.proof.mutants_floors import set_aside_for_good, writers_are_not_asked

pytestmark = pytest.mark.spec("K10", "K21")
app = App("busy")
Planted = Callable[[], AbstractContextManager[None]]


async def put(tx: Tx, kernel: Kernel, *names: str) -> None:
    """Whatever their aggregate is called: it is a text of the caller's."""
    messages = [(kernel.new_uuid4(), 'a "$.', "x/y", "t", f'{{"n": "{name}"}}', "{}") for name in names]
    await outbox.put(tx, messages, kernel.now())


async def publish(kernel: Kernel, clock: HandClock, *names: str) -> None:
    for name in names:
        async with kernel.store.transaction() as tx:
            await put(tx, kernel, name)
        clock.advance(LOOK_MS / 1_000)
        await relay_once(kernel)


async def seq_of(kernel: Kernel, name: str) -> int:
    text = f"SELECT seq FROM holdfast_outbox WHERE payload LIKE '%\"{name}\"%'"
    return int((await rows(kernel.store, text))[0]["seq"])


@pytest.mark.parametrize("place", ["postgres"], indirect=True)  # SQLite's writers are alone: nothing is committed late
@pytest.mark.parametrize(
    "planted, is_kept", [(nullcontext, True), (writers_are_not_asked, False)], ids=["intact", "writers are not asked"]
)
async def test_a_message_that_is_committed_late_goes_before_those_after_it(
    place: Place, clock: HandClock, planted: Planted, is_kept: bool
) -> None:
    with planted():
        assert await late_and_after(place, clock) is is_kept


async def late_and_after(place: Place, clock: HandClock) -> bool:
    """Whether a message that is committed late goes out before one that is written after it."""
    broker = Broker()
    kernel, caller = place.kernel(app, clock=clock, transport=broker), place.open(clock)
    await publish(kernel, clock, *[f"early {number}" for number in range(BUSY + 3)])
    (begun,) = kernel.aggregates.begins.values()
    assert await seq_of(kernel, "early 0") < begun, "a claim begins behind what is published"
    async with caller.transaction() as tx:
        await put(tx, kernel, "late")
        await publish(kernel, clock, *[f"meanwhile {number}" for number in range(5)])
    async with caller.transaction() as tx:
        await put(tx, kernel, "after")
    del broker.taken[:]
    await relay_once(kernel)  # what is late lies below the floor, and is waited for
    clock.advance(1)
    for _ in range(2):
        await relay_once(kernel)
    assert sorted(broker.names) == ["after", "late"]
    await publish(kernel, clock, *[f"then {number}" for number in range(4)])
    assert kernel.aggregates.begins['a "$.'] > await seq_of(kernel, "after")
    await close_all(place)
    return broker.names[0] == "late"


@pytest.mark.parametrize(
    "planted, is_kept", [(nullcontext, True), (set_aside_for_good, False)], ids=["intact", "set aside for good"]
)
async def test_a_message_that_was_set_aside_is_not_passed_over_when_it_is_sent_again(
    place: Place, clock: HandClock, planted: Planted, is_kept: bool
) -> None:
    with planted():
        assert await sent_again_and_after(place, clock) is (is_kept or place.dialect == "sqlite")


async def sent_again_and_after(place: Place, clock: HandClock) -> bool:
    """Whether a message that is sent again holds up one that is written after that."""
    broker = Broker()
    kernel = place.kernel(app, clock=clock, transport=broker, tuning=Tuning(relay_retries_max=1))
    broker.refuses["bad"] = Unroutable("no queue")
    await publish(kernel, clock, *[f"early {number}" for number in range(BUSY)], "bad")
    await publish(kernel, clock, *[f"later {number}" for number in range(BUSY)])
    assert broker.names[-1] == f"later {BUSY - 1}", "it holds nobody up"
    broker.refuses.clear()
    async with kernel.store.transaction() as tx:
        (aside,) = await ops.outbox_page(tx, before=None, limit=9, status="failed")
        assert await outbox.requeue(tx, aside.id, kernel.now())
        await put(tx, kernel, "after")
    at_first = await relay_once(kernel)
    await relay_once(kernel)
    assert sorted(broker.names[-2:]) == ["after", "bad"]
    await close_all(place)
    return at_first == 1


async def test_a_relay_that_lost_the_database_looks_at_the_whole_past_again(
    place: Place, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that failed over may have lost what was committed."""

    async def unavailable(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("away")

    kernel = place.kernel(app, clock=clock, transport=Broker())
    await publish(kernel, clock, *[str(number) for number in range(BUSY + 3)])
    assert bool(kernel.aggregates.begins) is (place.dialect == "postgres"), "elsewhere nothing dead is in the way"
    with monkeypatch.context() as patch:
        patch.setattr(outbox, "published", unavailable)
        with pytest.raises(StoreUnavailable):
            await publish(kernel, clock, "lost")
    assert not kernel.aggregates.begins
    await close_all(place)


async def test_a_broker_that_stays_away_is_asked_before_any_message_is_leased(
    place: Place, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hours of tries leave no version of the same rows behind, and what is stale is warned of all the same."""

    async def declare(queues: object) -> None:
        if broker.down:
            raise TransportDown("away")

    broker = Broker()
    monkeypatch.setattr(broker, "declare", declare)
    kernel, watch = place.kernel(app, clock=clock, transport=broker), Heard()
    kernel.watch = watch
    async with kernel.store.transaction() as tx:
        await put(tx, kernel, "one")
    broker.down = True
    for _ in range(4):
        with pytest.raises(TransportDown):
            await relay_once(kernel)
        clock.advance(30)
    assert broker.tried == ["one"]
    assert watch.counts["outbox_stale"] == 1, "it is over its minute at the last try"
    broker.down = False
    assert [await relay_once(kernel), await relay_once(kernel)] == [1, 0] and broker.names == ["one"]
    await close_all(place)
