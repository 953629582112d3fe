"""How sessions with PostgreSQL are made: directly, or through a pooler that lends one for a transaction at a time.

    direct, or a pooler's session     settings once a session, named statements, LISTEN
    a pooler's transaction            settings with every BEGIN, no named statements, no LISTEN

No startup parameter is sent but those that every pooler knows: what a session needs is set in it. Who lends sessions
for a transaction is noticed: the process that answers is not the one that was connected to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import asyncpg

from holdfast.stores.connecting import Connecting, Pooler, split_settings

CONNECT_TIMEOUT_S = 10.0
APPLICATION = "holdfast"

# Estimates for arrays and JSON are guesses; these keep claims and settles on their indexes at every table size.
PLANNER = ("enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "enable_seqscan", "jit")
# A stricter level that the database or the role was given would refuse concurrent claims, and a migration would wait
# for its own snapshot.
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_ISOLATION = ("default_transaction_isolation", "read committed")
_NEEDED = [*((name, "off") for name in PLANNER), _ISOLATION]
_IS_SET = " AND ".join(f"current_setting('{name}') = '{value}'" for name, value in _NEEDED)
# A process that stands still, or whose machine is gone, must not keep the rows it has locked: PostgreSQL ends its
# session. What the database or the role was given as the limit stands.
LIMIT_IDLE = """SELECT set_config('idle_in_transaction_session_timeout', '30s', {local})
 WHERE current_setting('idle_in_transaction_session_timeout') = '0'"""
_LOOK = f"SELECT pg_backend_pid() AS pid, ({_IS_SET}) AS is_planned"


class Plans(StrEnum):
    """How often a session plans a statement: once, whatever its parameters, or as PostgreSQL sees fit, which is each
    time for a list whose filters may be absent, and for whatever has an array or a batch of unknown length."""

    ONCE = "force_generic_plan"
    EACH_TIME = "auto"


@dataclass(frozen=True, slots=True)
class Sessions:
    """What was found out about the sessions behind a URL."""

    is_lent: bool = False
    """For a transaction at a time: the next one may be another session."""
    is_planned: bool = False
    """The role or the database has the settings already."""
    prepares: bool = True
    own: tuple[tuple[str, str], ...] = ()
    """Settings that the URL asks for, such as the search path."""
    _planning_once: set[int] = field(default_factory=set)
    """The server's processes whose sessions plan a statement once at present."""

    def begin(self, connection: Any) -> str:
        """How a transaction begins on this connection, in one message; what stands in it is planned each time."""
        if self.is_lent:
            return "; ".join([BEGIN, *self._settings("true")])
        return f"BEGIN; SET LOCAL plan_cache_mode = {Plans.EACH_TIME}" if self.plans_once(connection) else "BEGIN"

    @property
    def needs_begin(self) -> bool:
        """Whether a single statement must have a transaction around it, to be planned as it should."""
        return self.is_lent and bool(self.own or not self.is_planned)

    def _settings(self, local: str) -> list[str]:
        needed = [] if self.is_planned else _NEEDED
        return [*set_all([*needed, *self.own], local), LIMIT_IDLE.format(local=local)]

    def arguments(self) -> dict[str, Any]:
        return {
            "timeout": CONNECT_TIMEOUT_S,
            "server_settings": {"application_name": APPLICATION},
            "statement_cache_size": 100 if self.prepares else 0,
            "max_cached_statement_lifetime": 0,
        }

    async def set_up(self, connection: Any) -> None:
        self._planning_once.discard(connection.get_server_pid())
        if not self.is_lent:
            await connection.execute("; ".join(self._settings("false")))

    def plans_once(self, connection: Any) -> bool:
        """Whether this session has been told to plan each statement once."""
        return connection.get_server_pid() in self._planning_once

    async def plan_once(self, connection: Any) -> None:
        """Have this session plan once from now on: a round trip, the first time. One that is lent stays as it is."""
        if not self.is_lent and not self.plans_once(connection):
            await connection.execute(f"SET plan_cache_mode = {Plans.ONCE}")
            self._planning_once.add(connection.get_server_pid())


async def look(url: str, connecting: Connecting) -> Sessions:
    """Find out what lies before the server: one connection, one statement."""
    pooler = connecting.pooler
    plain, own = split_settings(url)
    if pooler is Pooler.NONE:
        return Sessions(own=own)
    careful = Sessions(is_lent=True, prepares=False, own=own)
    connection = await asyncpg.connect(plain, **careful.arguments())
    try:
        row = await connection.fetchrow(_LOOK)
        is_pooled = row["pid"] != connection.get_server_pid()
    finally:
        connection.terminate()
    if pooler is Pooler.SESSION or (pooler is Pooler.AUTO and not is_pooled):
        return Sessions(own=own)
    return replace(careful, is_planned=row["is_planned"], prepares=connecting.prepares)


def set_all(settings: Iterable[tuple[str, str]], local: str) -> list[str]:
    """A statement for each setting, for this transaction if `local` is true."""
    return [f"SELECT set_config({_literal(name)}, {_literal(value)}, {local})" for name, value in settings]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
