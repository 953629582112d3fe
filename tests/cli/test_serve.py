"""The socket that `holdfast serve` and `holdfast up` listen at."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress

import pytest

from holdfast.cli.serve import _listening, _LogFile
from holdfast.settings import Settings, read


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_no_answer_waits_for_the_receipt_of_the_one_before(host: str) -> None:
    """A system that gathers small pieces (Nagle) and a client that delays its receipts cost 40 ms an answer."""
    accepted: asyncio.Queue[int] = asyncio.Queue()

    async def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.put_nowait(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with _listening(read(Settings, {"HOLDFAST_HOST": host, "HOLDFAST_PORT": "0"})) as listening:
        async with await asyncio.start_server(note, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname()[:2])
            assert await accepted.get()
            writer.close()


def test_a_log_on_a_full_disk_is_a_sentence_and_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    log = logging.Logger("of-this-test")
    log.addHandler(_LogFile("/dev/full"))
    for number in range(3):
        log.warning("line %d", number)
    assert capfd.readouterr().err == "The log /dev/full cannot be written now: [Errno 28] No space left on device.\n"
    with suppress(OSError):  # what is left of the lines does not fit either
        log.handlers[0].close()
