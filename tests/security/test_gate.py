"""No form of an address that leads inside passes the gate, for any kind of source. The listener is real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CallError
from holdfast.providers.gate import Rules, find_way, is_public, read_location
from holdfast.providers.outbound import OutboundPolicy, fetch
from holdfast.providers.webhook import send_notice, url_problem
from holdfast_systems.review.fetch_git import fetch_range
from holdfast_systems.review.git_source import GitPolicy, parse_remote

# What stands between the scheme and the path; `{port}` is where the listener is. All lead inside, or nowhere.
AUTHORITIES = [
    # plainly
    *("127.0.0.1:{port}", "127.9.9.9:{port}", "0.0.0.0:{port}", "[::1]:{port}", "[::]:{port}", "localhost:{port}"),
    *("10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "198.18.0.1", "224.0.0.1"),
    *("255.255.255.255", "168.63.129.16", "192.0.2.1", "[fe80::1]", "[fc00::1]", "[fd00:ec2::254]"),
    # names that some resolvers answer by themselves
    *("LOCALHOST:{port}", "localhost.:{port}", "x.localhost:{port}", "a.b.localhost:{port}", "localhost.localdomain"),
    *("printer.local", "metadata.google.internal", "ip6-localhost:{port}"),
    # numbers in other spellings
    *("127.1:{port}", "127.0.1:{port}", "2130706433:{port}", "0x7f000001:{port}", "0x7f.0.0.1:{port}", "0x7f.1:{port}"),
    *("0177.0.0.1:{port}", "017700000001:{port}", "127.0.0.01:{port}", "0:{port}", "127.0.0.1.:{port}", "0x:{port}"),
    *("1.2.3.4.5", "00000177.1:{port}", "127.0.0.0x1:{port}", "4294967295", "127.0.0.1.127:{port}"),
    # IPv4 inside IPv6, and zones
    *("[::ffff:127.0.0.1]:{port}", "[::ffff:7f00:1]:{port}", "[::127.0.0.1]:{port}", "[64:ff9b::7f00:1]:{port}"),
    *("[0:0:0:0:0:0:0:1]:{port}", "[::1%25lo]:{port}", "[::1%lo]:{port}", "[fe80::1%25eth0]:{port}", "[2002:7f00:1::]"),
    # percent-encoded
    *("127%2e0.0.1:{port}", "127%2E0%2E0%2E1:{port}", "lo%63alhost:{port}", "%6cocalhost:{port}"),
    *("127.0.0.1%00.example.org:{port}", "127.0.0.1%0d%0aHost:{port}", "%5b::1%5d:{port}"),
    # other scripts that are mapped to these
    *(
        "１２７.0.0.1:{port}",
        "①②⑦.⓪.⓪.①:{port}",
        "127。0。0。1:{port}",
        "ⓛocalhost:{port}",
        "ＬＯＣＡＬＨＯＳＴ:{port}",
    ),
    # user info, and what looks like it
    *("user@127.0.0.1:{port}", "user:pw@127.0.0.1:{port}", "example.org@127.0.0.1:{port}", "a@b@127.0.0.1:{port}"),
    *("127.0.0.1:{port}\\@example.org", "example.org\\@127.0.0.1:{port}", "127.0.0.1:{port}\\.example.org"),
    # broken authorities
    *("", ":{port}", "127.0.0.1:80:{port}", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1:+{port}"),
    *("[127.0.0.1]:{port}", "[v1.127]:{port}", "[::1:{port}", "::1:{port}", "[::1]x:{port}", "127.0.0.1,x:{port}"),
    *(" 127.0.0.1:{port}", "127.0.0.1 :{port}", "\t127.0.0.1:{port}", "127.0.0.1\n:{port}", "127.0.0.1;x:{port}"),
    # further spellings: other bases and marks in parts of a number, other wraps of IPv4, invisible characters
    *("127.0x0.0.1:{port}", "0b1111111.1:{port}", "127.0.0.1e0:{port}", "1_27.0.0.1:{port}", "+127.0.0.1:{port}"),
    *(
        "[::ffff:0:127.0.0.1]:{port}",
        "[::ffff:0x7f.1]:{port}",
        "[::ffff:127.1]:{port}",
        "[0::0::1]:{port}",
        "[]:{port}",
    ),
    *("[64:ff9b:1::7f00:1]:{port}", "[2001:0:7f00:1::]:{port}", "[fec0::1]:{port}", "[ff02::1]:{port}", "[::2]:{port}"),
    *("loc\u00adalhost:{port}", "local\u200bhost:{port}", "127.0.0.1\u200b:{port}", "\u2488\u2488:{port}"),
    *("١٢٧.٠.٠.١:{port}", "localhoſt:{port}", "127.0.0.1\u3002:{port}", "127．0．0．1:{port}", "ip6-loopback:{port}"),
    *("host.docker.internal:{port}", "kubernetes.default.svc.cluster.local", "x.home.arpa", "a.lan", "router.home"),
    *("127.0.0.1:{port}?@example.org", "127.0.0.1:{port}#@example.org", "127.0.0.1:{port}&@example.org"),
    *(
        "example.org:{port}@127.0.0.1:{port}",
        "[::1]@127.0.0.1:{port}",
        "127.0.0.1:٨٠",
        "127.0.0.1:0x50",
        "127.0.0.1:-1",
    ),
    *("$(id):{port}", "-oProxyCommand=x:{port}", "a..b:{port}", ".127.0.0.1:{port}", "exa mple.org", "x" * 64 + ".org"),
]


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


async def fetched(authority: str) -> None:
    await fetch(f"http://{authority}/r", OutboundPolicy(total_s_max=5, connect_s_max=2))


async def noticed(authority: str) -> None:
    await send_notice(f"https://{authority}/r", "{}", {}, OutboundPolicy(total_s_max=5, connect_s_max=2), 0)


async def cloned_by_https(authority: str) -> None:
    await fetch_range(f"https://{authority}/r", "HEAD", timeout_s=10)


async def cloned_by_ssh(authority: str) -> None:
    await fetch_range(f"ssh://{authority}/r", "HEAD", timeout_s=10)


Source = Callable[[str], Awaitable[None]]


@pytest.mark.spec("K30", "G16")
@pytest.mark.parametrize("source", [fetched, noticed, cloned_by_https, cloned_by_ssh], ids=lambda one: one.__name__)
async def test_no_form_of_an_inner_address_is_connected_to(source: Source) -> None:
    assert len(AUTHORITIES) >= 60
    passed: dict[str, str] = {}
    async with listening() as listener:
        for form in AUTHORITIES:
            authority = form.replace("{port}", str(listener.port))
            try:
                await source(authority)
            except CallError as error:
                outcome = error.failure.error_class
            else:
                outcome = "it went through"
            if outcome not in ("ADDRESS_REFUSED", "ADDRESS_UNRESOLVED"):
                passed[form] = outcome
        assert listener.came == [], "somebody connected"
    assert passed == {}


@pytest.mark.spec("K30")
@pytest.mark.parametrize(
    "repo", ["git@127.0.0.1:x/y", "127.0.0.1:x", "git@localhost:x", "ext::sh -c id", "fd::7", "file:///etc"]
)
async def test_short_forms_of_a_repository_are_refused_too(repo: str) -> None:
    with pytest.raises(CallError) as caught:
        await parse_remote(repo, GitPolicy())
    assert caught.value.failure.error_class == "ADDRESS_REFUSED" and not caught.value.failure.retryable


@pytest.mark.spec("K30")
async def test_a_host_that_changes_its_address_is_looked_up_once() -> None:
    answers = iter([["93.184.216.34"], ["127.0.0.1"]])

    async def rebinding(host: str, port: int) -> list[str]:
        return next(answers)

    way = await find_way("https://rebind.example/x", Rules(), resolver=rebinding)
    assert way.addresses == ("93.184.216.34",)
    with pytest.raises(CallError):
        await find_way("https://rebind.example/x", Rules(), resolver=rebinding)


@pytest.mark.spec("K30")
async def test_one_inner_address_among_several_condemns_the_host() -> None:
    async def mixed(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "::ffff:10.0.0.1"]

    with pytest.raises(CallError) as caught:
        await find_way("https://mixed.example/", Rules(), resolver=mixed)
    assert caught.value.failure.error_class == "ADDRESS_REFUSED"


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

    rules = Rules(private_hosts=frozenset({"Git.Intern.", "[::1]"}))
    assert (await find_way("https://git.intern/x", rules, resolver=inner)).addresses == ("10.0.0.7",)
    assert (await find_way("https://[0:0::1]/x", rules)).addresses == ("::1",)
    with pytest.raises(CallError):
        await find_way("https://other.intern/x", rules, resolver=inner)


@pytest.mark.spec("K30")
def test_an_error_names_the_host_and_nothing_else_of_the_address() -> None:
    secret = "p4ssw0rd"
    for url in (f"https://u:{secret}@example.org/", f"https://exa%6dple.org/?sig={secret}", f"gopher://x/{secret}"):
        with pytest.raises(CallError) as caught:
            read_location(url, Rules())
        assert secret not in str(caught.value)
        assert secret not in (url_problem(url) or "")


@pytest.mark.spec("K30")
@given(text=st.text(max_size=80), scheme=st.sampled_from(["http://", "https://", "ssh://", ""]))
def test_whatever_is_read_is_written_anew_in_one_way(text: str, scheme: str) -> None:
    rules = Rules(frozenset({"http", "https", "ssh"}), userinfo=True)
    try:
        first = read_location(scheme + text, rules)
    except CallError as error:
        assert error.failure.error_class == "ADDRESS_REFUSED"
        return
    again = read_location(first.url, rules)
    assert (again.host, again.port, again.rest) == (first.host, first.port, first.rest)
    assert first.url.isascii() and not set(first.host) & set("%@/\\?# ")


@pytest.mark.spec("K30")
@given(address=st.ip_addresses(v=4))
def test_a_wrapped_address_is_as_public_as_what_it_wraps(address: object) -> None:
    assert is_public(f"::ffff:{address}") == is_public(str(address))
