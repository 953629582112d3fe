"""Requests whose form is the attack: what frames a body, what comes after an answer, who holds the connections."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.security.deployment import Deployment, deployed, served, serving

from holdfast.http.auth import token_for
from holdfast.http.server import ConnectionLimits

pytestmark = pytest.mark.spec("K30")
POST = "POST /api/submissions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer {}\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
LIMITS = ConnectionLimits(connections_max=6, header_s=20, body_s=20, keep_alive_s=20, write_s=1, linger_s=0.2)
ASSET = b"GET /static/holdfast.css HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Deployment]:
    async with deployed(tmp_path) as made:
        yield made


def header(place: Deployment) -> bytes:
    return POST.format(token_for(place.settings, "ann", ["learner"])).encode()


async def answer_to(port: int, *pieces: bytes, host: str = "127.0.0.1") -> bytes:
    """What comes back until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0))
    answer = b""
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(10):
            while piece := await reader.read(65_536):
                answer += piece
    except ConnectionError:
        pass  # it was closed while we sent
    finally:
        writer.close()
    return answer


FRAMES = {
    "trailers": (b"2\r\n{}\r\n0\r\n", *[b"X: y\r\n" * 1_000] * 50),
    "chunk extensions": (b"2;", *[b"a" * 16_384] * 20),
    "chunks of a byte": tuple([b"1\r\n \r\n" * 4_000] * 20),
}


async def test_what_frames_a_body_is_bounded(place: Deployment) -> None:
    async with serving(place, LIMITS) as (port, connections):
        for kind, pieces in FRAMES.items():
            answer = await asyncio.wait_for(answer_to(port, header(place) + CHUNKED, *pieces), 10)
            # None where the reset came first.
            assert answer[9:12] in (b"431", b"400", b"") and not connections, (kind, answer[:100])


async def test_a_trailer_is_no_header(place: Deployment) -> None:
    """A proxy checks headers; what comes after a body must not be one."""
    body = b'{"skill":"writing","payload":{"text":"Dear Ms Lan","taskType":"email","questionId":"q"}}'
    chunk = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\nIdempotency-Key: a-key\r\n\r\n"
    async with served(place, LIMITS) as port:
        answers = await answer_to(port, header(place) + CHUNKED, chunk + GET + b"Connection: close\r\n\r\n")
    assert answers.startswith(b"HTTP/1.1 400 ") and b"IDEMPOTENCY_KEY_REQUIRED" in answers
    assert b'{"status":"ok"}' in answers


async def test_after_a_refusal_nobody_goes_on_sending(place: Deployment) -> None:
    async def goes_on() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(header(place) + b"Content-Length: 9223372036854775807\r\n\r\n")
        answer = await reader.readuntil(b"\r\n\r\n")
        try:
            while True:
                writer.write(b" " * 16_384)
                await writer.drain()
                await asyncio.sleep(0.05)
        except ConnectionError:
            return answer

    async with served(place, LIMITS) as port:
        assert (await asyncio.wait_for(goes_on(), 10)).startswith(b"HTTP/1.1 413 ")


async def test_an_answer_that_nobody_reads_holds_no_connection(place: Deployment) -> None:
    """What is left of it fits below the mark at which writing pauses: closing must not wait for the reader."""
    limits = ConnectionLimits(6, 20, 20, keep_alive_s=0.3, write_s=0.3)
    async with serving(place, limits) as (port, connections):
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, ("127.0.0.1", port))
            async with asyncio.timeout(20):
                while not connections:  # noqa: ASYNC110, uvicorn rings no bell
                    await asyncio.sleep(0)
                (connection,) = connections
                connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2_048)
                await loop.sock_sendall(client, ASSET + b"\r\n")
                while connection.cycle is None or not connection.cycle.response_complete:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                assert connection.transport.get_write_buffer_size() > 0, "the kernel took it all: nothing is tried"
                while connections:  # noqa: ASYNC110, the server's own timers
                    await asyncio.sleep(0.02)


async def test_an_answer_that_stands_still_halfway_is_cut_off(place: Deployment) -> None:
    """Above that mark the application waits to write: only the reader's own time ends it."""
    limits = ConnectionLimits(6, 20, 20, keep_alive_s=20, write_s=0.3)
    async with serving(place, limits) as (port, connections):
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, ("127.0.0.1", port))
            await loop.sock_sendall(client, (ASSET + b"\r\n") * 100)
            async with asyncio.timeout(15):
                while not any(each.flow.write_paused for each in connections):  # noqa: ASYNC110, uvicorn rings no bell
                    await asyncio.sleep(0)
                while connections:  # noqa: ASYNC110, the server's own timers
                    await asyncio.sleep(0.02)


async def test_one_address_cannot_take_all_connections(place: Deployment) -> None:
    """Whoever holds most gives way; what is being answered stays, and an address is not served at its own cost."""
    made = await place.submission("ann")
    token = token_for(place.settings, "ann", ["learner"])
    stream = f"GET /api/submissions/{made['id']}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
    async with serving(place, LIMITS) as (port, connections):
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
        held[0][1].write(stream.encode())
        assert (await held[0][0].readline()).startswith(b"HTTP/1.1 200 ")
        for _, writer in held[1:]:
            writer.write(GET)
        assert (await answer_to(port, GET + b"\r\n")).startswith(b"HTTP/1.1 503 ")
        for number in range(2, 7):
            closing = GET + b"Connection: close\r\n\r\n"
            assert (await answer_to(port, closing, host=f"127.0.0.{number}")).startswith(b"HTTP/1.1 200 ")
        assert not held[0][0].at_eof() and len(connections) <= 6
        for _, writer in held:
            writer.close()


async def test_a_range_is_read_or_ignored_and_one_that_does_not_fit_is_a_problem(place: Deployment) -> None:
    client = place.client()
    whole = (await client.get("/static/holdfast.css")).content

    async def asked(value: str) -> Any:
        return await client.get("/static/holdfast.css", headers=[(b"Range", value.encode("latin-1"))])

    for odd in (
        "bytes=5-2",
        "bytes=--5",
        "bytes=-",
        "weeks=1-2",
        "bytes=0-,0-",
        "bytes=" + "9" * 40 + "-",
        "bytes=\u00b2-",
    ):
        answer = await asked(odd)
        assert (answer.status_code, answer.content) == (200, whole), odd
    for fit, part in (
        ("bytes=3-7", whole[3:8]),
        ("bytes=-9", whole[-9:]),
        ("Bytes=9-", whole[9:]),
        ("bytes=0-0", b"/"),
    ):
        answer = await asked(fit)
        assert (answer.status_code, answer.content) == (206, part), fit
    beyond = await asked(f"bytes={len(whole)}-")
    assert (beyond.status_code, beyond.json()["code"]) == (416, "RANGE_NOT_SATISFIABLE")
    assert beyond.headers["content-range"] == f"bytes */{len(whole)}"


TWO_WAYS = (
    b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}}",
    b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n",
    b"Content-Length: +2\r\n\r\n{}",
    b"X: a\0b\r\n\r\n",
    CHUNKED + b"ffffffffffffffffff\r\n{}",
)


async def test_a_request_that_two_servers_would_read_in_two_ways_is_refused(place: Deployment) -> None:
    """Smuggling: nothing behind it on the connection is answered."""
    async with served(place, LIMITS) as port:
        for words in TWO_WAYS:
            answers = await answer_to(port, header(place) + words + GET + b"\r\n")
            assert answers.startswith(b"HTTP/1.1 400 ") and answers.count(b"HTTP/1.1 ") == 1, words
        older = header(place).replace(b"HTTP/1.1", b"HTTP/1.0")  # knows no chunks
        answers = await answer_to(port, older + b"Connection: keep-alive\r\n" + CHUNKED + b"0\r\n\r\n" + GET + b"\r\n")
        assert answers.startswith(b"HTTP/1.1 400 ") and answers.count(b"HTTP/1.1 ") == 1


async def test_a_header_that_decides_is_given_once(place: Deployment) -> None:
    """Of two a proxy could read the other one."""
    nobody = place.client()
    for name in ("Host", "Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "Range"):
        answer = await nobody.get("/healthz", headers=[(name, "x"), (name.lower(), "x")])
        assert answer.status_code == 400 and f"The header {name.title()} is given more than once" in answer.text, name
    assert (await nobody.get("/healthz", headers=[("X-Own", "x"), ("X-Own", "y")])).status_code == 200
