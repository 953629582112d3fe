"""A forgotten `await` loses no job in silence."""

from __future__ import annotations

import asyncio
import gc
import logging
import warnings
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from holdfast import enqueue, enqueue_many
from holdfast.errors import BadDeclaration
from holdfast.testing import world
from tests.door.shipping import Order, Ship, app, async_engine, now
from tests.kernel.places import Place

pytestmark = pytest.mark.spec("K1")


@pytest.fixture
async def session(place: Place) -> AsyncIterator[AsyncSession]:
    engine = async_engine(place)
    async with AsyncSession(engine) as opened, opened.begin():
        yield opened
    await engine.dispose()


@pytest.mark.parametrize("ask", [now(), lambda session: enqueue_many(session, Ship, [Order(1)])])
async def test_a_forgotten_await_is_a_warning_and_an_error_line(
    session: AsyncSession, ask: Callable[[Any], Any], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.warns(RuntimeWarning, match=r"The enqueue\w* of 'door\.ship' was never awaited: nothing is enqueued"):
        ask(session)
        gc.collect()
    assert [(record.levelno, record.name) for record in caplog.records] == [(logging.ERROR, "holdfast")]


async def test_one_that_is_awaited_in_any_way_gives_no_warning(session: AsyncSession) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert await enqueue(session, Ship, Order(1))
        assert await asyncio.create_task(enqueue(session, Ship, Order(2)))
        assert await asyncio.wait_for(enqueue_many(session, Ship, [Order(3)]), 10)
        cancelled = asyncio.create_task(enqueue(session, Ship, Order(4)))
        cancelled.cancel()
        await asyncio.wait([cancelled])
        gc.collect()


async def test_in_a_world_a_forgotten_await_fails_the_test_at_once(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"'door\.ship' was never awaited: nothing is enqueued"):
        async with world(app) as w:
            async with aiosqlite.connect(tmp_path / "any.db") as connection:
                enqueue(connection, Ship, Order(1))
            await w.tick()
            raise BadDeclaration("the tick goes on")


async def test_in_a_world_any_coroutine_that_is_forgotten_fails_the_test() -> None:
    async def notify() -> None: ...

    with pytest.raises(AssertionError, match=r"'.*notify' was never awaited"):
        async with world(app):
            notify()  # type: ignore[unused-coroutine]
