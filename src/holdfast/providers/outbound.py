"""Fetches a URL that a stranger gave us, without letting it reach what it should not.

    url -> the gate (`providers.gate`) -> connect to an address that it checked -> body, counted
            ^------------------------ each redirect starts again ------------------------'

Proxies and netrc of the environment are ignored. Messages name the host only: the rest of a URL may be a signature or a
password.
"""

from __future__ import annotations

import asyncio
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache

import httpx

from holdfast.core.classify import classify
from holdfast.core.failure import Category
from holdfast.errors import CallError
from holdfast.providers.gate import AddressRules, Destination, Resolver, find_way, refused


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

    @property
    def rules(self) -> AddressRules:
        """What the gate is told."""
        return AddressRules(self.schemes, self.allow_private_hosts, self.allow_private)


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
    try:
        async with asyncio.timeout(policy.total_s_max):
            return await _follow(url, policy, resolver, tls, now_ms)
    except TimeoutError:
        message = f"The fetch took longer than {policy.total_s_max:g} s."
        raise CallError.of(Category.NETWORK, "NETWORK_TIMEOUT", message, faults=True) from None


async def _follow(
    url: str, policy: OutboundPolicy, resolver: Resolver | None, tls: ssl.SSLContext | None, now_ms: Callable[[], int]
) -> Fetched:
    for _ in range(policy.redirects_max + 1):
        way = await find_way(url, policy.rules, resolver=resolver)
        answer = await _get(way, policy, tls, now_ms)
        if isinstance(answer, Fetched):
            return answer
        url = answer
    raise refused(f"it redirects more than {policy.redirects_max} times")


async def _get(
    way: Destination, policy: OutboundPolicy, tls: ssl.SSLContext | None, now_ms: Callable[[], int]
) -> Fetched | str:
    """The body, or the URL of a redirect. The next address is tried only if nothing was sent to the last."""
    for index, address in enumerate(way.addresses):
        try:
            async with dial(way, address, policy, headers={"Accept-Encoding": "identity"}, tls=tls) as response:
                return await _answer(response, httpx.URL(way.location.url), policy, now_ms)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if index == len(way.addresses) - 1:
                raise _broken(error, way.location.host) from None
        except httpx.HTTPError as error:
            raise _broken(error, way.location.host) from None
    raise AssertionError("there is at least one address")


@asynccontextmanager
async def dial(
    way: Destination,
    address: str,
    policy: OutboundPolicy,
    *,
    method: str = "GET",
    headers: Mapping[str, str],
    content: bytes = b"",
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[httpx.Response]:
    """Ask a host at one of the addresses that the gate checked, and nowhere else; the body is not read yet. There is
    no client between: no proxy, netrc or cookie has a say, nothing is unfolded, nobody reads where a redirect leads."""
    location = way.location
    request = httpx.Request(
        method,
        httpx.URL(location.url).copy_with(host=address),
        headers={"Accept": "*/*", "User-Agent": "holdfast", **headers, "Host": location.netloc},
        content=content,
        extensions={
            "sni_hostname": location.host,
            "timeout": httpx.Timeout(policy.total_s_max, connect=policy.connect_s_max).as_dict(),
        },
    )
    trust = (tls or _public_trust()) if location.scheme == "https" else False
    async with httpx.AsyncHTTPTransport(verify=trust, trust_env=False) as transport:
        response = await transport.handle_async_request(request)
        try:
            yield response
        finally:
            await response.aclose()


@cache
def _public_trust() -> ssl.SSLContext:
    """Made once: to read the certificates takes longer than most requests."""
    return httpx.create_ssl_context(trust_env=False)


async def _answer(
    response: httpx.Response, target: httpx.URL, policy: OutboundPolicy, now_ms: Callable[[], int]
) -> Fetched | str:
    if response.has_redirect_location:
        return _next(target, response.headers["location"])
    if response.status_code >= 400:
        message = f"The host '{target.host}' answered {response.status_code}."
        raise CallError.from_status(response.status_code, message, response.headers, now_ms=now_ms())
    if response.status_code != 200:
        raise _unreadable(target, f"answered {response.status_code}")
    content = await _read(response, target, policy.bytes_max)
    return Fetched(content, response.headers.get("content-type"), str(target))


def _next(target: httpx.URL, location: str) -> str:
    try:
        return str(target.join(location))
    except (httpx.InvalidURL, ValueError):
        raise refused("it redirects to something that is not a URL") from None


async def _read(response: httpx.Response, target: httpx.URL, bytes_max: int) -> bytes:
    length = response.headers.get("content-length", "")
    if length.isdigit() and int(length) > bytes_max:
        raise _too_large(target, bytes_max)
    inflater = _inflater(response.headers.get("content-encoding", ""), target)
    body = bytearray()
    received = 0
    async for chunk in response.aiter_raw():
        received += len(chunk)
        # One byte more than allowed is asked for, so that the limit shows and no bomb unfolds.
        body += chunk if inflater is None else _inflate(inflater, chunk, bytes_max + 1 - len(body), target)
        if received > bytes_max or len(body) > bytes_max:
            raise _too_large(target, bytes_max)
    if inflater is not None and not inflater.eof:
        message = f"The compressed body from '{target.host}' ended too early."
        raise CallError.of(Category.NETWORK, "NETWORK_BROKEN", message, faults=True)
    if inflater is not None and inflater.unused_data:
        raise _unreadable(target, "sent more than one compressed body")
    return bytes(body)


def _inflater(encoding: str, target: httpx.URL) -> zlib._Decompress | None:
    """We ask for no compression; a server that compresses all the same is read if it is gzip or zlib."""
    kind = encoding.strip().lower()
    if kind in ("", "identity"):
        return None
    if kind not in ("gzip", "x-gzip", "deflate"):
        raise _unreadable(target, "used a compression nobody asked for")
    return zlib.decompressobj(wbits=47)


def _inflate(inflater: zlib._Decompress, chunk: bytes, length_max: int, target: httpx.URL) -> bytes:
    try:
        return inflater.decompress(chunk, length_max)
    except zlib.error:
        raise _unreadable(target, "sent a broken compressed body") from None


def _broken(error: httpx.HTTPError, host: str) -> CallError:
    message = f"The fetch from '{host}' failed: {type(error).__name__}."
    return CallError(replace(classify(error), message=message))


def _too_large(target: httpx.URL, bytes_max: int) -> CallError:
    message = f"The body from '{target.host}' is larger than {bytes_max} bytes."
    return CallError.of(Category.VALIDATION, "OUTBOUND_TOO_LARGE", message)


def _unreadable(target: httpx.URL, what: str) -> CallError:
    return CallError.of(Category.VALIDATION, "OUTBOUND_UNREADABLE", f"The host '{target.host}' {what}.")
