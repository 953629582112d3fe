"""What is written to the broker in one burst leaves in few pieces, in order, and none of it stays behind."""

from __future__ import annotations

import asyncio

from holdfast.transports.rabbitmq.wire import GATHERED_MAX, _GatheringWriter


class Socket(asyncio.StreamWriter):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.calls: list[bytes] = []
        self.drained = self.closed = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.calls.append(bytes(data))

    async def drain(self) -> None:
        self.drained += 1

    def close(self) -> None:
        self.closed += 1

    def __del__(self, *_: object) -> None: ...


async def test_a_burst_of_a_frame_a_turn_leaves_in_one_call() -> None:
    socket = Socket()
    writer = _GatheringWriter(socket)
    for n in range(20):
        writer.write(b"%02d" % n)
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    assert b"".join(socket.calls) == b"".join(b"%02d" % n for n in range(20))
    assert len(socket.calls) <= 2


async def test_a_long_burst_does_not_wait_for_its_end() -> None:
    socket = Socket()
    writer = _GatheringWriter(socket)
    for _ in range(GATHERED_MAX * 3):
        writer.write(b"x")
        await asyncio.sleep(0)
    assert len(b"".join(socket.calls)) >= GATHERED_MAX


async def test_draining_and_closing_send_what_is_there() -> None:
    socket = Socket()
    writer = _GatheringWriter(socket)
    writer.write(b"a")
    await writer.drain()
    assert (socket.calls, socket.drained) == ([b"a"], 1)
    writer.write(b"b")
    writer.close()
    assert (socket.calls, socket.closed) == ([b"a", b"b"], 1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert socket.calls == [b"a", b"b"], "and sends nothing twice"
