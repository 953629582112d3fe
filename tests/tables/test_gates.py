"""A provider's row keeps the longest wait that anybody was asked for."""

from __future__ import annotations

import pytest

from holdfast.tables import providers
from tests.kernel.places import AnyStore


@pytest.mark.spec("K4", "K9")
async def test_a_later_answer_never_shortens_a_gate(store: AnyStore) -> None:
    """Two processes are told different times, one after the other: none of them knows what the other was told."""
    for until, kept in ((1_000, 1_000), (400, 1_000), (1_000, 1_000), (1_001, 1_001)):
        async with store.transaction() as tx:
            await providers.lock(tx, "llm", 1)
            await providers.set_not_before(tx, "llm", until)
        async with store.reading() as tx:
            assert (await providers.read(tx, "llm")).not_before == kept
