"""Accepts an upload: limits first, then the bytes as they come, then file, job and document as one promise.

A refused or interrupted upload leaves nothing. Only where the database's answer was lost is the file left to the
sweep of orphans, which asks the database before it removes anything.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from holdfast.errors import StoreError
from holdfast.http.auth import Principal
from holdfast.http.guard import allow_body, body_ended
from holdfast.http.idempotency import REPLAYED, idempotent, parse_key
from holdfast.http.limits import MINUTE_MS, check, hold_to
from holdfast.http.problem import Problem
from holdfast.kit import Kernel, prepare, submit_in
from holdfast.kit.tables import Tx, batch, idempotency, secrets
from holdfast.providers.webhook import url_problem
from holdfast_systems.conversion import documents, views
from holdfast_systems.conversion.codes import TABLE, Code, ConversionError, public_error
from holdfast_systems.conversion.documents import KIND, NewDocument
from holdfast_systems.conversion.results import in_thread
from holdfast_systems.conversion.settings import ConversionSettings
from holdfast_systems.conversion.upload_form import FORM_BYTES_MAX, UploadForm
from holdfast_systems.conversion.uploads import Upload, receive

ROUTE = "POST /api/jobs"
NOUN = "uploads"
DRAIN_BYTES_MAX = 32 << 20
DRAIN_S_MAX = 5.0
STATUSES = {Code.TOO_LARGE: 413, Code.NOT_PDF: 415}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the form says besides the file."""

    priority: int
    webhook_url: str | None


async def accept(
    kernel: Kernel, settings: ConversionSettings, request: Request, who: Principal, key: str | None
) -> Response:
    """Take one upload and answer 202 with its job; the same key and content again give the same answer."""
    checked = parse_key(key, required=False)
    await _check_limits_early(kernel, settings, who, checked)
    allow_body(request, None)  # the limit is on the file, and kept while it arrives
    await _check_declared(request, settings)
    job_id = kernel.new_id()
    form = UploadForm(request.headers.get("content-type", ""), request.stream())
    try:
        stored = await _received(request, form, settings, job_id)
        wishes = _wishes(form, settings, stored)
    except ClientDisconnect:
        raise Problem(400, "BAD_REQUEST", "The upload was cut off.") from None
    return await _kept(kernel, settings, who, checked, form.filename, stored, wishes)


async def _received(request: Request, form: UploadForm, settings: ConversionSettings, job_id: str) -> Upload:
    try:
        return await receive(
            form.file(), settings.uploads, limit_bytes=settings.upload_bytes_max, new_name=f"{job_id}.pdf"
        )
    except ConversionError as error:
        await _drain(request)
        code, message = public_error(error)
        raise Problem(STATUSES.get(code, 500), code.value, message) from None
    except Problem:
        await _drain(request)
        raise
    except OSError as error:
        code, message = public_error(error)
        raise Problem(507 if code is Code.IO_ERROR else 500, code.value, message) from error


async def _drain(request: Request) -> None:
    """Read on for a moment: a client that still sends would otherwise see a reset and not our answer."""
    left = DRAIN_BYTES_MAX
    with suppress(ClientDisconnect, TimeoutError, RuntimeError):
        async with asyncio.timeout(DRAIN_S_MAX):
            while left > 0 and not body_ended(request):
                message = await request.receive()
                left -= len(message.get("body", b""))
                if message["type"] != "http.request":
                    return


async def _check_declared(request: Request, settings: ConversionSettings) -> None:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > settings.upload_bytes_max + FORM_BYTES_MAX:
        await _drain(request)
        raise Problem(413, Code.TOO_LARGE.value, TABLE[Code.TOO_LARGE].message)


def _wishes(form: UploadForm, settings: ConversionSettings, stored: Upload) -> Wishes:
    problem = None
    level = form.fields.get("priority") or "normal"
    url = form.fields.get("webhookUrl") or None
    if level not in views.PRIORITIES:
        problem = Problem(
            422, "INVALID_INPUT", f"priority must be one of {', '.join(views.PRIORITIES)}.", field="priority"
        )
    elif url is not None and settings.webhook_secret is None:
        problem = Problem(422, "INVALID_INPUT", "Webhooks are off here: WEBHOOK_SECRET is not set.", field="webhookUrl")
    elif url is not None and (why := url_problem(url)):
        problem = Problem(422, "INVALID_INPUT", why, field="webhookUrl")
    if problem is not None:
        stored.path.unlink(missing_ok=True)
        raise problem
    return Wishes(views.PRIORITIES[level], url)


async def _kept(
    kernel: Kernel,
    settings: ConversionSettings,
    who: Principal,
    key: str | None,
    filename: str,
    stored: Upload,
    wishes: Wishes,
) -> Response:
    """Write job and document in one transaction with the key; a file that this did not use is removed."""

    async def make(tx: Tx) -> tuple[int, dict[str, Any]]:
        now = kernel.now()
        await hold_to(kernel, tx, who, settings.user_limits, documents.usage, NOUN)
        return 202, await _write(kernel, tx, who, filename, stored, wishes, now)

    payload = {"sha256": stored.sha256, "priority": wishes.priority, "webhookUrl": wishes.webhook_url}
    used = False
    try:
        answer = await idempotent(kernel, who, ROUTE, key, payload, make, required=False)
        used = next(iter(REPLAYED)).lower() not in answer.headers
    except (StoreError, asyncio.CancelledError):
        used = True  # perhaps: the answer of the commit may be what was lost
        raise
    finally:
        if not used:
            await in_thread(partial(stored.path.unlink, missing_ok=True))
    return answer


async def _write(
    kernel: Kernel, tx: Tx, who: Principal, filename: str, stored: Upload, wishes: Wishes, now: int
) -> dict[str, Any]:
    job_id = stored.path.stem
    kind = kernel.registry.kind(KIND)
    given = {"source": stored.path.name}
    order = prepare(kind, given, job_id=job_id, now=now, priority=wishes.priority, owner=who.sub, trace=job_id)
    await submit_in(tx, [order], now, kernel.watch)
    url = wishes.webhook_url
    if url is not None:
        url, secret = kernel.sealer.seal_address(url, 1, "webhookUrl")
        await secrets.put(tx, {job_id: [secret] if secret else []}, now)
    new = NewDocument(
        id=job_id,
        owner=who.sub,
        filename=filename,
        source=stored.path.name,
        size=stored.size,
        sha256=stored.sha256,
        priority=wishes.priority,
        webhook_url=url,
    )
    await documents.insert(tx, new, now)
    await tx.notify("events")
    row = await documents.show(tx, job_id)
    assert row is not None
    return views.job_json(row, now)


async def _check_limits_early(kernel: Kernel, settings: ConversionSettings, who: Principal, key: str | None) -> None:
    """Refuse before the bytes come. A repetition of what was accepted before is let through to its answer."""
    now = kernel.now()
    async with kernel.store.reading() as tx:
        if key is not None and await idempotency.read(tx, batch.text([who.sub, ROUTE]), key) is not None:
            return
        check(settings.user_limits, await documents.usage(tx, who.sub, now - MINUTE_MS), now, NOUN)
