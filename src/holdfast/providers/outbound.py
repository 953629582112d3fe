"""Fetches a URL that a stranger gave us, without letting it reach what it should not.

    url -> scheme -> resolve once -> every address checked -> connect to a checked address -> body, counted
             ^------------------------ each redirect starts again ------------------------'

The connection goes to the very address that was checked, so a name that resolves differently a moment later
changes nothing. Proxies and netrc of the environment are ignored. Messages name the host only: the rest of a
URL may be a signature or a password.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import time
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import httpx

from holdfast.core.classify import classify
from holdfast.core.failure import Category
from holdfast.errors import CallError

Address = IPv4Address | IPv6Address
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}")
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class OutboundPolicy:
    """What may be fetched. `allow_private_hosts` are names or addresses, as they stand in the URL."""

    bytes_max: int = 25 * 1_048_576
    total_s_max: float = 60.0
    connect_s_max: float = 10.0
    redirects_max: int = 3
    schemes: frozenset[str] = frozenset({"http", "https"})
    allow_private_hosts: frozenset[str] = frozenset()
    allow_private: bool = False


@dataclass(frozen=True, slots=True)
class Fetched:
    """A whole body, decoded, and where it came from in the end."""

    content: bytes
    content_type: str | None
    final_url: str


async def fetch(
    url: str,
    policy: OutboundPolicy,
    *,
    resolver: Resolver | None = None,
    tls: ssl.SSLContext | None = None,
    now_ms: Callable[[], int] = lambda: int(time.time() * 1_000),
) -> Fetched:
    """GET `url` within `policy`, or raise CallError. Never retries."""
    find = resolver or resolve
    try:
        async with asyncio.timeout(policy.total_s_max):
            return await _follow(url, policy, find, tls, now_ms)
    except TimeoutError:
        message = f"The fetch took longer than {policy.total_s_max:g} s."
        raise CallError.of(Category.NETWORK, "NETWORK_TIMEOUT", message, faults=True) from None


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of `host`, from the system's resolver, in its order."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def _follow(
    url: str, policy: OutboundPolicy, find: Resolver, tls: ssl.SSLContext | None, now_ms: Callable[[], int]
) -> Fetched:
    for _ in range(policy.redirects_max + 1):
        target = _target(url, policy)
        addresses = await _checked_addresses(target, policy, find)
        answer = await _get(target, addresses, policy, tls, now_ms)
        if isinstance(answer, Fetched):
            return answer
        url = answer
    raise _refused(f"More than {policy.redirects_max} redirects")


def _target(url: str, policy: OutboundPolicy) -> httpx.URL:
    try:
        target = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        raise _refused("The address is not a URL") from None
    if target.scheme not in policy.schemes:
        raise _refused(f"The scheme '{target.scheme[:20]}' is not allowed")
    if not target.host:
        raise _refused("The URL has no host")
    if _literal(_host(target)) is None and _HOST.fullmatch(_host(target)) is None:
        raise _refused("The URL's host is neither a name nor an address")
    if target.userinfo:
        raise _refused("The URL carries credentials")
    return target


async def _checked_addresses(target: httpx.URL, policy: OutboundPolicy, find: Resolver) -> list[str]:
    host, port = _host(target), target.port or (443 if target.scheme == "https" else 80)
    literal = _literal(host)
    try:
        found = [str(literal)] if literal else list(await find(host, port))
    except (OSError, UnicodeError) as error:
        message = f"The host '{host}' cannot be resolved."
        raise CallError(replace(classify(error), message=message)) from None
    if not found:
        raise CallError.of(Category.NETWORK, "NETWORK_UNREACHABLE", f"The host '{host}' has no address.", faults=True)
    if policy.allow_private or _name(host) in {_name(allowed) for allowed in policy.allow_private_hosts}:
        return found
    # One forbidden address condemns the host: which of them is dialled must never be a matter of luck.
    if not all(is_public(address) for address in found):
        raise _refused(f"The host '{host}' has an address that is not public")
    return found


def _host(target: httpx.URL) -> str:
    """The host as it is dialled: names from other scripts in their ASCII form."""
    return target.raw_host.decode("ascii").strip("[]")


def _name(host: str) -> str:
    return host.rstrip(".").lower()


def _literal(host: str) -> Address | None:
    """The address a numeric host means, in the old spellings too (2130706433, 0x7f.1, 0177.0.0.1)."""
    try:
        return ip_address(host)
    except ValueError:
        pass
    if not all(char in "0123456789abcdefABCDEFxX." for char in host) or not host[0].isdigit():
        return None
    try:
        return IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


_NOT_PUBLIC = tuple(
    ip_network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        # Public by number, but answered by the hypervisor of one cloud.
        "168.63.129.16/32",
        # Teredo, ORCHID, documentation, 6to4, segment routing: inside 2000::/3 but no public host.
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
)
_GLOBAL_UNICAST = ip_network("2000::/3")
_NAT64 = ip_network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Whether an address belongs to the public internet. Forms that wrap an IPv4 address answer for it."""
    try:
        known = ip_address(address.split("%", 1)[0])
    except ValueError:
        return False
    if isinstance(known, IPv6Address):
        if known.ipv4_mapped is not None:
            return is_public(str(known.ipv4_mapped))
        if known in _NAT64:
            return is_public(str(IPv4Address(int(known) & 0xFFFF_FFFF)))
        if known not in _GLOBAL_UNICAST:
            return False
    return known.is_global and not any(known in network for network in _NOT_PUBLIC)


async def _get(
    target: httpx.URL,
    addresses: Sequence[str],
    policy: OutboundPolicy,
    tls: ssl.SSLContext | None,
    now_ms: Callable[[], int],
) -> Fetched | str:
    """The body, or the URL of a redirect. The next address is tried only if nothing was sent to the last."""
    timeout = httpx.Timeout(policy.total_s_max, connect=policy.connect_s_max)
    transport = httpx.AsyncHTTPTransport(verify=tls or True, trust_env=False)
    async with httpx.AsyncClient(transport=transport, timeout=timeout, trust_env=False) as client:
        for index, address in enumerate(addresses):
            try:
                return await _ask(client, target, address, policy, now_ms)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if index == len(addresses) - 1:
                    raise _broken(error, target) from None
            except httpx.HTTPError as error:
                raise _broken(error, target) from None
    raise AssertionError("there is at least one address")


async def _ask(
    client: httpx.AsyncClient,
    target: httpx.URL,
    address: str,
    policy: OutboundPolicy,
    now_ms: Callable[[], int],
) -> Fetched | str:
    request = client.build_request(
        "GET",
        target.copy_with(host=address, fragment=None),
        headers={"Host": target.netloc.decode("ascii"), "Accept-Encoding": "identity"},
        extensions={"sni_hostname": _host(target)},
    )
    response = await client.send(request, stream=True)
    try:
        if response.has_redirect_location:
            return _next(target, response.headers["location"])
        if response.status_code >= 400:
            message = f"The host '{target.host}' answered {response.status_code}."
            raise CallError.from_status(response.status_code, message, response.headers, now_ms=now_ms())
        if response.status_code != 200:
            raise _unreadable(target, f"answered {response.status_code}")
        content = await _read(response, target, policy.bytes_max)
        return Fetched(content, response.headers.get("content-type"), str(target))
    finally:
        await response.aclose()


def _next(target: httpx.URL, location: str) -> str:
    try:
        return str(target.join(location))
    except httpx.InvalidURL:
        raise _unreadable(target, "redirected to something that is not a URL") from None


async def _read(response: httpx.Response, target: httpx.URL, bytes_max: int) -> bytes:
    length = response.headers.get("content-length", "")
    if length.isdigit() and int(length) > bytes_max:
        raise _too_large(target, bytes_max)
    decode = _decoder(response.headers.get("content-encoding", ""), target)
    body = bytearray()
    received = 0
    async for chunk in response.aiter_raw():
        received += len(chunk)
        # One byte more than allowed is asked for, so that the limit shows and no bomb unfolds.
        body += decode(chunk, bytes_max + 1 - len(body))
        if received > bytes_max or len(body) > bytes_max:
            raise _too_large(target, bytes_max)
    return bytes(body)


def _decoder(encoding: str, target: httpx.URL) -> Callable[[bytes, int], bytes]:
    """We ask for no compression; a server that compresses all the same is read if it is gzip or zlib."""
    kind = encoding.strip().lower()
    if kind in ("", "identity"):
        return lambda chunk, _: chunk
    if kind not in ("gzip", "x-gzip", "deflate"):
        raise _unreadable(target, "used a compression nobody asked for")
    inflater = zlib.decompressobj(wbits=47)

    def inflate(chunk: bytes, length_max: int) -> bytes:
        try:
            return inflater.decompress(chunk, length_max)
        except zlib.error:
            raise _unreadable(target, "sent a broken compressed body") from None

    return inflate


def _broken(error: httpx.HTTPError, target: httpx.URL) -> CallError:
    message = f"The fetch from '{target.host}' failed: {type(error).__name__}."
    return CallError(replace(classify(error), message=message))


def _refused(reason: str) -> CallError:
    return CallError.of(Category.POLICY, "OUTBOUND_REFUSED", f"{reason}; nothing was fetched.")


def _too_large(target: httpx.URL, bytes_max: int) -> CallError:
    message = f"The body from '{target.host}' is larger than {bytes_max} bytes."
    return CallError.of(Category.VALIDATION, "OUTBOUND_TOO_LARGE", message)


def _unreadable(target: httpx.URL, what: str) -> CallError:
    return CallError.of(Category.VALIDATION, "OUTBOUND_UNREADABLE", f"The host '{target.host}' {what}.")
