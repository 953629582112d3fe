"""What PostgreSQL's driver raises, in our words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import asyncpg

from holdfast.errors import (
    SchemaMismatch,
    StoreBusy,
    StoreConflict,
    StoreError,
    StoreForbidden,
    StoreFull,
    StoreReadOnly,
    StoreStandby,
    StoreStarting,
    StoreUnavailable,
    forbidden,
)


@contextmanager
def naming(url: str) -> Iterator[None]:
    """Say which server could not be reached or refused us, and why, without its password. Nothing was written."""
    try:
        yield
    except asyncpg.TargetServerAttributeNotMatched as error:
        raise StoreStandby(
            f"PostgreSQL at {hosts_of(url)} has no server that takes writes now; one must be promoted or started."
        ) from error
    except asyncpg.CannotConnectNowError as error:
        raise StoreStarting(f"PostgreSQL at {hosts_of(url)} is not ready: {error}.") from error
    except (OSError, TimeoutError) as error:
        raise StoreUnavailable(
            f"PostgreSQL at {hosts_of(url)} cannot be reached ({_why(error)}); start it or fix the database URL."
        ) from error
    except asyncpg.PostgresError as error:
        known = _connection_error(error) or _statement_error(error)
        if type(known) is not StoreError:
            raise known from error
        raise StoreUnavailable(f"PostgreSQL at {hosts_of(url)} refused the connection: {error}.") from error


def _why(error: Exception) -> str:
    """What the driver says where the kind of error alone would not help: a server without TLS, for one."""
    words = str(error)
    plain = type(error) is ConnectionError and words and len(words) < 200
    return f"{type(error).__name__}: {words}" if plain else type(error).__name__


def hosts_of(url: str) -> str:
    """The server's host and port; all of them where the URL names several."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    given = parts.netloc.rpartition("@")[2] or ",".join(query.get("host", [])) or "localhost"
    port = query.get("port", ["5432"])[0]
    hosts = [host if host.rpartition("]")[2].count(":") else f"{host}:{port}" for host in given.split(",")]
    return " or ".join(hosts)


def place_of(url: str) -> str:
    """The URL without user, password and options."""
    return f"postgresql://{hosts_of(url).replace(' or ', ',')}{urlsplit(url).path}"


def _refused_by_pooler(error: asyncpg.ProtocolViolationError) -> str:
    """A pooler's own words come as violations of the protocol, whatever its trouble is."""
    _, known, parameter = str(error).partition("unsupported startup parameter: ")
    if known:
        return (
            f"The pooler before PostgreSQL refuses the parameter '{parameter}', which the database URL asks for; take "
            "it out of the URL, or name it in the pooler's ignore_startup_parameters."
        )
    return f"PostgreSQL, or a pooler before it, refused the connection: {error}."


AGAIN = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
)
AWAY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the server's last word came between two statements
)
POOLED = (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError)
LACKING = (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError)


@contextmanager
def translating() -> Iterator[None]:
    """The driver's errors in our words."""
    try:
        yield
    except (*AWAY, asyncpg.PostgresError) as error:
        raise _connection_error(error) or _statement_error(error) from error


def _connection_error(error: Exception) -> StoreError | None:
    """What says that the database, or the way to it, is not as it should be."""
    match error:
        case asyncpg.ProtocolViolationError():
            return StoreUnavailable(_refused_by_pooler(error))
        case asyncpg.InvalidPasswordError():
            return StoreUnavailable("PostgreSQL refused the user name or password.")
        case asyncpg.TooManyConnectionsError():
            return StoreUnavailable(f"PostgreSQL has no connection left: {error}; raise that limit, or use a pooler.")
        case asyncpg.InvalidCatalogNameError():
            return StoreUnavailable(f"PostgreSQL has no such database: {error}.")
    if isinstance(error, POOLED):
        why, _, _ = str(error).partition("\n")  # the driver goes on with advice about an option of its own
        return StoreUnavailable(
            f"A pooler gave this statement to another session ({why}); set HOLDFAST_POOLER=transaction."
        )
    if isinstance(error, AWAY):
        return StoreUnavailable(f"PostgreSQL cannot be reached ({type(error).__name__}); a write may have happened.")
    return None


def _statement_error(error: Exception) -> StoreError:
    """What says that this statement could not be run."""
    match error:
        case asyncpg.ReadOnlySQLTransactionError():
            return StoreReadOnly(f"PostgreSQL is read-only: {error}.")
        case asyncpg.DiskFullError():
            return StoreFull(f"PostgreSQL cannot write, its disk is full: {error}.")
        case asyncpg.InsufficientPrivilegeError():
            return StoreForbidden(forbidden(str(error)))
        case asyncpg.UniqueViolationError():
            return StoreConflict(f"PostgreSQL has this row already: {error}")
    if isinstance(error, AGAIN):
        return StoreBusy(f"PostgreSQL asked to try again: {error}.")
    if isinstance(error, LACKING) and "holdfast_" in str(error):
        return SchemaMismatch(f"The database lacks what this code needs ({error}); run holdfast migrate.")
    return StoreError(f"PostgreSQL refused a statement: {error}")
