"""Talks to any OpenAI-compatible endpoint: chat with a JSON schema, and transcription.

Never retries by itself: a failure is classified and raised, and the kernel decides. Neither the key nor the
text of a prompt or an answer stands in an error; a provider's own words are reduced to its error code.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar

import httpx

from holdfast.core.classify import classify
from holdfast.core.client_error import read_answer
from holdfast.core.failure import Category
from holdfast.errors import CallError
from holdfast.kernel.observe.provider_status import note_status
from holdfast.providers.bounded import AnswerRefused, exchange, trust

T = TypeVar("T")

ANSWER_BYTES_MAX = 8 * 1_048_576
TOKENS_MAX = 10_000_000
_CODE = re.compile(r"[A-Za-z][A-Za-z_.]{0,63}")  # a code, and not prose
_REFUSAL_CODES = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})


@dataclass(frozen=True, slots=True)
class ChatAnswer(Generic[T]):
    """A validated answer and what it cost. `request_id` is the provider's, for its support and for audits."""

    data: T
    prompt_tokens: int
    completion_tokens: int
    request_id: str | None
    model: str


class OpenAIClient:
    """A client of one endpoint. `base_url` ends where `/chat/completions` begins (usually in `/v1`)."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        http: httpx.AsyncClient | None = None,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1_000),
    ) -> None:
        self._base_url = base_url.rstrip("/")
        # A redirect would carry the key to another host, so none is followed.
        self._http = http or httpx.AsyncClient(follow_redirects=False, verify=trust())
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._now_ms = now_ms

    def __repr__(self) -> str:
        return f"OpenAIClient({httpx.URL(self._base_url).host!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    async def chat_json(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        schema_name: str,
        schema: Mapping[str, Any],
        timeout_s: float,
        *,
        validate: Callable[[dict[str, Any]], T],
        key: str | None = None,
    ) -> ChatAnswer[T]:
        """One chat completion held to `schema`, checked again by `validate`, whose ValueError means malformed. `key`
        travels as `Idempotency-Key`: servers that honour it charge once for it, and the others ignore it."""
        body = {
            "model": model,
            "messages": list(messages),
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": schema_name, "schema": schema, "strict": True},
            },
        }
        answer, headers = await self._post("/chat/completions", timeout_s, key, json=body)
        data = _validated(_content(answer), validate)
        usage = answer.get("usage")
        return ChatAnswer(
            data=data,
            prompt_tokens=_count(usage, "prompt_tokens"),
            completion_tokens=_count(usage, "completion_tokens"),
            request_id=headers.get("x-request-id") or _text(answer.get("id")),
            model=_text(answer.get("model")) or model,
        )

    async def transcribe(
        self, model: str, audio: bytes, filename: str, timeout_s: float, *, key: str | None = None
    ) -> str:
        """The words in `audio`. Silence is an empty text, not an error."""
        form = {"model": model, "response_format": "json"}
        sent = {"data": form, "files": {"file": (filename, audio)}}
        answer, _ = await self._post("/audio/transcriptions", timeout_s, key, **sent)
        text = answer.get("text")
        return text.strip() if isinstance(text, str) else _malformed("has no text")

    async def _post(
        self, path: str, timeout_s: float, key: str | None, **body: Any
    ) -> tuple[dict[str, Any], httpx.Headers]:
        try:
            async with asyncio.timeout(timeout_s):
                status, headers, content = await self._exchange(path, timeout_s, key, body)
        except (TimeoutError, httpx.HTTPError) as error:
            message = f"The call to {path} failed: {type(error).__name__}."
            raise CallError(replace(classify(error), message=message)) from None
        if status >= 300:
            raise _rejected(status, path, headers, content, self._now_ms())
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            _malformed("is not JSON")
        if not isinstance(answer, dict):
            _malformed("is not an object")
        if answer.get("error") and not answer.get("choices") and "text" not in answer:
            raise _rejected(_status_within(answer["error"]), path, headers, content, self._now_ms())
        return answer, headers

    async def _exchange(
        self, path: str, timeout_s: float, key: str | None, body: dict[str, Any]
    ) -> tuple[int, httpx.Headers, bytes]:
        headers = self._headers if key is None else {**self._headers, "Idempotency-Key": key}
        request = self._http.build_request("POST", self._base_url + path, headers=headers, timeout=timeout_s, **body)
        try:
            answer = await exchange(self._http, request, ANSWER_BYTES_MAX)
        except AnswerRefused as error:
            _malformed(f"cannot be read: {error}")
        note_status(answer.status_code)
        return answer.status_code, answer.headers, answer.content


def _rejected(status: int, path: str, headers: httpx.Headers, content: bytes, now_ms: int) -> CallError:
    answer = read_answer(status, headers, content)
    code = answer.code if answer.code and _CODE.fullmatch(answer.code) else None
    message = f"The call to {path} was answered with {status}{f' ({code})' if code else ''}."
    if status < 400:
        return CallError.of(Category.BUG, "UPSTREAM_REDIRECTED", message, status=status)
    if code in _REFUSAL_CODES:
        return CallError.of(Category.POLICY, "CONTENT_FILTERED", message, status=status)
    return CallError.from_status(status, message, answer.headers, now_ms=now_ms, code=code, words=answer.words)


def _status_within(error: object) -> int:
    """The status of an error that came with a good one, as some servers in front of models answer: its own number, or
    that of a server's fault."""
    number = error.get("code") if isinstance(error, dict) else None
    return number if isinstance(number, int) and 400 <= number <= 599 else 500


def _content(answer: dict[str, Any]) -> str:
    try:
        choice = answer["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        content, refusal = message.get("content"), message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        _malformed("has no choice")
    if refusal:
        raise CallError.of(Category.POLICY, "CONTENT_REFUSED", "The model refused to answer.")
    if reason == "content_filter":
        raise CallError.of(Category.POLICY, "CONTENT_FILTERED", "The provider filtered the answer.")
    if reason == "length":
        _malformed("was cut off at the length limit")
    return content if isinstance(content, str) else _malformed("has no content")


def _validated(content: str, validate: Callable[[dict[str, Any]], T]) -> T:
    text = content.strip()
    if text.startswith("```") and text.endswith("```"):  # some servers fence the JSON in spite of the schema
        text = text[3:-3].removeprefix("json")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        _malformed("holds no JSON")
    if not isinstance(data, dict):
        _malformed("holds no JSON object")
    try:
        return validate(data)
    except ValueError:
        _malformed("does not fit the schema")


def _malformed(what: str) -> NoReturn:
    # Not a fault of the provider's health: the next answer may well be right, and no breaker should open.
    raise CallError.of(Category.UPSTREAM, "MALFORMED_ANSWER", f"The provider's answer {what}.") from None


def _count(usage: object, name: str) -> int:
    """A number of tokens, from an answer that may say anything; 0 for what is none, or more than any call can use."""
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if type(value) is int and 0 < value <= TOKENS_MAX else 0


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
