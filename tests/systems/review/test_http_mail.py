"""The HTTP mail provider: one mail per token, and what each answer proves."""

import json
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any

import httpx
import pytest

from holdfast.core.failure import Category, Failure
from holdfast.errors import CallError
from holdfast_systems.review.findings import Review
from holdfast_systems.review.http_mail import HttpMailNotifier
from holdfast_systems.review.notifier import Notifier
from holdfast_systems.review.render import build_message

pytestmark = pytest.mark.spec("R9", "R6", "K12")

TOKEN = "e" * 40
KEY = "re_planted_key_0123456789"


def mail(summary: str = "fine") -> EmailMessage:
    review = Review(summary, (), "offline")
    date = datetime(2026, 3, 1, tzinfo=UTC)
    return build_message(review, "ada@example.test", "7", 1, "r@holdfast.test", TOKEN, date=date)


class MailProvider:
    """A stranger's API with Resend's manners: it remembers keys and refuses them for another body."""

    def __init__(self) -> None:
        self.sent: dict[str, tuple[str, bytes]] = {}
        self.requests: list[httpx.Request] = []
        self.fails: list[httpx.Response | Exception] = []
        self.fails_after_accepting = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.fails and not self.fails_after_accepting:
            return self._fail()
        if request.method == "GET":
            name = request.url.path.removeprefix("/emails/")
            if name != request.url.path:
                is_known = name in {mail_id for mail_id, _ in self.sent.values()}
                return httpx.Response(200, json={"id": name}) if is_known else httpx.Response(404)
            known = self.sent.get(request.url.params["token"])
            return httpx.Response(200, json={"data": [{"id": known[0]}] if known else []})
        key = request.headers["Idempotency-Key"]
        known = self.sent.setdefault(key, (f"mail-{len(self.sent) + 1}", request.content))
        if self.fails:
            return self._fail()
        if known[1] != request.content:
            return httpx.Response(409, json={"name": "invalid_idempotent_request", "message": "differs"})
        return httpx.Response(200, json={"id": known[0]})

    def _fail(self) -> httpx.Response:
        answer = self.fails.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def notifier(provider: MailProvider, **options: Any) -> HttpMailNotifier:
    client = httpx.AsyncClient(transport=httpx.MockTransport(provider))
    return HttpMailNotifier(client, "https://mail.example/", KEY, **options)


async def failure_of(answer: httpx.Response | Exception) -> Failure:
    provider = MailProvider()
    provider.fails = [answer]
    with pytest.raises(CallError) as caught:
        await notifier(provider).send(mail(), TOKEN)
    assert KEY not in caught.value.failure.message and "ada@" not in caught.value.failure.message
    return caught.value.failure


async def test_the_message_is_posted_under_its_token() -> None:
    provider = MailProvider()
    one: Notifier = notifier(provider)
    assert await one.send(mail(), TOKEN) == "mail-1"
    (request,) = provider.requests
    assert str(request.url) == "https://mail.example/emails" and request.headers["Idempotency-Key"] == TOKEN
    body = json.loads(request.content)
    assert (body["from"], body["to"]) == ("r@holdfast.test", ["ada@example.test"])
    assert "fine" in body["text"] and "<p>fine</p>" in body["html"]
    assert body["headers"]["Message-ID"] == f"<{TOKEN}@holdfast.test>"


@pytest.mark.parametrize("silence", [httpx.ReadTimeout("slow"), httpx.Response(500), httpx.Response(503)])
async def test_a_lost_answer_is_ambiguous_and_sending_again_is_one_mail(silence: httpx.Response | Exception) -> None:
    provider = MailProvider()
    provider.fails, provider.fails_after_accepting = [silence], True
    with pytest.raises(CallError) as caught:
        await notifier(provider).send(mail(), TOKEN)
    assert caught.value.failure.ambiguous and caught.value.failure.retryable
    assert await notifier(provider).send(mail(), TOKEN) == "mail-1"
    assert len(provider.sent) == 1


async def test_a_connection_that_never_was_is_definite() -> None:
    failure = await failure_of(httpx.ConnectError("refused"))
    assert not failure.ambiguous and failure.retryable


@pytest.mark.parametrize(
    ("status", "name", "message", "category", "error_class", "ambiguous"),
    [
        (422, "validation_error", "Invalid `to` field", Category.VALIDATION, "INVALID_RECIPIENT", False),
        (422, "missing_required_field", "Missing `from`", Category.VALIDATION, "UPSTREAM_UNPROCESSABLE", False),
        (401, "missing_api_key", "", Category.AUTH, "AUTH_INVALID", False),
        (403, "invalid_api_key", "", Category.AUTH, "AUTH_DENIED", False),
        (429, "daily_quota_exceeded", "", Category.RATE_LIMIT, "QUOTA_WINDOW", False),
        (403, "hourly_quota_exceeded", "", Category.RATE_LIMIT, "QUOTA_WINDOW", False),
        (403, "", "You have reached your daily sending limit.", Category.RATE_LIMIT, "QUOTA_WINDOW", False),
        (403, "", "You may not send from this domain.", Category.AUTH, "AUTH_DENIED", False),
        (429, "monthly_quota_exceeded", "", Category.AUTH, "QUOTA_EXHAUSTED", False),
        (422, "rate_limit_exceeded", "", Category.RATE_LIMIT, "RATE_LIMITED", False),
        (409, "concurrent_idempotent_requests", "", Category.CONFLICT, "SEND_IN_PROGRESS", True),
        (409, "invalid_idempotent_request", "", Category.BUG, "TOKEN_REUSED", True),
    ],
)
@pytest.mark.spec("R7", "004.1")
async def test_what_each_refusal_means(
    status: int, name: str, message: str, category: Category, error_class: str, ambiguous: bool
) -> None:
    failure = await failure_of(httpx.Response(status, json={"name": name, "message": f"{message} ada@example.test"}))
    assert (failure.category, failure.error_class, failure.ambiguous) == (category, error_class, ambiguous)
    assert failure.retryable is (category in (Category.CONFLICT, Category.RATE_LIMIT))


async def test_a_rate_limit_says_when_to_come_back() -> None:
    answer = httpx.Response(429, headers={"Retry-After": "7"}, json={"name": "rate_limit_exceeded"})
    failure = await failure_of(answer)
    assert (failure.category, failure.retry_after_ms, failure.ambiguous) == (Category.RATE_LIMIT, 7_000, False)


@pytest.mark.spec("004.1")
@pytest.mark.parametrize(
    "body",
    [
        {"code": "rate_limit_exceeded"},
        {"error": {"code": "rate_limit_exceeded"}},
        {"error": {"type": "RateLimitExceeded"}},
        {"errors": [{"reason": "rateLimitExceeded"}]},
    ],
)
async def test_a_rate_limit_is_known_wherever_the_provider_writes_it(body: dict[str, object]) -> None:
    failure = await failure_of(httpx.Response(403, json={**body, "retry_after": 9}))
    assert (failure.category, failure.retryable, failure.retry_after_ms) == (Category.RATE_LIMIT, True, 9_000)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"id": 7}', b"<html>"])
async def test_an_acceptance_without_an_id_is_ambiguous(body: bytes) -> None:
    failure = await failure_of(httpx.Response(200, content=body))
    assert failure.ambiguous and failure.error_class == "MAIL_ANSWER_UNREADABLE"


async def test_a_different_payload_under_a_token_is_our_bug() -> None:
    provider = MailProvider()
    await notifier(provider).send(mail(), TOKEN)
    with pytest.raises(CallError) as caught:
        await notifier(provider).send(mail("changed"), TOKEN)
    assert caught.value.failure.error_class == "TOKEN_REUSED" and not caught.value.failure.retryable


async def test_a_lookup_asks_and_sends_nothing() -> None:
    provider = MailProvider()
    one = notifier(provider, lookup_path="/emails")
    assert one.can_look and await one.lookup(TOKEN) is None and provider.sent == {}
    await one.send(mail(), TOKEN)
    assert await one.lookup(TOKEN) == "mail-1" and len(provider.sent) == 1
    assert not notifier(provider).can_look


@pytest.mark.spec("004.28")
async def test_a_mail_is_known_by_its_id_where_the_provider_has_a_path_for_it() -> None:
    provider = MailProvider()
    assert not notifier(provider).keeps_ids
    by_id = notifier(provider, id_path="/emails/{id}")
    mail_id = await by_id.send(mail(), TOKEN)
    assert by_id.keeps_ids and await by_id.has_id(mail_id) and not await by_id.has_id("../bogus?")
    assert provider.requests[-1].url.raw_path == b"/emails/..%2Fbogus%3F"
    provider.fails = [httpx.Response(200, json={"id": "mail-9"}), httpx.Response(500)]
    for _ in range(2):
        with pytest.raises(CallError):
            await by_id.has_id(mail_id)


@pytest.mark.parametrize("answer", [httpx.Response(500), httpx.Response(200, content=b"[]"), httpx.ReadTimeout("x")])
async def test_a_failed_lookup_is_an_error_and_never_not_found(answer: httpx.Response | Exception) -> None:
    provider = MailProvider()
    provider.fails = [answer]
    with pytest.raises(CallError) as caught:
        await notifier(provider, lookup_path="/emails").lookup(TOKEN)
    assert caught.value.failure.retryable


async def test_the_key_is_not_shown_and_a_redirect_is_not_followed() -> None:
    assert KEY not in repr(notifier(MailProvider()))
    failure = await failure_of(httpx.Response(307, headers={"Location": "https://evil.example/"}))
    assert failure.ambiguous
