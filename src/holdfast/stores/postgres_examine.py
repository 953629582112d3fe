"""Looks at a PostgreSQL server and at the way to it: what it is, what this role may do, what lies between."""

from __future__ import annotations

from typing import Any

from holdfast.errors import StoreError
from holdfast.stores.connecting import Connecting
from holdfast.stores.examination import Examination
from holdfast.stores.postgres_errors import naming, translating
from holdfast.stores.postgres_session import Sessions, look

OLDEST = 130_000
_LOOK = """SELECT current_setting('server_version') AS version,
       CAST(current_setting('server_version_num') AS INTEGER) AS number, current_user AS role,
       pg_is_in_recovery() AS is_standby, current_schema() AS schema,
       COALESCE(has_schema_privilege(current_schema(), 'CREATE'), FALSE) AS may_create,
       CAST(current_setting('transaction_read_only') AS BOOLEAN) AS is_read_only"""


async def examine(connection: Any, sessions: Sessions, direct_url: str | None) -> Examination:
    row = await connection.fetchrow(_LOOK)
    rights = "may create tables" if row["may_create"] else "may create no tables: migrate as another role"
    facts = [f"PostgreSQL {row['version']}", "a standby" if row["is_standby"] else "primary"]
    facts += [f"role {row['role']} {rights}", _way(sessions, direct_url is not None)]
    hears = direct_url is not None or not sessions.is_lent
    problems = []
    if row["number"] < OLDEST:
        problems.append(f"PostgreSQL {row['version']} is too old; 13 is the oldest that can be used.")
    if direct_url is not None and (problem := await _direct_problem(direct_url)) is not None:
        problems.append(problem)
        hears = False
    is_writable = not row["is_standby"] and not row["is_read_only"]
    return Examination(tuple(facts), tuple(problems), is_writable, hears)


async def _direct_problem(url: str) -> str | None:
    """Why nothing is heard at the address that is to be the server's own."""
    try:
        with translating(), naming(url):
            sessions = await look(url, Connecting())
    except StoreError as error:
        return f"HOLDFAST_LISTEN_URL does not work: {error}"
    return "HOLDFAST_LISTEN_URL leads to a pooler, not to PostgreSQL itself" if sessions.is_lent else None


def _way(sessions: Sessions, has_direct_url: bool) -> str:
    if not sessions.is_lent:
        return "reached directly, or by sessions that last"
    listens = "notifications by HOLDFAST_LISTEN_URL" if has_direct_url else "no notifications: workers poll"
    planned = "planner settings from the role" if sessions.is_planned else "planner settings with each transaction"
    prepares = "prepared statements" if sessions.prepares else "no prepared statements"
    return f"behind a pooler that lends sessions by the transaction ({listens}, {planned}, {prepares})"
