"""What the errors of databases mean: by SQLSTATE (asyncpg, psycopg, anything on them), and by SQLite's result codes."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.client_error import attribute
from holdfast.core.failure import Category, Failure, failure

# The whole code first, then its class (the first two characters).
BY_SQLSTATE: Mapping[str, tuple[Category, str]] = {
    "40003": (Category.NETWORK, "DB_UNAVAILABLE"),
    "40": (Category.CONFLICT, "DB_CONFLICT"),
    "55P03": (Category.CONFLICT, "DB_CONFLICT"),
    "55006": (Category.CONFLICT, "DB_CONFLICT"),
    "23505": (Category.CONFLICT, "DB_DUPLICATE"),
    "23P01": (Category.CONFLICT, "DB_DUPLICATE"),
    "08": (Category.NETWORK, "DB_UNAVAILABLE"),
    "57P": (Category.NETWORK, "DB_UNAVAILABLE"),
    "25006": (Category.NETWORK, "DB_UNAVAILABLE"),
    "57014": (Category.NETWORK, "DB_TIMEOUT"),
    "25P03": (Category.NETWORK, "DB_TIMEOUT"),
    "25P04": (Category.NETWORK, "DB_TIMEOUT"),
    "53": (Category.UPSTREAM, "DB_OVERLOADED"),
    "58": (Category.UPSTREAM, "DB_INTERNAL"),
    "XX": (Category.UPSTREAM, "DB_INTERNAL"),
    "22": (Category.VALIDATION, "DB_REFUSED"),
    "23": (Category.VALIDATION, "DB_REFUSED"),
    "44": (Category.VALIDATION, "DB_REFUSED"),
    "54": (Category.VALIDATION, "DB_REFUSED"),
    "28": (Category.AUTH, "DB_AUTH"),
    "42501": (Category.AUTH, "DB_AUTH"),
    "42": (Category.BUG, "DB_MISUSED"),
    "3D": (Category.BUG, "DB_MISUSED"),
    "3F": (Category.BUG, "DB_MISUSED"),
}

# SQLite's primary result codes; of a constraint the extended code says which.
BY_SQLITE: Mapping[int, tuple[Category, str]] = {
    5: (Category.CONFLICT, "DB_CONFLICT"),
    6: (Category.CONFLICT, "DB_CONFLICT"),
    1555: (Category.CONFLICT, "DB_DUPLICATE"),
    2067: (Category.CONFLICT, "DB_DUPLICATE"),
    10: (Category.UPSTREAM, "DB_INTERNAL"),
    13: (Category.UPSTREAM, "DB_OVERLOADED"),
    14: (Category.NETWORK, "DB_UNAVAILABLE"),
    19: (Category.VALIDATION, "DB_REFUSED"),
    1: (Category.BUG, "DB_MISUSED"),
}

# The statement did not happen, whatever came before it in its transaction.
NOTHING_HAPPENED = frozenset({"DB_CONFLICT", "DB_DUPLICATE", "DB_REFUSED", "DB_AUTH", "DB_MISUSED"})
FAULTS = frozenset({"DB_UNAVAILABLE", "DB_TIMEOUT", "DB_OVERLOADED", "DB_INTERNAL"})


def read_sql(error: BaseException, message: str) -> Failure | None:
    """The failure behind a database's error; None if it is not one, or one that says nothing (a raised exception of
    somebody's own function, for example)."""
    meaning = _by_sqlstate(error) or _by_sqlite(error) or _by_name(error)
    if meaning is None:
        return None
    category, error_class = meaning
    ambiguous = error_class not in NOTHING_HAPPENED
    return failure(category, error_class, message, ambiguous=ambiguous, faults=error_class in FAULTS)


def _by_sqlstate(error: BaseException) -> tuple[Category, str] | None:
    for name in ("sqlstate", "pgcode"):
        state = attribute(error, name)
        if isinstance(state, str) and len(state) == 5:
            return BY_SQLSTATE.get(state) or BY_SQLSTATE.get(state[:3]) or BY_SQLSTATE.get(state[:2])
    return None


def _by_sqlite(error: BaseException) -> tuple[Category, str] | None:
    code = attribute(error, "sqlite_errorcode")
    return (BY_SQLITE.get(code) or BY_SQLITE.get(code & 0xFF)) if isinstance(code, int) else None


def _by_name(error: BaseException) -> tuple[Category, str] | None:
    """A driver that lost its connection has no code to show: then the class of DB-API 2 says it, or asyncpg's own."""
    if attribute(error, "connection_invalidated") is True:
        return Category.NETWORK, "DB_UNAVAILABLE"
    for base in type(error).__mro__:
        library = base.__module__.partition(".")[0]
        if library in _DRIVERS and base.__name__ == "OperationalError":
            return Category.NETWORK, "DB_UNAVAILABLE"
        if library in _DRIVERS and base.__name__ in ("InterfaceError", "PoolTimeout"):
            closed = "clos" in str(error).lower() or base.__name__ == "PoolTimeout"
            return (Category.NETWORK, "DB_UNAVAILABLE") if closed else None
        if library == "sqlalchemy" and base.__name__ == "TimeoutError":
            return Category.NETWORK, "NETWORK_POOL_EXHAUSTED"
    return None


_DRIVERS = frozenset({"psycopg", "psycopg2", "psycopg_pool", "asyncpg", "pg8000", "MySQLdb", "pymysql", "aiomysql"})
