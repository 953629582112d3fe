"""The OpenAI-compatible client against a server that answers by script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from holdfast.core.failure import Category
from holdfast.errors import CallError
from holdfast.providers.openai import ChatAnswer, OpenAIClient

KEY = "sk-planted-secret-0123456789"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def client(reply: Callable[[httpx.Request], httpx.Response]) -> OpenAIClient:
    return OpenAIClient("http://llm.example/v1/", KEY, http=httpx.AsyncClient(transport=httpx.MockTransport(reply)))


def whole(data: dict[str, Any]) -> int:
    if not isinstance(data.get("n"), int):
        raise ValueError("n is not a whole number")
    return int(data["n"])


def chat(content: str | None = '{"n": 3}', finish: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "id": "chat-1",
        "model": "m-2026",
        "choices": [{"message": {"content": content, **message}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 5},
    }


async def ask(reply: Callable[[httpx.Request], httpx.Response], timeout_s: float = 5) -> ChatAnswer[int]:
    async with client(reply) as llm:
        return await llm.chat_json(
            "m", [{"role": "user", "content": "essay text"}], "number", SCHEMA, timeout_s, validate=whole
        )


async def failed(reply: Callable[[httpx.Request], httpx.Response], timeout_s: float = 5) -> CallError:
    with pytest.raises(CallError) as caught:
        await ask(reply, timeout_s)
    return caught.value


def says(status: int, body: Any, **headers: str) -> Callable[[httpx.Request], httpx.Response]:
    return lambda _: httpx.Response(status, json=body, headers={k.replace("_", "-"): v for k, v in headers.items()})


@pytest.mark.spec("G15")
async def test_a_chat_asks_for_the_schema_and_tells_what_it_cost() -> None:
    seen: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=chat(), headers={"x-request-id": "req-9"})

    assert await ask(reply, timeout_s=7) == ChatAnswer(3, 11, 5, "req-9", "m-2026")
    body = json.loads(seen[0].content)
    assert str(seen[0].url) == "http://llm.example/v1/chat/completions"
    assert seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert body["response_format"]["json_schema"] == {"name": "number", "schema": SCHEMA, "strict": True}
    assert set(seen[0].extensions["timeout"].values()) == {7}, "the call's own time, and not the driver's"


@pytest.mark.spec("G15")
async def test_what_is_no_text_is_no_name() -> None:
    odd = await ask(says(200, chat() | {"id": 7, "model": ""}))
    assert (odd.request_id, odd.model) == (None, "m")


@pytest.mark.spec("K16")
async def test_a_client_that_is_left_keeps_no_connection() -> None:
    http = httpx.AsyncClient(transport=httpx.MockTransport(says(200, chat())))
    async with OpenAIClient("http://llm.example", http=http):
        assert not http.is_closed
    assert http.is_closed


@pytest.mark.spec("G15")
async def test_json_in_a_markdown_fence_is_read() -> None:
    assert (await ask(says(200, chat('```json\n{"n": 4}\n```')))).data == 4


@pytest.mark.spec("G15", "K5")
@pytest.mark.parametrize(
    "body",
    [
        *(chat("not json"), chat("[1]"), chat('{"n": "x"}'), chat('{"n": 3'), chat(None)),
        *(chat('{"n": 3}', "length"), {"choices": []}, {"choices": "x"}, {}, [], "text", chat("[" * 100_000)),
    ],
    ids=lambda body: str(body)[:60],
)
async def test_a_malformed_answer_may_be_asked_again_and_blames_no_provider(body: Any) -> None:
    failure = (await failed(says(200, body))).failure
    assert (failure.category, failure.error_class) == (Category.UPSTREAM, "MALFORMED_ANSWER")
    assert failure.retryable and not failure.faults


@pytest.mark.spec("G15", "K5")
@pytest.mark.parametrize("text", ["<html>", "[" * 100_000], ids=["html", "nested"])
async def test_what_is_no_json_is_malformed_though_its_status_is_200(text: str) -> None:
    error = await failed(lambda _: httpx.Response(200, text=text))
    assert error.failure.error_class == "MALFORMED_ANSWER"


@pytest.mark.spec("G15", "K5")
@pytest.mark.parametrize(
    "reply",
    [
        says(200, chat(None, refusal="I cannot help")),
        says(200, chat("", "content_filter")),
        says(400, {"error": {"code": "content_filter", "message": "m"}}),
        says(400, {"error": {"code": "content_policy_violation"}}),
    ],
)
async def test_a_refusal_is_a_policy_reject_and_final(reply: Callable[[httpx.Request], httpx.Response]) -> None:
    failure = (await failed(reply)).failure
    assert failure.category is Category.POLICY and not failure.retryable


@pytest.mark.spec("G6", "K5")
async def test_http_failures_are_classified_with_the_provider_s_code() -> None:
    slow = await failed(says(429, {"error": {"code": "rate_limit_exceeded"}}, retry_after="7"))
    assert slow.failure.retryable and slow.failure.retry_after_ms == 7_000
    broke = await failed(says(429, {"error": {"code": "insufficient_quota"}}))
    assert broke.failure.error_class == "QUOTA_EXHAUSTED" and not broke.failure.retryable
    down = await failed(says(503, "busy"))
    assert down.failure.retryable and down.failure.faults
    bad = await failed(says(400, {"error": {"code": None, "type": "invalid_request_error"}}))
    assert bad.failure.category is Category.VALIDATION and "invalid_request_error" in str(bad)
    moved = await failed(says(302, {}, location="http://elsewhere.example/"))
    assert moved.failure.error_class == "UPSTREAM_REDIRECTED" and not moved.failure.retryable


@pytest.mark.spec("K5", "004.1")
@pytest.mark.parametrize(
    ("error", "category", "error_class"),
    [
        ({"code": "rate_limit_exceeded"}, Category.RATE_LIMIT, "RATE_LIMITED"),
        ({"code": 429, "message": "slow down"}, Category.RATE_LIMIT, "RATE_LIMITED"),
        ({"code": 403, "type": "rate_limit_exceeded"}, Category.RATE_LIMIT, "RATE_LIMITED"),
        ({"code": "daily_quota_exceeded"}, Category.RATE_LIMIT, "QUOTA_WINDOW"),
        ({"code": 403, "message": "The quota of 50 requests per day is used up."}, Category.RATE_LIMIT, "QUOTA_WINDOW"),
        ({"code": "insufficient_quota"}, Category.AUTH, "QUOTA_EXHAUSTED"),
        ({"code": 401, "message": "no key"}, Category.AUTH, "AUTH_INVALID"),
        ({"code": 200, "message": "odd"}, Category.UPSTREAM, "UPSTREAM_INTERNAL"),
        ("internal_error", Category.UPSTREAM, "UPSTREAM_INTERNAL"),
    ],
)
async def test_an_error_that_comes_with_status_200_is_what_it_says(
    error: Any, category: Category, error_class: str
) -> None:
    failure = (await failed(says(200, {"error": error}, retry_after="7"))).failure
    assert (failure.category, failure.error_class) == (category, error_class)
    assert category is not Category.RATE_LIMIT or failure.retry_after_ms == 7_000
    assert (await ask(says(200, {**chat(), "error": None}))).data == 3


@pytest.mark.spec("G6")
async def test_the_client_never_retries_by_itself() -> None:
    calls: list[str] = []

    def reply(request: httpx.Request) -> httpx.Response:
        calls.append(request.url.path)
        return httpx.Response(500)

    await failed(reply)
    assert len(calls) == 1


@pytest.mark.spec("K5")
@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (httpx.ConnectError("no"), "NETWORK_UNREACHABLE"),
        (httpx.ReadTimeout("slow"), "NETWORK_TIMEOUT"),
        (httpx.RemoteProtocolError("cut"), "NETWORK_BROKEN"),
    ],
)
async def test_network_failures_are_transient(error: httpx.HTTPError, error_class: str) -> None:
    def reply(request: httpx.Request) -> httpx.Response:
        raise error

    failure = (await failed(reply)).failure
    assert failure.error_class == error_class and failure.retryable and failure.faults


@pytest.mark.spec("K5")
async def test_an_answer_that_never_comes_is_a_timeout() -> None:
    async def reply(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError("never")

    llm = OpenAIClient("http://llm.example", KEY, http=httpx.AsyncClient(transport=httpx.MockTransport(reply)))
    with pytest.raises(CallError) as caught:
        await llm.chat_json("m", [], "number", SCHEMA, 0.02, validate=whole)
    assert caught.value.failure.error_class == "NETWORK_TIMEOUT"
    await llm.aclose()


@pytest.mark.spec("K7")
@pytest.mark.parametrize("status", [200, 400, 401, 429, 500])
async def test_neither_key_nor_text_appears_in_errors_or_reprs(status: int) -> None:
    error = await failed(says(status, {"error": {"code": f"bad key {KEY}", "message": f"{KEY} essay text"}}))
    shown = f"{error} {error!r} {error.failure} {client(says(200, {}))!r}"
    assert KEY not in shown and "essay text" not in shown


@pytest.mark.spec("G15")
async def test_audio_is_sent_as_a_form_and_its_text_returned() -> None:
    seen: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"text": " hello there "})

    async with client(reply) as stt:
        assert await stt.transcribe("whisper-1", b"OggS...", "answer.ogg", 5) == "hello there"
    assert seen[0].url.path == "/v1/audio/transcriptions"
    assert b'name="model"\r\n\r\nwhisper-1' in seen[0].content and b'filename="answer.ogg"' in seen[0].content


@pytest.mark.spec("G15", "K5")
async def test_a_transcription_without_text_is_malformed() -> None:
    async with client(says(200, {"words": []})) as stt:
        with pytest.raises(CallError) as caught:
            await stt.transcribe("whisper-1", b"", "a.ogg", 5)
    assert caught.value.failure.error_class == "MALFORMED_ANSWER"
