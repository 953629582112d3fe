"""Tells a user's server that something happened: a job of its own, so that a server that is down holds nothing up.

    POST url      webhook-id, webhook-timestamp, webhook-signature: v1,base64(HMAC-SHA256(id.timestamp.body))

    hooks = declare_webhooks(app, secret=..., policy=OutboundPolicy())
    await hooks.tell(tx, url, event_id, {"type": "order.paid"})      # in the transaction of what happened

The id is the effect's token, the same for every repetition of one event, so that a receiver can leave out what it has
seen. The order is written in the caller's transaction; the ledger sees that a delivery which was answered is never made
again.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx
from pydantic import BaseModel

from holdfast import App, CallError, Category, Context, Job, JobTx, Priority, Provider, Retry, stage
from holdfast.kit import classify, note_status, prepare, submit_in, unchanged
from holdfast.providers.gate import AddressRules, Destination, find_way, read_location
from holdfast.providers.outbound import OutboundPolicy, dial

URL_LENGTH_MAX = 2_000
PATIENT = Retry(attempts=8, base_s=5, multiplier=2, cap_s=3_600, jitter="full")

Post = Callable[[str, str, dict[str, str], OutboundPolicy, int], Awaitable[str]]
"""Delivers: URL, body, headers, policy, now in ms; gives evidence of the delivery."""


class WebhookNotice(BaseModel):
    """One event to deliver. `body` is fixed when the event happens: a later change of the job changes no signature."""

    url: str
    event_id: str
    body: str


@dataclass(frozen=True)
class Webhooks:
    """The webhooks of an app: its job kind `<app>.webhook`."""

    kind: str

    async def tell(
        self, tx: JobTx, url: str, event_id: str, body: Mapping[str, Any], *, owner: str | None = None
    ) -> None:
        """Order one event's delivery in an open transaction, once per `event_id`."""
        kernel = tx.kernel
        kind = kernel.registry.kinds.get(self.kind)
        if kind is None:
            return
        notice = WebhookNotice(url=url, event_id=event_id, body=json.dumps(body, separators=(",", ":")))
        now = kernel.now()
        order = prepare(kind, notice, job_id=kernel.new_id(), now=now, key=event_id, owner=owner)
        await submit_in(tx, [order], now, kernel.watch)


def declare_webhooks(
    app: App,
    *,
    secret: str | None,
    policy: OutboundPolicy,
    retry: Retry = PATIENT,
    timeout_s: float = 10.0,
    post: Post | None = None,
) -> Webhooks:
    """Declare the job that delivers. No breaker, and no 429 that counts for all: one user's broken or busy server must
    not hold back another's notices."""
    provider = Provider("webhook", effects="token", timeout_s=timeout_s, many_hosts=True)
    deliver_by = post or send_notice
    kind = f"{app.name}.webhook"

    @app.job(name=kind, priority=Priority.LOW, version=2, upgrade={1: unchanged}, seals=("url",))
    class Webhook(Job[WebhookNotice]):
        @stage(provider=provider, retry=retry, timeout_s=policy.total_s_max + 10)
        async def deliver(self, ctx: Context, notice: WebhookNotice) -> None:
            if secret is None:
                raise CallError.of(Category.BUG, "WEBHOOK_SECRET_MISSING", "WEBHOOK_SECRET is not set any more.")

            async def send(token: str) -> str:
                headers = signed(secret, token, ctx.now() // 1_000, notice.body)
                return await deliver_by(notice.url, notice.body, headers, policy, ctx.now())

            await ctx.effect(("webhook", notice.event_id), send=send)

    return Webhooks(kind)


def signed(secret: str, event_id: str, at_s: int, body: str) -> dict[str, str]:
    """The headers that prove where a notice comes from, and when it was sent."""
    digest = hmac.new(secret.encode(), f"{event_id}.{at_s}.{body}".encode(), hashlib.sha256).digest()
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def url_problem(url: str) -> str | None:
    """What is wrong with a webhook's address by its looks alone, in a sentence."""
    if len(url) > URL_LENGTH_MAX:
        return f"webhookUrl must be at most {URL_LENGTH_MAX} characters."
    try:
        read_location(url, AddressRules())
    except CallError as error:
        return f"webhookUrl: {error}"
    return None


async def send_notice(url: str, body: str, headers: dict[str, str], policy: OutboundPolicy, now_ms: int) -> str:
    """POST to a stranger's URL within `policy`; gives the status as evidence. Redirects are not followed.

    The connection goes to the very address that was checked, whatever the name resolves to a moment later."""
    try:
        async with asyncio.timeout(policy.total_s_max):
            way = await find_way(url, policy.rules)
            return await _exchange(way, body, headers, policy, now_ms)
    except (httpx.HTTPError, TimeoutError, OSError) as error:
        message = f"The webhook to '{read_location(url, policy.rules).host}' failed: {type(error).__name__}."
        raise CallError(replace(classify(error), message=message)) from None


async def _exchange(way: Destination, body: str, headers: dict[str, str], policy: OutboundPolicy, now_ms: int) -> str:
    sent = {**headers, "Content-Type": "application/json"}
    async with dial(way, way.addresses[0], policy, method="POST", headers=sent, content=body.encode()) as answer:
        status = answer.status_code  # the body of the answer is nobody's business
    note_status(status)
    if 200 <= status < 300:
        return f"{status}"
    message = f"The webhook's host '{way.location.host}' answered {status}."
    if status < 400:
        raise CallError.of(Category.VALIDATION, "WEBHOOK_REDIRECTED", message, status=status)
    raise CallError.from_status(status, message, answer.headers, now_ms=now_ms)
