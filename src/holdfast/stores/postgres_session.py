"""How sessions with PostgreSQL are made: directly, or through a pooler that lends one for a transaction at a time.

    direct, or a pooler's session     planner settings once a session, named statements, LISTEN
    a pooler's transaction            planner settings with every BEGIN, no named statements, no LISTEN

No startup parameter is sent but those that every pooler knows: what a session needs is set in it. Who lends sessions
for a transaction is noticed: the process that answers is not the one that was connected to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from holdfast.stores.connecting import Connecting, Pooler

CONNECT_TIMEOUT_S = 10.0
APPLICATION = "holdfast"

# Estimates for arrays and JSON are guesses; these keep claims and settles on their indexes at every table size.
PLANNER = ("enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "enable_seqscan", "jit")
_PLANNER_IS_SET = " AND ".join(f"current_setting('{name}') = 'off'" for name in PLANNER)
# A process that stands still, or whose machine is gone, must not keep the rows it has locked: PostgreSQL ends its
# session. What the database or the role was given as the limit stands.
LIMIT_IDLE = """SELECT set_config('idle_in_transaction_session_timeout', '30s', {local})
 WHERE current_setting('idle_in_transaction_session_timeout') = '0'"""
_SET_UP = "; ".join([*(f"SET {name} = off" for name in PLANNER), LIMIT_IDLE.format(local="false")])
_BEGIN_LENT = "; ".join(["BEGIN", *(f"SET LOCAL {name} = off" for name in PLANNER), LIMIT_IDLE.format(local="true")])
_BEGIN_LENT_PLANNED = "; ".join(["BEGIN", LIMIT_IDLE.format(local="true")])
_LOOK = f"SELECT pg_backend_pid() AS pid, ({_PLANNER_IS_SET}) AS is_planned"


@dataclass(frozen=True, slots=True)
class Sessions:
    """What was found out about the sessions behind a URL."""

    is_lent: bool = False
    """For a transaction at a time: the next one may be another session."""
    is_planned: bool = False
    """The role or the database has the planner settings already."""
    prepares: bool = True

    @property
    def begin(self) -> str:
        """How a transaction begins, in one message."""
        if not self.is_lent:
            return "BEGIN"
        return _BEGIN_LENT_PLANNED if self.is_planned else _BEGIN_LENT

    @property
    def needs_begin(self) -> bool:
        """Whether a single statement must have a transaction around it, to be planned as it should."""
        return self.is_lent and not self.is_planned

    def arguments(self) -> dict[str, Any]:
        return {
            "timeout": CONNECT_TIMEOUT_S,
            "server_settings": {"application_name": APPLICATION},
            "statement_cache_size": 100 if self.prepares else 0,
            "max_cached_statement_lifetime": 0,
        }

    async def set_up(self, connection: Any) -> None:
        if not self.is_lent:
            await connection.execute(_SET_UP)


async def look(url: str, connecting: Connecting) -> Sessions:
    """Find out what lies before the server: one connection, one statement."""
    pooler = connecting.pooler
    if pooler is Pooler.NONE:
        return Sessions()
    careful = Sessions(is_lent=True, prepares=False)
    connection = await asyncpg.connect(url, **careful.arguments())
    try:
        row = await connection.fetchrow(_LOOK)
        is_pooled = row["pid"] != connection.get_server_pid()
    finally:
        connection.terminate()
    if pooler is Pooler.SESSION or (pooler is Pooler.AUTO and not is_pooled):
        return Sessions()
    return replace(careful, is_planned=row["is_planned"], prepares=connecting.prepares)


def beside(url: str, other: str) -> str:
    """The other server's URL, for the database of the first where the other names none."""
    parts = urlsplit(other)
    return other if parts.path.strip("/") else urlunsplit(parts._replace(path=urlsplit(url).path))
