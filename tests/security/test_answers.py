"""Answers of providers and of users' servers that are endless, slow or compressed: bounded in time and in memory."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.message import EmailMessage
from pathlib import Path
from time import monotonic

import httpx
import pytest
from jwt import PyJWKClientConnectionError

from holdfast.errors import CallError
from holdfast.http.key_set import KeySet
from holdfast.http.oidc import OidcProvider
from holdfast.http.problem import Problem
from holdfast.providers import outbound
from holdfast.providers.bounded import ANSWER_BYTES_MAX
from holdfast.providers.openai import OpenAIClient
from holdfast.providers.outbound import OutboundPolicy, fetch
from holdfast.providers.webhook import send_notice
from holdfast.settings import Settings
from holdfast_systems.conversion.gateway import HttpGateway
from holdfast_systems.review.http_mail import HttpMailNotifier

pytestmark = pytest.mark.spec("K30")
LIMIT_S = 1.0
OPEN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
HERE = OutboundPolicy(total_s_max=LIMIT_S, connect_s_max=1, bytes_max=1 << 20, allow_private=True)


class Rude:
    """A server that answers every request in one rude way, and counts what it could send."""

    def __init__(self, way: str) -> None:
        self.way, self.url, self.sent = way, "", 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read(65_536)
            async for piece in getattr(self, self.way)():
                writer.write(piece)
                await writer.drain()
                self.sent += len(piece)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def endless(self) -> AsyncIterator[bytes]:
        yield OPEN + b"\r\n"
        for _ in range(100_000):
            yield b" " * 65_536

    async def slow_body(self) -> AsyncIterator[bytes]:
        yield OPEN + b"Content-Length: 1000\r\n\r\n"
        for _ in range(1_000):
            yield b" "
            await asyncio.sleep(0.05)

    async def slow_header(self) -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n"
        for number in range(1_000):
            yield f"X-{number}: x\r\n".encode()
            await asyncio.sleep(0.05)

    async def endless_header(self) -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nX: "
        for _ in range(100_000):
            yield b"x" * 65_536

    async def odd_redirect(self) -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: http://xn--a-/\r\n\r\n"

    async def odd_head(self) -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 \xff\r\nContent-Type: \xff\xfe\r\nContent-Length: -1\r\nRetry-After: 1e999\r\n\r\n"

    async def bomb(self) -> AsyncIterator[bytes]:
        """150 KB that unfold to 150 MB."""
        packed = gzip.compress(b" " * 150_000_000, 1)
        yield OPEN + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed


@asynccontextmanager
async def rude(way: str) -> AsyncIterator[Rude]:
    made = Rude(way)
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()


async def asks_a_model(url: str, folder: Path) -> None:
    client = OpenAIClient(url, "key")
    try:
        await client.transcribe("m", b"x", "a.wav", LIMIT_S)
    finally:
        await client.aclose()


async def mails(url: str, folder: Path) -> None:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "a@example.test", "b@example.test", "x"
    message.set_content("x")
    async with httpx.AsyncClient() as http:
        await HttpMailNotifier(http, url, "key", timeout_s=LIMIT_S).send(message, "token")


async def converts(url: str, folder: Path) -> None:
    (folder / "a.pdf").write_bytes(b"%PDF-1.7\n")
    await HttpGateway(url, result_bytes_max=1 << 20).convert(folder / "a.pdf", timeout_s=LIMIT_S)


async def fetches(url: str, folder: Path) -> None:
    await fetch(url, HERE)


async def notifies(url: str, folder: Path) -> None:
    await send_notice(url, "{}", {}, HERE, 0)


async def fetches_keys(url: str, folder: Path) -> None:
    keys = KeySet(url)
    keys.timeout = LIMIT_S
    await asyncio.to_thread(keys.fetch_data)


async def signs_in(url: str, folder: Path) -> None:
    await OidcProvider(Settings(data_dir=str(folder), oidc_issuer=url)).describe()


WAYS = ("endless", "slow_body", "slow_header", "endless_header", "bomb", "odd_redirect", "odd_head")
Asker = Callable[[str, Path], Awaitable[None]]
ASKERS = [asks_a_model, mails, converts, fetches, notifies, fetches_keys, signs_in]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("asker", ASKERS, ids=lambda each: each.__name__)
async def test_a_rude_answer_costs_a_bounded_time_and_memory(
    asker: Asker, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.http.oidc.FETCH_S", LIMIT_S)
    began = monotonic()
    async with rude(way) as server:
        try:
            await asyncio.wait_for(asker(server.url, tmp_path), 20)
            # A webhook's body is nobody's business; what merely looks like an answer may be one.
            assert asker is notifies and way in ("endless", "slow_body", "bomb")
        except CallError as error:
            assert "127.0.0.1" not in str(error) or asker in (fetches, notifies)
        except (Problem, PyJWKClientConnectionError) as error:
            assert asker in (fetches_keys, signs_in) and "127.0.0.1" not in str(error)
        assert server.sent < 3 * ANSWER_BYTES_MAX + (8 << 20)
    assert monotonic() - began < (8 if asker in (fetches_keys, signs_in) else 20)


def test_a_piece_of_an_answer_unfolds_no_further_than_what_may_come() -> None:
    """64 KiB of it may hold 64 MiB: the size is known before they are there."""
    url = httpx.URL("https://example.org/")
    inflater = outbound._inflater("gzip", url)
    assert inflater is not None
    assert len(outbound._inflate(inflater, gzip.compress(b" " * 10_000_000), 1_000, url)) == 1_000
