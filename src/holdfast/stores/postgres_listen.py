"""Turns PostgreSQL's notifications into rings: one connection a process and database. Beside it, now and then, the
clock is compared and sessions of ours that stand still are ended.

Where no session can be kept, behind a pooler that lends them by the transaction and with no direct address, nothing is
heard: whoever waits polls. `is_heard` says which it is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from holdfast.errors import StoreError
from holdfast.stores.listeners import TICKET, Listeners
from holdfast.stores.postgres_session import APPLICATION, CONNECT_TIMEOUT_S, LIMIT_IDLE

LISTEN_CHANNEL = "holdfast"
CLOCK_EVERY_S = 30.0
RECONNECT_S = 1.0
# PostgreSQL does not call a session idle while a statement is only half prepared, and the driver prepares in two
# messages: so every process also looks for sessions of ours that have waited for their client for longer than that.
LOOK_AFTER = f"""WITH allowed AS (
  SELECT CASE current_setting('idle_in_transaction_session_timeout') WHEN '0' THEN interval '30s'
         ELSE CAST(current_setting('idle_in_transaction_session_timeout') AS interval) END AS t),
stuck AS (
  SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity AS a, allowed
   WHERE a.datname = current_database() AND a.usename = current_user AND a.application_name = '{APPLICATION}'
     AND a.wait_event = 'ClientRead' AND a.state = 'active' AND a.state_change < clock_timestamp() - allowed.t)
SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) AS now,
       CAST(EXTRACT(EPOCH FROM t) AS FLOAT) AS limit_s, (SELECT COUNT(*) FROM stuck) AS ended FROM allowed"""
CONNECTION_LOST = (OSError, TimeoutError, StoreError, asyncpg.PostgresError, asyncpg.InterfaceError)

LookAfter = Callable[[Any], Awaitable[float]]
"""Runs `LOOK_AFTER` on a connection; returns after how many seconds it is due again."""


class NotificationReader:
    """Listens at a URL; without one, only looks after the sessions, on a connection that `borrow` gives."""

    def __init__(self, listeners: Listeners, look_after: LookAfter) -> None:
        self._listeners = listeners
        self._look_after = look_after
        self.is_heard = False

    async def listen(self, url: str) -> None:
        """For ever. After a lost connection every listener is woken once."""
        while True:
            connection, lost = None, asyncio.Event()
            try:
                connection = await asyncpg.connect(
                    url,
                    timeout=CONNECT_TIMEOUT_S,
                    command_timeout=CONNECT_TIMEOUT_S,
                    server_settings={"application_name": f"{APPLICATION} listen"},
                )
                await connection.add_listener(LISTEN_CHANNEL, self._on_notify)
                connection.add_termination_listener(lambda _, ended=lost: ended.set())
                await connection.execute(LIMIT_IDLE.format(local="false"))
                self.is_heard = True
                self._listeners.wake_all()
                while not connection.is_closed():
                    wait_s = await self._look_after(connection)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(lost.wait(), wait_s)
            except CONNECTION_LOST:
                self.is_heard = False
                await asyncio.sleep(RECONNECT_S)
            finally:
                self.is_heard = False
                if connection is not None:
                    connection.terminate()

    async def poll(self, borrow: Callable[[], contextlib.AbstractAsyncContextManager[Any]]) -> None:
        """For ever, hearing nothing."""
        while True:
            wait_s = RECONNECT_S
            with contextlib.suppress(*CONNECTION_LOST):
                async with borrow() as connection:
                    wait_s = await self._look_after(connection)
            await asyncio.sleep(wait_s)

    def _on_notify(self, connection: Any, pid: int, channel: str, payload: object) -> None:
        name, _, ticket = str(payload).partition(TICKET)
        self._listeners.wake(name, ticket)
