"""Reads a stranger's answer within a limit: none is so long, or unfolds to so much, that it costs us our memory."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache

import httpx

ANSWER_BYTES_MAX = 4 << 20


class AnswerRefused(httpx.RemoteProtocolError):
    """An answer that is not read. The request was received: what it asked for may have happened."""


@asynccontextmanager
async def answer_to(client: httpx.AsyncClient, request: httpx.Request) -> AsyncIterator[httpx.Response]:
    """The answer with its body still to be read, closed at the end. Redirects are not followed; httpx reads them all
    the same, and one that it cannot read is `AnswerRefused`."""
    try:
        answer = await client.send(request, stream=True, follow_redirects=False)
    except (httpx.InvalidURL, UnicodeError):
        raise AnswerRefused("the answer redirects to what is no address", request=request) from None
    try:
        yield answer
    finally:
        await answer.aclose()


async def exchange(
    client: httpx.AsyncClient, request: httpx.Request, bytes_max: int = ANSWER_BYTES_MAX
) -> httpx.Response:
    """Send the request and read its whole answer, or raise `AnswerRefused`. No compression is asked for, and an answer
    that comes compressed all the same is not unfolded. Redirects are not followed. Time is the caller's to keep."""
    request.headers["Accept-Encoding"] = "identity"
    async with answer_to(client, request) as answer:
        encoding = answer.headers.get("content-encoding", "").strip().lower()
        if encoding not in ("", "identity"):
            raise AnswerRefused("the answer is compressed, which nobody asked for", request=request)
        content = bytearray()
        async for piece in answer.aiter_bytes():  # nothing is unfolded: it is not compressed
            content += piece
            if len(content) > bytes_max:
                raise AnswerRefused(f"the answer is over {bytes_max} bytes", request=request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=bytes(content), request=request)


@cache
def trust() -> ssl.SSLContext:
    """The certificates that this process trusts, read once: to read them takes longer than most requests."""
    return httpx.create_ssl_context()


async def exchange_within(
    seconds: float,
    method: str,
    url: str,
    *,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    bytes_max: int = 1 << 20,
) -> httpx.Response:
    """Ask an address of the settings, whole within this time however slowly it answers; else `httpx.HTTPError`."""
    try:
        async with asyncio.timeout(seconds), httpx.AsyncClient(timeout=seconds, verify=trust()) as client:
            return await exchange(client, client.build_request(method, url, data=form, headers=headers), bytes_max)
    except (TimeoutError, httpx.InvalidURL, UnicodeError) as error:
        raise httpx.TransportError(f"{type(error).__name__} within {seconds:g} s") from None
