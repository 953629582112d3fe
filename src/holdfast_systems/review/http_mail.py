"""Delivers through an HTTP mail provider of the Resend kind.

    POST {base}/emails   Idempotency-Key: token    -> {"id": "..."}     the same key and body: the same id, one mail

The class is `token`: sending again under the token is safe for the provider's retention (24 hours there). The
lookup is a plain GET of `lookup_path` with `?token=`, for providers that index it; Resend itself offers none,
so `lookup_path` is unset by default and only the token is used. Asking by sending again is not a lookup. A mail is
found by its id at `id_path` (`/emails/{id}` at Resend), where that is given.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any
from urllib.parse import quote

import httpx

from holdfast import CallError, Category
from holdfast.kit import classify, note_status, read_answer
from holdfast.providers.bounded import exchange
from holdfast_systems.review.notifier import EffectClass

RETENTION_S = 86_400.0


def _now_ms() -> int:
    return int(time.time() * 1_000)


@dataclass(frozen=True, slots=True)
class HttpMailNotifier:
    """Mail through `POST {base_url}/emails`. The client is the caller's: it also decides on TLS and proxies."""

    client: httpx.AsyncClient
    base_url: str
    api_key: str = field(repr=False)
    timeout_s: float = 30.0
    lookup_path: str | None = None
    id_path: str | None = None
    retention_s: float = RETENTION_S
    name: str = "http-mail"
    effects: EffectClass = "token"
    now_ms: Callable[[], int] = _now_ms

    @property
    def can_look(self) -> bool:
        return self.lookup_path is not None

    @property
    def keeps_ids(self) -> bool:
        return self.id_path is not None

    async def send(self, message: EmailMessage, token: str) -> str:
        """Post the message under its token and return the provider's id."""
        headers = {"Authorization": f"Bearer {self.api_key}", "Idempotency-Key": token}
        answer = await self._call("POST", "/emails", json=_payload(message, token), headers=headers)
        if answer.status_code >= 400:
            raise self._refused(answer)
        provider_id = _json(answer).get("id")
        if not isinstance(provider_id, str) or not provider_id:
            text = "The mail provider accepted the mail but gave no id for it."
            raise CallError.of(Category.UPSTREAM, "MAIL_ANSWER_UNREADABLE", text, ambiguous=True, faults=True)
        return provider_id

    async def lookup(self, token: str) -> str | None:
        """The id of the mail sent under the token. An answer that cannot be read is an error, not None."""
        assert self.lookup_path is not None, "this provider cannot look; see can_look"
        answer = await self._get(self.lookup_path, token=token)
        if answer is None:
            return None
        found = answer.get("data")
        if not isinstance(found, list):
            raise _unreadable()
        ids = [entry["id"] for entry in found if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
        return ids[0] if ids else None

    async def has_id(self, provider_id: str) -> bool:
        """Whether the provider has the mail. Only its 404 is a no; an answer about another mail is an error."""
        assert self.id_path is not None, "this provider knows no ids; see keeps_ids"
        answer = await self._get(self.id_path.replace("{id}", quote(provider_id, safe="")))
        if answer is not None and answer.get("id") != provider_id:
            raise _unreadable()
        return answer is not None

    async def _get(self, path: str, **params: str) -> dict[str, Any] | None:
        answer = await self._call("GET", path, params=params, headers={"Authorization": f"Bearer {self.api_key}"})
        if answer.status_code == 404:
            return None
        if answer.status_code >= 400:
            raise self._refused(answer)
        return _json(answer)

    async def _call(self, method: str, path: str, **options: Any) -> httpx.Response:
        url = self.base_url.rstrip("/") + path
        try:
            async with asyncio.timeout(self.timeout_s):
                request = self.client.build_request(method, url, timeout=self.timeout_s, **options)
                answer = await exchange(self.client, request)
        except (httpx.HTTPError, TimeoutError) as error:
            raise CallError(classify(error)) from error
        note_status(answer.status_code)
        return answer

    def _refused(self, answer: httpx.Response) -> CallError:
        """Classify by status, then by the provider's own name for the error."""
        status = answer.status_code
        read = read_answer(status, answer.headers, answer.content)
        name = read.code
        if status == 409 and name == "invalid_idempotent_request":
            text = "The token was used before with another message; the payload is not deterministic."
            return CallError.of(Category.BUG, "TOKEN_REUSED", text, ambiguous=True, status=status)
        if status == 409:
            text = "Another send under this token is under way."
            return CallError.of(Category.CONFLICT, "SEND_IN_PROGRESS", text, ambiguous=True, status=status)
        if status in (400, 422) and _blames_recipient(answer):
            text = "The mail provider refuses this recipient; correct the address."
            return CallError.of(Category.VALIDATION, "INVALID_RECIPIENT", text, status=status)
        text = f"The mail provider answered {status}."
        now_ms = self.now_ms()
        return CallError.from_status(status, text, read.headers, now_ms=now_ms, code=read.code, words=read.words)


def _unreadable() -> CallError:
    text = "The mail provider's answer to a lookup cannot be read."
    return CallError.of(Category.UPSTREAM, "MAIL_ANSWER_UNREADABLE", text, faults=True)


def _blames_recipient(answer: httpx.Response) -> bool:
    said = str(_json(answer).get("message", "")).lower()
    return "`to`" in said or "recipient" in said


def _json(answer: httpx.Response) -> dict[str, Any]:
    try:
        value = answer.json()
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _payload(message: EmailMessage, token: str) -> dict[str, Any]:
    """The message as the provider takes it; the same message gives the same payload."""
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    return {
        "from": str(message["From"]),
        "to": [str(message["To"])],
        "subject": str(message["Subject"]),
        "text": text.get_content() if text is not None else "",
        "html": html.get_content() if html is not None else "",
        "headers": {name: str(message[name]) for name in ("Message-ID", "Auto-Submitted") if message[name]},
        "tags": [{"name": "token", "value": token}],
    }
