"""Tells a user's server how a job ended: a second job, so that a server that is down holds nothing else up.

    POST webhookUrl      webhook-id, webhook-timestamp, webhook-signature: v1,base64(HMAC-SHA256(id.timestamp.body))

The id is the effect's token, the same for every repetition of one event, so that a receiver can leave out what it has
seen. The order is written in the transaction that ends the job; the ledger sees that a delivery which was answered is
never made again.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import httpx
from pydantic import BaseModel

from holdfast import App, CallError, Category, Context, Job, Priority, Provider, stage
from holdfast.http.tickets import iso
from holdfast.kit import Kernel, Tx, classify, prepare, submit_in
from holdfast.providers.outbound import OutboundPolicy, is_public, resolve
from holdfast_systems.conversion import documents
from holdfast_systems.conversion.settings import ConversionSettings

KIND = "conversion.webhook"
URL_LENGTH_MAX = 2_000


class Notice(BaseModel):
    """One event to deliver. `body` is fixed when the event happens: a later change of the job changes no signature."""

    url: str
    event_id: str
    body: str


async def announce(kernel: Kernel, tx: Tx, job_id: str, now: int) -> None:
    """Order the webhook of a job that has just ended, if its owner asked for one."""
    row = await documents.show(tx, job_id)
    if row is None or row["webhook_url"] is None or KIND not in kernel.registry.kinds:
        return
    status = documents.status_of(row, now)
    event_id = f"{job_id}/{row['epoch'] or 0}/{status}"
    body = {"type": f"job.{status}", "at": iso(now), "job": _story(row, status)}
    notice = Notice(url=row["webhook_url"], event_id=event_id, body=json.dumps(body, separators=(",", ":")))
    kind = kernel.registry.kind(KIND)
    order = prepare(kind, notice, job_id=kernel.new_id(), now=now, key=event_id, owner=row["owner"])
    await submit_in(tx, [order], now, kernel.watch)


def _story(row: Any, status: str) -> dict[str, Any]:
    told: dict[str, Any] = {"id": row["id"], "status": status, "fileName": row["filename"]}
    if status == "failed":
        told["error"] = {"code": row["error_code"], "message": row["error_message"]}
    if status == "complete":
        told["result"] = {"size": row["result_size"], "sha256": row["result_sha256"]}
    return told


Post = Callable[[str, str, dict[str, str], OutboundPolicy, int], Awaitable[str]]


def declare_webhook(app: App, settings: ConversionSettings, post: Post) -> None:
    """Declare the job that delivers. No breaker: one user's broken server must not hold back another's notices."""
    provider = Provider("webhook", effects="token", timeout_s=settings.webhook_timeout_ms / 1_000)
    policy = settings.outbound

    @app.job(name=KIND, priority=Priority.LOW)
    class Webhook(Job[Notice]):
        @stage(provider=provider, retry=settings.webhook_retry, timeout_s=policy.total_s_max + 10)
        async def deliver(self, ctx: Context, notice: Notice) -> None:
            secret = settings.webhook_secret
            if secret is None:
                raise CallError.of(Category.BUG, "WEBHOOK_SECRET_MISSING", "WEBHOOK_SECRET is not set any more.")

            async def send(token: str) -> str:
                headers = signed(secret, token, ctx.now() // 1_000, notice.body)
                return await post(notice.url, notice.body, headers, policy, ctx.now())

            await ctx.effect(("webhook", notice.event_id), send=send)


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
    try:
        target = httpx.URL(url)
    except httpx.InvalidURL:
        return "webhookUrl is not a URL."
    if target.scheme not in ("http", "https") or not target.host:
        return "webhookUrl must be an http or https URL."
    if target.userinfo:
        return "webhookUrl must not carry credentials."
    return None if len(url) <= URL_LENGTH_MAX else f"webhookUrl must be at most {URL_LENGTH_MAX} characters."


async def post(url: str, body: str, headers: dict[str, str], policy: OutboundPolicy, now_ms: int) -> str:
    """POST to a stranger's URL within `policy`; gives the status as evidence. Redirects are not followed.

    The connection goes to the very address that was checked, whatever the name resolves to a moment later."""
    target = httpx.URL(url)
    try:
        async with asyncio.timeout(policy.total_s_max):
            address = await _address(target, policy)
            return await _exchange(target, address, body, headers, policy, now_ms)
    except (httpx.HTTPError, TimeoutError, OSError) as error:
        message = f"The webhook to '{target.host}' failed: {type(error).__name__}."
        raise CallError(replace(classify(error), message=message)) from None


async def _address(target: httpx.URL, policy: OutboundPolicy) -> str:
    host = target.raw_host.decode("ascii").strip("[]")
    found = list(await resolve(host, target.port or (443 if target.scheme == "https" else 80)))
    allowed = {name.lower() for name in policy.allow_private_hosts}
    if not found:
        raise CallError.of(Category.NETWORK, "NETWORK_UNREACHABLE", f"The host '{host}' has no address.", faults=True)
    if host.lower() not in allowed and not all(is_public(address) for address in found):
        message = f"The host '{host}' has an address that is not public; nothing was sent."
        raise CallError.of(Category.POLICY, "OUTBOUND_REFUSED", message)
    return found[0]


async def _exchange(
    target: httpx.URL, address: str, body: str, headers: dict[str, str], policy: OutboundPolicy, now_ms: int
) -> str:
    timeout = httpx.Timeout(policy.total_s_max, connect=policy.connect_s_max)
    sent = {**headers, "Host": target.netloc.decode("ascii"), "Content-Type": "application/json"}
    async with httpx.AsyncClient(timeout=timeout, trust_env=False, follow_redirects=False) as client:
        request = client.build_request(
            "POST",
            target.copy_with(host=address, fragment=None),
            content=body.encode(),
            headers=sent,
            extensions={"sni_hostname": target.raw_host.decode("ascii").strip("[]")},
        )
        answer = await client.send(request, stream=True)  # the body of the answer is nobody's business
        await answer.aclose()
    status = answer.status_code
    if 200 <= status < 300:
        return f"{status}"
    message = f"The webhook's host '{target.host}' answered {status}."
    if status < 400:
        raise CallError.of(Category.VALIDATION, "WEBHOOK_REDIRECTED", message, status=status)
    raise CallError.from_status(status, message, answer.headers, now_ms=now_ms)
