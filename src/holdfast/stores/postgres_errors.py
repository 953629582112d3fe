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
    """Say which server could not be reached, without its password."""
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
            f"PostgreSQL at {hosts_of(url)} cannot be reached ({type(error).__name__}); "
            "start it or mend the database URL."
        ) from error


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
    return f"PostgreSQL, or a pooler before it, refused the connection: {error}; a write may have happened."


@contextmanager
def translating() -> Iterator[None]:
    """The driver's errors in our words."""
    try:
        yield
    except (
        asyncpg.SerializationError,
        asyncpg.DeadlockDetectedError,
        asyncpg.LockNotAvailableError,
        asyncpg.QueryCanceledError,
    ) as error:
        raise StoreBusy(f"PostgreSQL asked to try again: {error}.") from error
    except asyncpg.ReadOnlySQLTransactionError as error:
        raise StoreReadOnly(f"PostgreSQL is read-only: {error}.") from error
    except asyncpg.DiskFullError as error:
        raise StoreFull(f"PostgreSQL cannot write, its disk is full: {error}.") from error
    except asyncpg.ProtocolViolationError as error:
        raise StoreUnavailable(_refused_by_pooler(error)) from error
    except (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError) as error:
        raise StoreUnavailable(
            f"A pooler gave this statement to another session ({error}); set HOLDFAST_POOLER=transaction."
        ) from error
    except (
        OSError,
        TimeoutError,
        asyncpg.PostgresConnectionError,
        asyncpg.CannotConnectNowError,
        asyncpg.AdminShutdownError,
        asyncpg.CrashShutdownError,
        asyncpg.IdleInTransactionSessionTimeoutError,
        asyncpg.TooManyConnectionsError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,  # the server's last word came between two statements
    ) as error:
        name = type(error).__name__
        raise StoreUnavailable(f"PostgreSQL cannot be reached ({name}); a write may have happened.") from error
    except asyncpg.InvalidPasswordError as error:
        raise StoreUnavailable("PostgreSQL refused the user name or password.") from error
    except asyncpg.InvalidCatalogNameError as error:
        raise StoreUnavailable(f"PostgreSQL has no such database: {error}.") from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise StoreForbidden(forbidden(str(error))) from error
    except asyncpg.UniqueViolationError as error:
        raise StoreConflict(f"PostgreSQL has this row already: {error}") from error
    except asyncpg.PostgresError as error:
        if isinstance(error, asyncpg.UndefinedTableError | asyncpg.UndefinedColumnError) and "holdfast_" in str(error):
            raise SchemaMismatch(f"The database lacks what this code needs ({error}); run holdfast migrate.") from error
        raise StoreError(f"PostgreSQL refused a statement: {error}") from error
