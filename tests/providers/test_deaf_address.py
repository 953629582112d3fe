"""A host with several addresses is reached though the first of them takes no connection."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest

from holdfast.providers.outbound import OutboundPolicy, fetch
from tests.systems.conversion.stub import stub

HOST = "files.example"
POLICY = OutboundPolicy(allow_private_hosts=frozenset({HOST}), connect_s_max=0.05, total_s_max=5)


@contextmanager
def deaf(address: str, port: int) -> Iterator[None]:
    """A listener that never accepts, with as many callers in line as the line is long: further ones hear nothing."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind((address, port))
        listener.listen(0)
        for _ in range(4):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex((address, port))
        yield


async def resolve(host: str, port: int) -> list[str]:
    return ["127.0.0.2", "127.0.0.1"]


@pytest.mark.spec("G16")
async def test_the_next_address_is_tried_when_one_takes_no_connection_in_time() -> None:
    async with stub(body=b"sound") as there:
        port = urlsplit(there.url).port or 0
        with deaf("127.0.0.2", port):
            fetched = await fetch(f"http://{HOST}:{port}/", POLICY, resolver=resolve)
    assert fetched.content == b"sound"
