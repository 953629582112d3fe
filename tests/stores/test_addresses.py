"""A database's address as the driver is given it, and what is said where it does not answer."""

from __future__ import annotations

import pytest

from holdfast.stores.connecting import split_settings
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres_errors import _why

URL = "postgresql://ann@db.test/shop"


@pytest.mark.spec("K16")
def test_settings_of_a_session_are_taken_out_of_the_address() -> None:
    assert split_settings(URL) == (URL, ())
    asked = f"{URL}?sslmode=require&search_path=trade&statement_timeout=5s"
    assert split_settings(asked) == (f"{URL}?sslmode=require", (("search_path", "trade"), ("statement_timeout", "5s")))


@pytest.mark.spec("K16")
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionError("it has no TLS"), "ConnectionError: it has no TLS"),
        (ConnectionError(""), "ConnectionError"),
        (ConnectionError("x" * 200), "ConnectionError"),
        (ConnectionRefusedError("at 10.0.0.7"), "ConnectionRefusedError"),
    ],
)
def test_what_the_driver_says_is_passed_on_where_the_kind_of_error_is_not_enough(error: Exception, said: str) -> None:
    assert _why(error) == said


@pytest.mark.spec("K16")
def test_a_spare_store_is_one_connection_with_the_same_patience() -> None:
    spare = PostgresStore(URL, command_timeout_s=3.5).spare()
    assert isinstance(spare, PostgresStore)
    assert (spare._command_timeout_s, spare._connecting.connections, spare._url) == (3.5, 1, URL)
