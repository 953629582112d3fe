"""Gateways over HTTP, against a server on loopback that answers as it is told."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest
from tests.systems.conversion import pdfs

from holdfast.core.failure import Failure
from holdfast.errors import CallError, SettingsError
from holdfast_systems.conversion.codes import Code, conversion_failure, public_error
from holdfast_systems.conversion.embedded import EmbeddedGateway, Limits
from holdfast_systems.conversion.gateway import Gateway, GrobidGateway, HttpGateway, gateway_for

XML = b"<?xml version='1.0'?><TEI><p>tides</p></TEI>"
BOMB = (
    b'<!DOCTYPE b [<!ENTITY a "aaaaaaaaaa">'
    + b"".join(b'<!ENTITY a%d "%s">' % (n, b"&a%s;" % (str(n - 1).encode() if n else b"") * 10) for n in range(9))
    + b"]><b>&a8;</b>"
)


@dataclass(frozen=True)
class Request:
    line: str
    headers: dict[str, str]
    body: bytes

    def form(self) -> dict[str, bytes]:
        """The fields of a multipart body, read by a parser that is not ours."""
        head = b"Content-Type: " + self.headers["content-type"].encode() + b"\r\n\r\n"
        form = BytesParser().parsebytes(head + self.body)
        parts = [part for part in form.walk() if not part.is_multipart()]
        return {str(part.get_param("name", header="content-disposition")): payload(part) for part in parts}


def payload(part: Message) -> bytes:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    return content


@dataclass
class Server:
    """Answers each request with `answer`, then closes; `stall` keeps it from answering."""

    answer: bytes
    stall: bool = False
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append(Request(head[0], headers, body))
        self.asked.set()
        if self.stall:
            await self.released.wait()
        writer.write(self.answer)
        await writer.drain()
        writer.close()


def http(status: int, body: bytes = b"", *headers: str, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {size}", "Content-Type: application/xml", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def serving(answer: bytes, *, stall: bool = False) -> AsyncIterator[Server]:
    served = Server(answer, stall)
    running = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}"
    try:
        yield served
    finally:
        served.released.set()
        running.close()
        await running.wait_closed()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.pdf"
    path.write_bytes(pdfs.good())
    return path


async def failure_of(call: Awaitable[bytes]) -> Failure:
    with pytest.raises(CallError) as raised:
        await call
    return raised.value.failure


async def answered(source: Path, answer: bytes, make: Callable[[str], Gateway] = HttpGateway) -> Failure:
    async with serving(answer) as server:
        found = await failure_of(make(server.url).convert(source, timeout_s=20))
    assert len(server.requests) == 1, "clients never retry"
    return found


@pytest.mark.spec("C9")
async def test_the_generic_gateway_sends_the_file_and_gives_the_xml(source: Path) -> None:
    async with serving(http(200, XML)) as server:
        assert await HttpGateway(f"{server.url}/convert").convert(source, timeout_s=20) == XML
    (request,) = server.requests
    assert request.line == "POST /convert HTTP/1.1"
    assert request.form() == {"file": pdfs.good()}


@pytest.mark.spec("C9")
async def test_a_large_file_is_sent_whole(tmp_path: Path) -> None:
    path = tmp_path / "large.pdf"
    path.write_bytes(pdfs.many_pages())
    async with serving(http(200, XML)) as server:
        await HttpGateway(server.url).convert(path, timeout_s=20)
    assert server.requests[0].form()["file"] == pdfs.many_pages()


@pytest.mark.spec("C9", "C2", "C3")
@pytest.mark.parametrize(
    ("answer", "error_class", "code", "faults"),
    [
        (http(204), "NOTHING_EXTRACTED", Code.GW_4XX, False),
        (http(302, b"", "Location: /login"), "GATEWAY_MISCONFIGURED", Code.GW_4XX, False),
        (http(400), "UPSTREAM_BAD_REQUEST", Code.GW_4XX, False),
        (http(401), "AUTH_INVALID", Code.GW_4XX, False),
        (http(409), "UPSTREAM_CONFLICT", Code.GW_4XX, False),
        (http(413), "UPSTREAM_TOO_LARGE", Code.GW_4XX, False),
        (http(412), "UPSTREAM_PRECONDITION", Code.GW_4XX, False),
        (http(408), "GW_UNAVAILABLE", Code.GW_5XX, True),
        (http(425), "GW_UNAVAILABLE", Code.GW_5XX, False),
        (http(429), "GW_UNAVAILABLE", Code.GW_5XX, False),
        (http(429, b"", "Retry-After: 7"), "GW_UNAVAILABLE", Code.GW_5XX, False),
        (http(500), "UPSTREAM_INTERNAL", Code.GW_5XX, True),
        (http(502), "UPSTREAM_BAD_GATEWAY", Code.GW_5XX, True),
        (http(503), "UPSTREAM_UNAVAILABLE", Code.GW_5XX, True),
        (http(504), "UPSTREAM_GATEWAY_TIMEOUT", Code.GW_TIMEOUT, True),
        (http(200, XML, length=len(XML) + 9), "NETWORK_BROKEN", Code.GW_5XX, True),
        (b"", "NETWORK_BROKEN", Code.GW_5XX, True),
        (b"\x00\x01 not http\r\n\r\n", "NETWORK_BROKEN", Code.GW_5XX, True),
        (http(200, b"it went well"), "PARSE_ERROR", Code.GW_4XX, False),
        (http(200, b""), "PARSE_ERROR", Code.GW_4XX, False),
        (http(200, XML[:-3]), "PARSE_ERROR", Code.GW_4XX, False),
        (http(200, b"<html/>").replace(b"application/xml", b"text/html"), "PARSE_ERROR", Code.GW_4XX, False),
        (http(200, BOMB), "PARSE_ERROR", Code.GW_4XX, False),
        (http(200, gzip.compress(XML, mtime=0), "Content-Encoding: gzip"), "PARSE_ERROR", Code.GW_4XX, False),
    ],
)
async def test_every_bad_answer_has_its_class_and_code(
    source: Path, answer: bytes, error_class: str, code: Code, faults: bool
) -> None:
    found = await answered(source, answer)
    assert (found.error_class, found.faults) == (error_class, faults)
    assert public_error(found)[0] is code
    assert conversion_failure(CallError(found)).retryable is (code is not Code.GW_4XX)


@pytest.mark.spec("C9", "K4")
async def test_retry_after_is_heard(source: Path) -> None:
    assert (await answered(source, http(503, b"", "Retry-After: 7"))).retry_after_ms == 7_000


@pytest.mark.spec("C9")
async def test_an_answer_over_the_limit_is_cut_off(source: Path) -> None:
    large = http(200, b"<a>" + b"x" * 100_000 + b"</a>")
    found = await answered(source, large, lambda url: HttpGateway(url, result_bytes_max=50_000))
    assert (found.error_class, found.retryable) == ("RESULT_TOO_LARGE", False)


@pytest.mark.spec("C5", "C9", "001.20")
async def test_a_slow_gateway_times_out_in_all(source: Path) -> None:
    async with serving(http(200, XML), stall=True) as server:
        found = await failure_of(HttpGateway(server.url).convert(source, timeout_s=0.2))
    assert (found.error_class, found.faults, found.retryable) == ("GATEWAY_TIMEOUT", True, True)
    assert public_error(found)[0] is Code.GW_TIMEOUT


@pytest.mark.spec("C5", "C9")
async def test_a_gateway_that_drips_times_out_in_all(source: Path) -> None:
    """Each byte comes in time, the answer never does: only a limit on the whole call ends it."""
    done = asyncio.Event()

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(http(200, b"<a>", length=1_000_000))
        while not done.is_set():
            writer.write(b" ")
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), 0.02)
        writer.close()

    running = await asyncio.start_server(drip, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}"
    try:
        async with asyncio.timeout(10):
            found = await failure_of(HttpGateway(url).convert(source, timeout_s=0.3))
    finally:
        done.set()
        running.close()
    assert found.error_class == "GATEWAY_TIMEOUT"


@pytest.mark.spec("C9")
async def test_a_gateway_that_is_not_there_is_unavailable(source: Path) -> None:
    async with serving(b"") as server:
        pass
    found = await failure_of(HttpGateway(server.url).convert(source, timeout_s=20))
    assert (found.error_class, found.ambiguous, found.faults) == ("NETWORK_UNREACHABLE", False, True)
    assert public_error(found)[0] is Code.GW_5XX
    assert not await HttpGateway(server.url).healthy()


@pytest.mark.spec("C9", "C3")
async def test_a_source_that_is_gone_is_a_local_error(tmp_path: Path) -> None:
    async with serving(http(200, XML)) as server:
        found = await failure_of(HttpGateway(server.url).convert(tmp_path / "gone.pdf", timeout_s=20))
    assert (found.error_class, found.faults, server.requests) == ("IO_ERROR", False, [])


@pytest.mark.spec("C9")
async def test_a_cancelled_call_ends_at_once(source: Path) -> None:
    async with serving(http(200, XML), stall=True) as server:
        task = asyncio.ensure_future(HttpGateway(server.url).convert(source, timeout_s=600))
        await server.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.spec("C9")
async def test_grobid_is_called_by_its_own_contract(source: Path) -> None:
    async with serving(http(200, XML)) as server:
        assert await GrobidGateway(f"{server.url}/").convert(source, timeout_s=20) == XML
    (request,) = server.requests
    assert request.line == "POST /api/processFulltextDocument HTTP/1.1"
    assert request.form() == {"consolidateHeader": b"0", "consolidateCitations": b"0", "input": pdfs.good()}


@pytest.mark.spec("C9", "K4", "K9")
@pytest.mark.parametrize(
    ("headers", "dice", "wait_ms"),
    [([], 0.0, 5_000), ([], 0.999, 9_995), (["Retry-After: 30"], 0.5, 30_000), (["Retry-After: 1"], 0.5, 7_500)],
)
async def test_grobids_503_is_backpressure_and_no_fault(
    source: Path, headers: list[str], dice: float, wait_ms: int
) -> None:
    found = await answered(source, http(503, b"", *headers), lambda url: GrobidGateway(url, dice=lambda: dice))
    assert (found.error_class, found.faults, found.retryable) == ("GATEWAY_BUSY", False, True)
    assert found.retry_after_ms == wait_ms


@pytest.mark.spec("C9")
@pytest.mark.parametrize(("status", "error_class"), [(204, "NOTHING_EXTRACTED"), (500, "UPSTREAM_INTERNAL")])
async def test_grobids_other_answers_are_read_as_any_gateways(source: Path, status: int, error_class: str) -> None:
    assert (await answered(source, http(status), GrobidGateway)).error_class == error_class


@pytest.mark.spec("C4")
@pytest.mark.parametrize(
    ("make", "status", "healthy", "asked"),
    [
        (GrobidGateway, 200, True, "GET /api/isalive HTTP/1.1"),
        (GrobidGateway, 503, False, "GET /api/isalive HTTP/1.1"),
        (HttpGateway, 200, True, "GET / HTTP/1.1"),
        (HttpGateway, 405, True, "GET / HTTP/1.1"),
        (HttpGateway, 502, False, "GET / HTTP/1.1"),
    ],
)
async def test_the_health_probe_says_whether_a_call_is_worth_making(
    make: Callable[[str], Gateway], status: int, healthy: bool, asked: str
) -> None:
    async with serving(http(status, b"true")) as server:
        assert await make(server.url).healthy() is healthy
    assert [request.line for request in server.requests] == [asked]


@pytest.mark.spec("C9", "C11")
def test_the_url_chooses_the_gateway() -> None:
    limits = Limits(pages=7)
    assert gateway_for(None, limits=limits) == EmbeddedGateway(limits)
    assert gateway_for("") == EmbeddedGateway()
    assert gateway_for("grobid+http://h:8070/base") == GrobidGateway("http://h:8070/base")
    assert gateway_for("grobid+https://h") == GrobidGateway("https://h")
    assert gateway_for("https://h/convert", result_bytes_max=9) == HttpGateway("https://h/convert", result_bytes_max=9)


@pytest.mark.spec("C11")
@pytest.mark.parametrize(
    "url", ["ftp://h/x", "file:///etc/passwd", "h:8070", "http://", "other+http://h", "grobid://h"]
)
def test_any_other_url_is_a_problem_of_the_settings(url: str) -> None:
    with pytest.raises(SettingsError, match="GATEWAY_URL"):
        gateway_for(url)
