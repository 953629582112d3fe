"""What may be fetched from a URL that a stranger gave us."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import socket
import ssl
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from holdfast.core.failure import Category
from holdfast.errors import CallError
from holdfast.providers.gate import is_public
from holdfast.providers.outbound import Fetched, OutboundPolicy, fetch

HOST = "audio.example"
WHOLE = gzip.compress(b"Cities grow because people look for work.", mtime=0)
LOCAL = OutboundPolicy(allow_private_hosts=frozenset({HOST}), total_s_max=5, bytes_max=1_000)


class Names:
    """A resolver that gives each answer of a script once; the last one stays."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


Reply = Callable[[bytes], bytes]


@asynccontextmanager
async def server(
    reply: Reply, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(reply(await reader.readuntil(b"\r\n\r\n")))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, host, port, ssl=tls)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


def ok(body: bytes, *headers: str, length: int | None = None) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body) if length is None else length}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def redirect(location: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


async def failure_of(call: Awaitable[Fetched]) -> CallError:
    with pytest.raises(CallError) as caught:
        await call
    return caught.value


def is_refused(error: CallError) -> bool:
    known = error.failure
    return (known.category, known.error_class, known.retryable) == (
        Category.POLICY,
        "ADDRESS_REFUSED",
        False,
    )


@pytest.mark.spec("G16")
@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
        *(
            "169.254.169.254",
            "100.64.0.1",
            "100.100.100.200",
            "192.0.0.8",
            "192.0.2.1",
            "198.18.0.1",
            "203.0.113.9",
        ),
        *("224.0.0.1", "240.0.0.1", "255.255.255.255", "192.88.99.1", "168.63.129.16"),
        *(
            "::",
            "::1",
            "fe80::1",
            "fe80::1%eth0",
            "fc00::1",
            "fd00:ec2::254",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
        ),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "::ffff:0:127.0.0.1"),
        *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "2002:7f00:1::", "2002:808:808::1"),
        *("2001:0:4136:e378:8000:63bf:3fff:fdd2", "100::1", "5f00::1", "3fff::1", "not-an-address"),
    ],
)
def test_an_address_that_is_not_public_is_recognised(address: str) -> None:
    assert not is_public(address)


@pytest.mark.spec("G16")
@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "172.32.0.1"],
)
def test_a_public_address_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.spec("G16")
@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://127.1/",
            "http://0x7f.1/",
        ),
        *(
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://127.0.0.1:8080/",
            "http://0/",
            "http://[fe80::1]/",
        ),
        *("file:///etc/hostname", "ftp://files.example/a", "gopher://x/", "data:,hello", "//files.example/a"),
        *("http:///path", "http://user:secret@files.example/", "not a url", "http://[broken/", ""),
    ],
)
async def test_a_url_that_points_inside_or_elsewhere_is_refused(url: str) -> None:
    names = Names([])
    error = await failure_of(fetch(url, OutboundPolicy(), resolver=names))
    assert is_refused(error) and names.asked == []
    assert "secret" not in str(error)


@pytest.mark.spec("G16")
@pytest.mark.parametrize("answer", [["127.0.0.1"], ["2606:4700::1111", "10.0.0.1"], ["64:ff9b::a00:1"]])
async def test_a_name_with_any_private_address_is_refused(answer: list[str]) -> None:
    assert is_refused(await failure_of(fetch("https://files.example/a", OutboundPolicy(), resolver=Names(answer))))


@pytest.mark.spec("G16")
async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    seen: list[bytes] = []

    def reply(request: bytes) -> bytes:
        seen.append(request)
        return ok(b"sound", "Content-Type: audio/ogg")

    names = Names(["127.0.0.1"], ["127.0.0.99"])
    async with server(reply) as port:
        fetched = await fetch(f"http://{HOST}:{port}/a?sig=1#x", LOCAL, resolver=names)
    assert fetched == Fetched(b"sound", "audio/ogg", f"http://{HOST}:{port}/a?sig=1")
    assert names.asked == [HOST], "a second look-up could be answered differently"
    assert f"host: {HOST}:{port}".encode() in seen[0].lower() and seen[0].startswith(b"GET /a?sig=1 ")


@pytest.mark.spec("G16")
async def test_a_second_address_is_tried_when_the_first_does_not_listen() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # nobody else listens there meanwhile
        port = deaf.getsockname()[1]
        async with server(lambda _: ok(b"sound"), host="127.0.0.2", port=port):
            fetched = await fetch(f"http://{HOST}:{port}/", LOCAL, resolver=Names(["127.0.0.1", "127.0.0.2"]))
    assert fetched.content == b"sound"


@pytest.mark.spec("G16")
@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://inside.example/",
        "file:///etc/hostname",
        "http://[::1]/",
    ],
)
async def test_a_redirect_is_checked_like_a_first_url(location: str) -> None:
    async with server(lambda _: redirect(location)) as port:
        call = fetch(f"http://{HOST}:{port}/", LOCAL, resolver=Names(["127.0.0.1"]))
        assert is_refused(await failure_of(call))


@pytest.mark.spec("G16")
async def test_redirects_are_followed_up_to_the_limit_and_resolved_again() -> None:
    def reply(request: bytes) -> bytes:
        step = int(request.split(b" ")[1][1:])
        return redirect(f"/{step - 1}") if step else ok(b"end")

    async with server(reply) as port:
        names = Names(["127.0.0.1"])
        fetched = await fetch(f"http://{HOST}:{port}/3", LOCAL, resolver=names)
        assert fetched.content == b"end" and fetched.final_url.endswith("/0") and len(names.asked) == 4
        assert is_refused(await failure_of(fetch(f"http://{HOST}:{port}/4", LOCAL, resolver=names)))


@pytest.mark.spec("G16")
@pytest.mark.parametrize(
    "reply",
    [
        ok(b"", length=1_001),
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"x" * 5_000,
        ok(gzip.compress(b"0" * 100_000, mtime=0), "Content-Encoding: gzip"),
        ok(zlib.compress(b"0" * 100_000), "Content-Encoding: deflate"),
    ],
    ids=["announced", "streamed", "gzip bomb", "deflate bomb"],
)
async def test_a_body_over_the_limit_is_cut_off(reply: bytes) -> None:
    async with server(lambda _: reply) as port:
        error = await failure_of(fetch(f"http://{HOST}:{port}/", LOCAL, resolver=Names(["127.0.0.1"])))
    assert (error.failure.category, error.failure.error_class) == (Category.VALIDATION, "OUTBOUND_TOO_LARGE")
    assert not error.failure.retryable


@pytest.mark.spec("G16")
async def test_a_compressed_bomb_never_unfolds_in_memory() -> None:
    bomb = ok(gzip.compress(b"0" * 60_000_000), "Content-Encoding: gzip")
    policy = OutboundPolicy(allow_private_hosts=frozenset({HOST}), bytes_max=200_000)
    async with server(lambda _: bomb) as port:
        tracemalloc.start()
        try:
            await failure_of(fetch(f"http://{HOST}:{port}/", policy, resolver=Names(["127.0.0.1"])))
            assert tracemalloc.get_traced_memory()[1] < 8_000_000
        finally:
            tracemalloc.stop()


@pytest.mark.spec("G16")
@pytest.mark.parametrize(
    ("reply", "error_class"),
    [
        (ok(b"no gzip", "Content-Encoding: gzip"), "OUTBOUND_UNREADABLE"),
        (ok(WHOLE + WHOLE, "Content-Encoding: gzip"), "OUTBOUND_UNREADABLE"),
        (b"HTTP/1.1 206 Partial\r\nContent-Length: 0\r\n\r\n", "OUTBOUND_UNREADABLE"),
        *((ok(WHOLE[:end], "Content-Encoding: gzip"), "NETWORK_BROKEN") for end in (0, 1, 20, -9, -1)),
    ],
)
async def test_a_body_that_is_broken_or_a_part_is_not_taken_for_the_whole(reply: bytes, error_class: str) -> None:
    async with server(lambda _: reply) as port:
        error = await failure_of(fetch(f"http://{HOST}:{port}/", LOCAL, resolver=Names(["127.0.0.1"])))
    assert error.failure.error_class == error_class and error.failure.retryable == (error_class == "NETWORK_BROKEN")


@pytest.mark.spec("G16")
async def test_a_body_of_exactly_the_limit_is_read_and_gzip_is_understood() -> None:
    replies = [ok(b"x" * 1_000), ok(gzip.compress(b"y" * 1_000), "Content-Encoding: gzip")]
    async with server(lambda _: replies.pop()) as port:
        for letter in (b"y", b"x"):
            fetched = await fetch(f"http://{HOST}:{port}/", LOCAL, resolver=Names(["127.0.0.1"]))
            assert fetched.content == letter * 1_000


@pytest.mark.spec("G16", "K5")
async def test_an_http_error_is_classified_by_its_status() -> None:
    async def ask(status: str) -> CallError:
        async with server(lambda _: f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()) as port:
            return await failure_of(fetch(f"http://{HOST}:{port}/?sig=s3cret", LOCAL, resolver=Names(["127.0.0.1"])))

    gone, busy = await ask("404 Not Found"), await ask("503 Busy\r\nRetry-After: 7")
    assert not gone.failure.retryable and gone.failure.status == 404 and "s3cret" not in str(gone)
    assert busy.failure.retryable and busy.failure.retry_after_ms == 7_000


@pytest.mark.spec("G16", "K5")
async def test_a_body_cut_short_by_the_network_may_be_tried_again() -> None:
    async with server(lambda _: ok(b"half", length=900)) as port:
        error = await failure_of(fetch(f"http://{HOST}:{port}/", LOCAL, resolver=Names(["127.0.0.1"])))
    assert error.failure.category is Category.NETWORK and error.failure.retryable


@pytest.mark.spec("G16", "K5")
async def test_a_host_that_does_not_listen_or_resolve_may_be_tried_again() -> None:
    async with server(lambda _: b"") as port:
        pass
    closed = await failure_of(fetch(f"http://{HOST}:{port}/", LOCAL, resolver=Names(["127.0.0.1"])))
    nameless = await failure_of(fetch(f"http://{HOST}/", LOCAL, resolver=Names([])))
    assert closed.failure.retryable and nameless.failure.retryable


@pytest.mark.spec("G16")
async def test_a_server_that_never_ends_is_left_in_time() -> None:
    silent = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        policy = OutboundPolicy(allow_private=True, total_s_max=0.05)
        error = await failure_of(fetch(f"http://127.0.0.1:{port}/", policy))
        silent.set()
    assert error.failure.error_class == "NETWORK_TIMEOUT" and error.failure.retryable


def certificate(name: str, folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server context for `name`, and a client context that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=3))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    file = folder / "server.pem"
    file.write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()) + made.public_bytes(pem))
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(file)
    return serving, ssl.create_default_context(cadata=made.public_bytes(pem).decode())


@pytest.mark.spec("G16")
@pytest.mark.parametrize("name", [HOST, "other.example"])
async def test_tls_is_verified_against_the_name_although_the_address_is_pinned(name: str, tmp_path: Path) -> None:
    serving, trusting = certificate(name, tmp_path)
    async with server(lambda _: ok(b"sound"), tls=serving) as port:
        call = fetch(f"https://{HOST}:{port}/", LOCAL, resolver=Names(["127.0.0.1"]), tls=trusting)
        if name == HOST:
            assert (await call).content == b"sound"
        else:
            assert (await failure_of(call)).failure.category is Category.NETWORK
