"""What is asked of a provider's server, and which answer of it is read."""

from __future__ import annotations

import gzip

import httpx
import pytest

from holdfast.providers.bounded import AnswerRefused, exchange

pytestmark = pytest.mark.spec("K30")


async def answered(answer: httpx.Response, bytes_max: int = 5) -> tuple[httpx.Request, httpx.Response]:
    seen: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answer

    async with httpx.AsyncClient(transport=httpx.MockTransport(reply)) as client:
        read = await exchange(client, client.build_request("GET", "http://there.example/"), bytes_max)
    return seen[0], read


async def test_no_compression_is_asked_for() -> None:
    asked, read = await answered(httpx.Response(200, content=b"12345", headers={"Content-Encoding": " Identity "}))
    assert asked.headers["accept-encoding"] == "identity" and read.content == b"12345"


async def test_a_compressed_answer_is_refused_however_small_it_is() -> None:
    packed = httpx.Response(200, stream=httpx.ByteStream(gzip.compress(b"12")), headers={"Content-Encoding": "gzip"})
    with pytest.raises(AnswerRefused, match="compressed, which nobody asked for"):
        await answered(packed, bytes_max=100)


async def test_one_byte_too_many_is_refused() -> None:
    with pytest.raises(AnswerRefused, match="over 5 bytes"):
        await answered(httpx.Response(200, content=b"123456"))
