"""The errors of databases and mail servers: by SQLSTATE, by SQLite's codes, by the digits of a reply."""

from __future__ import annotations

import smtplib
import sqlite3

import aiosmtplib
import asyncpg.exceptions
import psycopg
import pytest
import sqlalchemy.exc

from holdfast.core.classify import classify

pytestmark = pytest.mark.spec("K5", "004.1")


@pytest.mark.parametrize(
    ("error", "error_class", "retryable"),
    [
        (asyncpg.exceptions.SerializationError("x"), "DB_CONFLICT", True),
        (asyncpg.exceptions.DeadlockDetectedError("x"), "DB_CONFLICT", True),
        (asyncpg.exceptions.TooManyConnectionsError("x"), "DB_OVERLOADED", True),
        (asyncpg.exceptions.ConnectionDoesNotExistError("x"), "DB_UNAVAILABLE", True),
        (asyncpg.exceptions.CannotConnectNowError("x"), "DB_UNAVAILABLE", True),
        (asyncpg.exceptions.AdminShutdownError("x"), "DB_UNAVAILABLE", True),
        (asyncpg.exceptions.QueryCanceledError("x"), "DB_TIMEOUT", True),
        (asyncpg.exceptions.InterfaceError("connection is closed"), "DB_UNAVAILABLE", True),
        (asyncpg.exceptions.UniqueViolationError("x"), "DB_DUPLICATE", True),
        (asyncpg.exceptions.NotNullViolationError("x"), "DB_REFUSED", False),
        (asyncpg.exceptions.ForeignKeyViolationError("x"), "DB_REFUSED", False),
        (asyncpg.exceptions.UndefinedTableError("x"), "DB_MISUSED", False),
        (asyncpg.exceptions.InsufficientPrivilegeError("x"), "DB_AUTH", False),
        (asyncpg.exceptions.InvalidPasswordError("x"), "DB_AUTH", False),
        (psycopg.errors.SerializationFailure("x"), "DB_CONFLICT", True),
        (psycopg.errors.LockNotAvailable("x"), "DB_CONFLICT", True),
        (psycopg.errors.UniqueViolation("x"), "DB_DUPLICATE", True),
        (psycopg.errors.CheckViolation("x"), "DB_REFUSED", False),
        (psycopg.errors.ReadOnlySqlTransaction("x"), "DB_UNAVAILABLE", True),
        (psycopg.OperationalError("server closed the connection unexpectedly"), "DB_UNAVAILABLE", True),
        (psycopg.InterfaceError("the connection is closed"), "DB_UNAVAILABLE", True),
        (sqlalchemy.exc.OperationalError("SELECT", {}, psycopg.errors.DeadlockDetected("x")), "DB_CONFLICT", True),
        (sqlalchemy.exc.IntegrityError("INSERT", {}, psycopg.errors.NotNullViolation("x")), "DB_REFUSED", False),
        (sqlalchemy.exc.TimeoutError("QueuePool limit"), "NETWORK_POOL_EXHAUSTED", True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_a_databases_error_means_what_its_sqlstate_means(error: Exception, error_class: str, retryable: bool) -> None:
    seen = classify(error)
    assert (seen.error_class, seen.retryable, seen.unknown) == (error_class, retryable, False)


def test_a_raised_exception_of_somebodys_own_function_is_unknown() -> None:
    assert classify(asyncpg.exceptions.RaiseError("x")).unknown


def test_sqlites_own_codes_are_read() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)")
    connection.execute("INSERT INTO t VALUES (1, 'a')")
    for statement, error_class, retryable in [
        ("INSERT INTO t VALUES (1, 'b')", "DB_DUPLICATE", True),
        ("INSERT INTO t VALUES (2, 'a')", "DB_DUPLICATE", True),
        ("INSERT INTO t VALUES (3, NULL)", "DB_REFUSED", False),
        ("INSERT INTO nowhere VALUES (3)", "DB_MISUSED", False),
    ]:
        with pytest.raises(sqlite3.Error) as caught:
            connection.execute(statement)
        seen = classify(caught.value)
        assert (seen.error_class, seen.retryable) == (error_class, retryable), statement
    connection.close()


@pytest.mark.parametrize(
    ("error", "error_class", "retryable"),
    [
        (smtplib.SMTPDataError(451, b"try later"), "SMTP_TEMPORARY", True),
        (smtplib.SMTPDataError(499, b"odd"), "SMTP_TEMPORARY", True),
        (smtplib.SMTPDataError(556, b"odd"), "SMTP_REFUSED", False),
        (smtplib.SMTPDataError(554, b"spam"), "SMTP_REFUSED", False),
        (smtplib.SMTPConnectError(421, b"too busy"), "SMTP_UNAVAILABLE", True),
        (smtplib.SMTPAuthenticationError(535, b"no"), "SMTP_AUTH_FAILED", False),
        (smtplib.SMTPSenderRefused(452, b"full", "a@b.test"), "SMTP_TEMPORARY", True),
        (smtplib.SMTPDataError(550, b"5.4.5 Daily user sending limit exceeded"), "QUOTA_WINDOW", True),
        (smtplib.SMTPServerDisconnected("gone"), "NETWORK_BROKEN", True),
        (smtplib.SMTPRecipientsRefused({"a@b.test": (550, b"no such user")}), "SMTP_REFUSED", False),
        (smtplib.SMTPRecipientsRefused({"a@b.test": (550, b"no"), "c@d.test": (450, b"x")}), "SMTP_TEMPORARY", True),
        (aiosmtplib.SMTPDataError(451, "try later"), "SMTP_TEMPORARY", True),
        (aiosmtplib.SMTPResponseException(552, "too big"), "SMTP_TOO_LARGE", False),
        (aiosmtplib.SMTPAuthenticationError(535, "no"), "SMTP_AUTH_FAILED", False),
        (
            aiosmtplib.SMTPRecipientsRefused(
                [aiosmtplib.SMTPRecipientRefused(c, "no", "a@b.test") for c in (553, 450)]
            ),
            "SMTP_TEMPORARY",
            True,
        ),
        (aiosmtplib.SMTPRecipientRefused(550, "no", "a@b.test"), "SMTP_REFUSED", False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_a_mail_servers_reply_means_what_its_digits_mean(error: Exception, error_class: str, retryable: bool) -> None:
    seen = classify(error)
    assert (seen.error_class, seen.retryable, seen.unknown) == (error_class, retryable, False)
    assert seen.ambiguous is (error_class == "NETWORK_BROKEN"), "a reply proves that nothing was accepted"
