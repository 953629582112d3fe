"""A notice on the wire: its headers, whose values outlive a release, and what each answer of a stranger means."""

from __future__ import annotations

import pytest

from holdfast.core.failure import Category
from holdfast.errors import CallError
from holdfast.providers.outbound import OutboundPolicy
from holdfast.providers.webhook import PATIENT, URL_LENGTH_MAX, send_notice, signed, url_problem
from tests.systems.conversion.stub import stub

pytestmark = pytest.mark.spec("K18")
NEAR = OutboundPolicy(allow_private_hosts=frozenset({"127.0.0.1"}), total_s_max=5)


def test_the_headers_are_those_of_standard_webhooks() -> None:
    assert signed("a-secret", "evt-1", 1_767_225_600, '{"type":"a"}') == {
        "webhook-id": "evt-1",
        "webhook-timestamp": "1767225600",
        "webhook-signature": "v1,Cn5MIPqBUiEFfbObJDGu9d4pH99nNqo6MHXEiyDrE2A=",
    }


async def test_a_notice_is_posted_as_it_was_signed() -> None:
    async with stub(statuses=[204]) as hook:
        assert await send_notice(hook.url, '{"n":1}', {"webhook-id": "e"}, NEAR, 0) == "204"
        seen = await hook.next()
    assert seen.body == b'{"n":1}'
    kept = {name: seen.headers[name] for name in ("webhook-id", "content-type", "user-agent", "accept")}
    assert kept == {"webhook-id": "e", "content-type": "application/json", "user-agent": "holdfast", "accept": "*/*"}
    assert seen.headers["host"] == hook.url.split("/")[2]


@pytest.mark.parametrize(
    ("status", "category", "error_class", "retryable"),
    [
        (301, Category.VALIDATION, "WEBHOOK_REDIRECTED", False),
        (399, Category.VALIDATION, "WEBHOOK_REDIRECTED", False),
        (400, Category.VALIDATION, "UPSTREAM_BAD_REQUEST", False),
        (404, Category.NOT_FOUND, None, False),
        (429, Category.RATE_LIMIT, None, True),
        (503, Category.NETWORK, None, True),
    ],
)
async def test_an_answer_that_is_no_success_is_classified(
    status: int, category: Category, error_class: str | None, retryable: bool
) -> None:
    async with stub(statuses=[status], headers={"Retry-After": "7", "Location": "http://x/"}) as hook:
        with pytest.raises(CallError) as caught:
            await send_notice(hook.url, "{}", {}, NEAR, 0)
    failure = caught.value.failure
    assert (failure.category, failure.retryable, failure.status) == (category, retryable, status)
    assert error_class in (None, failure.error_class)
    assert str(caught.value) == f"The webhook's host '127.0.0.1' answered {status}."
    assert failure.retry_after_ms == (None if status < 400 else 7_000)


@pytest.mark.parametrize("status", [200, 299])
async def test_every_success_is_one(status: int) -> None:
    async with stub(statuses=[status]) as hook:
        assert await send_notice(hook.url, "{}", {}, NEAR, 0) == str(status)


async def test_a_server_that_is_away_is_named_and_may_be_tried_again() -> None:
    async with stub() as hook:
        pass
    with pytest.raises(CallError, match=r"The webhook to '127\.0\.0\.1' failed: ConnectError\.") as caught:
        await send_notice(f"{hook.url}?secret=1", "{}", {}, NEAR, 0)
    assert caught.value.failure.retryable and "secret" not in str(caught.value)


async def test_a_private_address_is_refused_unless_it_is_allowed() -> None:
    async with stub() as hook:
        with pytest.raises(CallError) as caught:
            await send_notice(hook.url, "{}", {}, OutboundPolicy(), 0)
        assert caught.value.failure.error_class == "ADDRESS_REFUSED" and hook.seen.empty()


def test_an_address_is_judged_by_its_looks() -> None:
    start = "https://example.com/"
    longest = start + "x" * (URL_LENGTH_MAX - len(start))
    assert url_problem(longest) is None
    assert url_problem(longest + "x") == "webhookUrl must be at most 2000 characters."
    assert (url_problem("ftp://example.com/") or "").startswith("webhookUrl: ")


def test_a_receiver_has_hours_to_come_back() -> None:
    assert (PATIENT.attempts, PATIENT.base_s, PATIENT.multiplier, PATIENT.cap_s) == (8, 5, 2, 3_600)


def test_what_may_be_fetched_by_default_is_this() -> None:
    policy = OutboundPolicy()
    assert (policy.bytes_max, policy.total_s_max, policy.connect_s_max, policy.redirects_max) == (26_214_400, 60, 10, 3)
    assert policy.schemes == {"http", "https"} and not policy.allow_private and not policy.allow_private_hosts
