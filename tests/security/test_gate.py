"""No form of an address that leads inside passes the gate, for any kind of source. The listener is real."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.security.addresses import AUTHORITIES, TEXTS

from holdfast.errors import CallError
from holdfast.providers.gate import AddressRules, find_way, is_public, read_location, resolve
from holdfast.providers.outbound import OutboundPolicy, fetch
from holdfast.providers.webhook import send_notice, url_problem
from holdfast.settings import read
from holdfast_systems.conversion.settings import ConversionSettings
from holdfast_systems.grading.settings import ServiceSettings
from holdfast_systems.review.fetch_git import fetch_range
from holdfast_systems.review.fetch_url import fetch_diff
from holdfast_systems.review.git_source import GitPolicy, parse_remote
from holdfast_systems.review.settings import ReviewSettings


@dataclass
class Listener:
    """Listens on loopback, and counts who came."""

    port: int = 0
    came: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came.append(str(writer.get_extra_info("sockname")))
        writer.close()


@asynccontextmanager
async def listening() -> AsyncIterator[Listener]:
    listener = Listener()
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        six = await asyncio.start_server(listener.serve, "::1", listener.port)
    except OSError:  # a machine without IPv6
        six = None
    try:
        yield listener
    finally:
        for each in filter(None, (server, six)):
            each.close()
            await each.wait_closed()


def brief(policy: OutboundPolicy) -> OutboundPolicy:
    return replace(policy, total_s_max=5.0, connect_s_max=2.0)


async def audio(url: str) -> None:
    await fetch(url, brief(read(ServiceSettings, {}).outbound))


async def diff(url: str) -> None:
    await fetch_diff(url, policy=brief(read(ReviewSettings, {}).outbound))


async def webhook(url: str) -> None:
    await send_notice(url, "{}", {}, brief(read(ConversionSettings, {}).outbound), 0)


async def repository(url: str) -> None:
    await fetch_range(url, "HEAD", timeout_s=10, policy=GitPolicy(local_roots=()))


async def repository_by_ssh(url: str) -> None:
    await repository(url.replace("https://", "ssh://", 1))


async def redirect(url: str) -> None:
    """A public host that sends whoever asks it to the address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\nLocation: "
        writer.write(head + url.encode() + b"\r\n\r\n")
        writer.close()

    async def lookup(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"] if host == "hop.example" else await resolve(host, port)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        policy = brief(OutboundPolicy(allow_private_hosts=frozenset({"hop.example"})))
        await fetch(f"http://hop.example:{port}/", policy, resolver=lookup)
    finally:
        server.close()


Source = Callable[[str], Awaitable[None]]
SOURCES = [audio, diff, webhook, repository, repository_by_ssh, redirect]
# The last: the machine's own name server takes longer to answer than the fetch may.
REFUSED = {"ADDRESS_REFUSED", "ADDRESS_UNRESOLVED", "NETWORK_TIMEOUT"}
# A text without a scheme may be the path of a local repository; a header with some characters is no header.
REFUSED_TOO = {"REPOSITORY_REFUSED"}
BROKEN_HEADER = set(map(chr, (*range(9), *range(10, 32), 127)))


@pytest.mark.spec("K30", "G16")
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
async def test_no_form_of_an_inner_address_is_connected_to(source: Source) -> None:
    assert len(AUTHORITIES) >= 60
    passed: dict[str, str] = {}
    async with listening() as listener:
        urls = {f"https://{form}/r": REFUSED for form in AUTHORITIES} | dict.fromkeys(TEXTS, REFUSED | REFUSED_TOO)
        for form, accepted in urls.items():
            if source is redirect and set(form) & BROKEN_HEADER:
                continue
            outcome = await outcome_of(source, form.replace("{port}", str(listener.port)))
            if outcome not in accepted:
                passed[form] = outcome
        assert listener.came == [], "somebody connected"
    assert passed == {}


async def outcome_of(source: Source, url: str) -> str:
    try:
        await source(url)
    except CallError as error:
        return error.failure.error_class
    return "it went through"


# Who can reach another host, or start a program that can, and towards whom: all but the gate's own are ours to name.
REACHES = {
    "holdfast/providers/gate.py": "resolves what users give",
    "holdfast/providers/outbound.py": "dials what the gate gave",
    "holdfast_systems/review/command.py": "runs git with what the gate gave, p4 and linters without addresses",
    "holdfast/providers/openai.py": "OPENAI_BASE_URL",
    "holdfast_systems/conversion/gateway.py": "GATEWAY_URL",
    "holdfast_systems/review/engine.py": "MAIL_HTTP_URL",
    "holdfast_systems/grading/service_http.py": "GRADING_SERVICE_URL",
    "holdfast/http/key_set.py": "HOLDFAST_JWKS_URL",
    "holdfast/providers/bounded.py": "HOLDFAST_JWKS_URL, HOLDFAST_OIDC_ISSUER",
    "holdfast/operator/incident_news.py": "SMTP_URL",
    "holdfast_systems/review/smtp.py": "SMTP_URL",
    "holdfast_systems/review/imap.py": "IMAP_URL",
    "holdfast/cli/serve.py": "listens",
    "holdfast_systems/sandbox/parent.py": "starts the sandbox",
    "holdfast/kernel/running/processes.py": "starts processes of handlers",
    "holdfast/cli/reload.py": "starts the worker anew",
    "holdfast/cli/remote.py": "the server that a person at a terminal names",
    "holdfast_systems/review/demo.py": "makes a repository",
}
REACHING = re.compile(
    r"httpx\.(?:AsyncClient|Client|AsyncHTTPTransport|HTTPTransport|get|post|stream|request)\(|urllib\.request|urlopen"
    r"|http\.client|import aiohttp|requests\.|PyJWKClient\b|create_subprocess|subprocess\.(?:run|Popen|call|check)"
    r"|os\.(?:system|popen)|open_connection|create_connection|socket\.socket\(\w+, |getaddrinfo"
    r"|smtplib\.SMTP|imaplib\.IMAP4|import aiosmtplib|import paramiko|import ftplib"
)


@pytest.mark.spec("K30")
def test_nobody_but_these_can_reach_another_host() -> None:
    sources = Path(__file__).parents[2] / "src"
    reaching = {str(path.relative_to(sources)) for path in sources.rglob("*.py") if REACHING.search(path.read_text())}
    simulated = {path for path in reaching if path.startswith("holdfast_proof/") or "/sim/" in path}
    assert reaching - simulated == set(REACHES)


@pytest.mark.spec("K30")
async def test_a_host_that_changes_its_address_is_looked_up_once() -> None:
    answers = iter([["93.184.216.34"], ["127.0.0.1"]])

    async def rebinding(host: str, port: int) -> list[str]:
        return next(answers)

    way = await find_way("https://rebind.example/x", AddressRules(), resolver=rebinding)
    assert way.addresses == ("93.184.216.34",)
    with pytest.raises(CallError):
        await find_way("https://rebind.example/x", AddressRules(), resolver=rebinding)


@pytest.mark.spec("K30")
async def test_one_inner_address_among_several_condemns_the_host() -> None:
    async def mixed(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "::ffff:10.0.0.1"]

    with pytest.raises(CallError) as caught:
        await find_way("https://mixed.example/", AddressRules(), resolver=mixed)
    assert caught.value.failure.error_class == "ADDRESS_REFUSED"


@pytest.mark.spec("K30")
@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "a.localhost", "x.localdomain", "printer.local", "a.internal"]
)
async def test_a_local_name_is_refused_whatever_ours_resolves_it_to(host: str) -> None:
    """Programs that are handed the name have an answer of their own for some: curl's for `a.localhost` is loopback."""

    async def public(host: str, port: int) -> list[str]:
        return ["93.184.216.34"]

    with pytest.raises(CallError) as caught:
        await find_way(f"https://{host}/x", AddressRules(), resolver=public)
    assert caught.value.failure.error_class == "ADDRESS_REFUSED"
    assert (await find_way(f"https://{host}/x", AddressRules(any_private=True), resolver=public)).addresses
    assert (await find_way(f"https://{host.rstrip('.')}.example.org/x", AddressRules(), resolver=public)).addresses


@pytest.mark.spec("K30")
async def test_what_cannot_be_resolved_is_tried_again_and_never_passed_on() -> None:
    async def nothing(host: str, port: int) -> list[str]:
        raise OSError("no such host")

    with pytest.raises(CallError) as caught:
        await parse_remote("https://nowhere.example/x", GitPolicy(), resolver=nothing)
    assert (caught.value.failure.error_class, caught.value.failure.retryable) == ("ADDRESS_UNRESOLVED", True)


@pytest.mark.spec("K30")
async def test_a_setting_lets_a_private_host_through_pinned() -> None:
    async def inner(host: str, port: int) -> list[str]:
        return ["10.0.0.7"]

    rules = AddressRules(private_hosts=frozenset({"Git.Intern.", "[::1]"}))
    assert (await find_way("https://git.intern/x", rules, resolver=inner)).addresses == ("10.0.0.7",)
    assert (await find_way("https://[0:0::1]/x", rules)).addresses == ("::1",)
    with pytest.raises(CallError):
        await find_way("https://other.intern/x", rules, resolver=inner)


@pytest.mark.spec("K30")
@pytest.mark.parametrize("rest", ["/a b", "/\\", "/\x7f", "/<", '/"'])
def test_what_has_no_place_in_an_address_is_refused_wherever_it_stands(rest: str) -> None:
    with pytest.raises(CallError, match="characters that have no place in a URL"):
        read_location(f"https://example.org{rest}", AddressRules())


@pytest.mark.spec("K30")
def test_an_address_has_no_zone() -> None:
    with pytest.raises(CallError, match="no IPv6 address without a zone"):
        read_location("https://[2606:4700::1111%eth0]/", AddressRules())


@pytest.mark.spec("K30")
def test_an_error_names_the_host_and_nothing_else_of_the_address() -> None:
    secret = "p4ssw0rd"
    for url in (f"https://u:{secret}@example.org/", f"https://exa%6dple.org/?sig={secret}", f"gopher://x/{secret}"):
        with pytest.raises(CallError) as caught:
            read_location(url, AddressRules())
        assert secret not in str(caught.value)
        assert secret not in (url_problem(url) or "")


@pytest.mark.spec("K30")
@example(text="xn--a/", scheme="https://")
@example(text="xn--ls8h.la/", scheme="https://")
@given(text=st.text(max_size=80), scheme=st.sampled_from(["http://", "https://", "ssh://", ""]))
def test_whatever_is_read_is_written_anew_in_one_way(text: str, scheme: str) -> None:
    rules = AddressRules(frozenset({"http", "https", "ssh"}), userinfo=True)
    try:
        first = read_location(scheme + text, rules)
    except CallError as error:
        assert error.failure.error_class == "ADDRESS_REFUSED"
        return
    assert httpx.URL(first.url).host, "what the gate reads, the client can read"
    again = read_location(first.url, rules)
    assert (again.host, again.port, again.rest) == (first.host, first.port, first.rest)
    assert first.url.isascii() and not set(first.host) & set("%@/\\?# ")


@pytest.mark.spec("K30")
@given(address=st.ip_addresses(v=4))
def test_a_wrapped_address_is_as_public_as_what_it_wraps(address: object) -> None:
    assert is_public(f"::ffff:{address}") == is_public(str(address))
    assert (
        is_public(f"2606:4700::5efe:{address}")
        == is_public(f"2606:4700::200:5efe:{address}")
        == is_public(str(address))
    )


@pytest.mark.parametrize(
    ("takes_users", "why"),
    [(False, "it carries credentials that are not taken here"), (True, "its user is unreadable")],
)
def test_why_a_user_in_an_address_is_refused_is_told(takes_users: bool, why: str) -> None:
    with pytest.raises(CallError, match=why):
        read_location("https://ann:p%zw@example.org/a", AddressRules(userinfo=takes_users))
