"""A provider's row keeps the longest wait that anybody was asked for; what is counted of its calls lies apart."""

from __future__ import annotations

import pytest

from holdfast.core import breaker
from holdfast.core.breaker import BreakerState
from holdfast.core.rate import Usage
from holdfast.tables import batch, providers
from holdfast.tables.providers import ProviderRow
from tests.kernel.places import AnyStore, rows


@pytest.mark.spec("K4", "K9")
async def test_a_later_answer_never_shortens_a_gate(store: AnyStore) -> None:
    """Two processes are told different times, one after the other: none of them knows what the other was told."""
    for until, kept in ((1_000, 1_000), (400, 1_000), (1_000, 1_000), (1_001, 1_001)):
        async with store.transaction() as tx:
            await providers.lock(tx, "llm", 1)
            await providers.set_not_before(tx, "llm", until)
        async with store.reading() as tx:
            assert (await providers.read(tx, "llm")).not_before == kept


@pytest.mark.spec("K13", "K22")
async def test_what_is_counted_lies_apart_and_ends_with_the_gates_next_move(store: AnyStore) -> None:
    """The provider's row, which every turn looks up, is not written by a call; whoever moves the gate, code of before
    included, which knows that row only, ends what was counted."""
    counted = BreakerState(window="101")
    async with store.transaction() as tx:
        row = await providers.lock(tx, "llm", 1)
        await providers.swap(tx, "llm", row.state, counted, 2)
        await providers.spend(tx, "llm", Usage(((2, 1),), 4.0, 2))
        await providers.set_places(tx, "llm", {"t": 9})
        await providers.set_ramp(tx, "llm", 8, 2)
        locked = await providers.lock(tx, "llm", 3)
    (plain,) = await rows(store, "SELECT state, recent, places, ramp, updated_at FROM holdfast_breakers")
    assert locked == ProviderRow(counted, None, Usage(((2, 1),), 4.0, 2), {"t": 9}, 8, 2)
    assert tuple(plain.values()) == ("{}", "[]", "{}", 0, 1), "a call has written the row that every turn looks up"
    moved = batch.text(breaker.to_row(BreakerState(generation=2, window="")))
    async with store.transaction() as tx:
        await tx.rows(providers.sql.swap, name="llm", gate="closed", state=moved, now=4)  # opened, and closed again
        after = await providers.read(tx, "llm")
        (shown,) = await providers.read_every(tx)
    assert after.state == providers.state_of(shown) == BreakerState(generation=2)
    assert dict(after.places) == {"t": 9}, "the calls under way are the same"
