"""An end is decided by a breaker that was read before the write; one that has moved since is asked again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import pytest

from holdfast import Provider, Retry
from holdfast.kernel.attempt import run_attempt
from holdfast.kernel.hold import force
from holdfast.kernel.turn import turn
from holdfast.stores.seam import Store
from tests.kernel.places import Deploy
from tests.kernel.test_budget import asking, down, outside


class Moving:
    """The world's store, before whose next transaction something happens."""

    def __init__(self, store: Any, move: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._moves = [move]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        if self._moves:
            await self._moves.pop()()
        async with self._store.transaction() as tx:
            yield tx


@pytest.mark.spec("K4", "K9")
async def test_a_breaker_that_opens_before_a_burial_is_written_costs_nothing(deploy: Deploy) -> None:
    """A worker may be paused between its look at the breaker and its write."""
    provider = Provider("llm")
    app, Ask = asking(provider, Retry(attempts=1))
    outside.answers = [down()]
    world = await deploy(app)
    kernel = world.kernel
    job_id = await world.enqueue(Ask, 1)
    (taken,), _ = await turn(kernel, "w", kernel.registry.queues, (), 1)
    ending = await run_attempt(kernel, taken)
    assert ending is not None
    opening = partial(force, kernel, "llm", open=True, actor="ann", reason="down")
    kernel.store = cast(Store, Moving(kernel.store, opening))
    await turn(kernel, "w", kernel.registry.queues, [ending], 0)
    assert await world.state(job_id) == "queued", "what opened the breaker is free, whenever that is noticed"
