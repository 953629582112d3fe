"""A diff at a URL, served on loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.errors import CallError
from holdfast.providers.outbound import OutboundPolicy
from holdfast_systems.review.fetch_url import fetch_diff

pytestmark = pytest.mark.spec("R8")

DIFF = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n"
LOCAL = OutboundPolicy(allow_private_hosts=frozenset({"127.0.0.1"}))


@asynccontextmanager
async def serving(body: bytes, status: str = "200 OK") -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/change/7.diff"


async def failure_of(url: str, policy: OutboundPolicy = LOCAL) -> str:
    with pytest.raises(CallError) as caught:
        await fetch_diff(url, policy=policy)
    return caught.value.failure.error_class


async def test_a_plain_diff_is_named_after_its_file() -> None:
    async with serving(DIFF.encode()) as url:
        fetched = await fetch_diff(url, policy=LOCAL)
    assert (fetched.diff, fetched.title, fetched.author) == (DIFF, "7.diff", "")


async def test_a_mailed_patch_names_its_title_and_author() -> None:
    head = "From 1 Mon Sep 17 00:00:00 2001\nFrom: Ada <a@x.test>\nSubject: [PATCH 1/2] Mend it\n\n---\n\n"
    mailed = f"{head}{DIFF}-- \n2.39\n"
    async with serving(mailed.encode()) as url:
        fetched = await fetch_diff(url, policy=LOCAL)
    assert (fetched.title, fetched.author) == ("Mend it", "Ada <a@x.test>")


@pytest.mark.parametrize("body", [b"", b"  \n", b"<html>Sign in</html>", DIFF.encode()[:-3]])
async def test_what_is_no_diff_is_an_error_and_not_an_empty_review(body: bytes) -> None:
    async with serving(body) as url:
        assert await failure_of(url) == "DIFF_UNREADABLE"


async def test_the_outbound_policy_decides_first() -> None:
    async with serving(DIFF.encode()) as url:
        with pytest.raises(CallError) as caught:
            await fetch_diff(url, policy=OutboundPolicy())
        assert not caught.value.failure.retryable
        assert await failure_of(url, OutboundPolicy(bytes_max=10, allow_private_hosts=LOCAL.allow_private_hosts))


async def test_a_missing_diff_is_not_found_and_a_sick_server_is_retried() -> None:
    async with serving(b"no", "404 Not Found") as url:
        assert await failure_of(url) == "UPSTREAM_NOT_FOUND"
    async with serving(b"no", "503 Busy") as url:
        assert await failure_of(url) == "UPSTREAM_UNAVAILABLE"
