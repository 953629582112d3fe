"""How the addresses of a broker are written."""

from __future__ import annotations

import pytest

from holdfast.transports.addresses import split_addresses


@pytest.mark.spec("K28")
@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("amqp://u:p@a:1/v,amqp://u:p@b:2/v", ["amqp://u:p@a:1/v", "amqp://u:p@b:2/v"]),
        ("amqp://u:p@a:1,b:2,c/v?heartbeat=5", [f"amqp://u:p@{each}/v?heartbeat=5" for each in ("a:1", "b:2", "c")]),
        ("amqps://a; amqps://[::1]:5671/x", ["amqps://a", "amqps://[::1]:5671/x"]),
        ("amqp://u:p%2C@a/%2F", ["amqp://u:p%2C@a/%2F"]),
    ],
)
def test_several_addresses_are_one_setting(text: str, urls: list[str]) -> None:
    assert split_addresses(text) == urls


@pytest.mark.spec("K28")
@pytest.mark.parametrize("text", ["", "http://a", "amqp://", "amqp://a,,b/", "amqp://a:port/", "a:5672,b:5672"])
def test_an_address_that_cannot_be_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must (start with amqp|name hosts)"):
        split_addresses(text)
