"""The HTTP interface of conversions: upload, list, show, fetch, watch, retry, cancel. A job is its owner's alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.responses import FileResponse
from starlette.types import Receive, Scope, Send

from holdfast import NotAllowed
from holdfast.http.answers.documented import documented
from holdfast.http.auth import Principal, require, require_stream
from holdfast.http.problem import Problem
from holdfast.http.stream import Event, EventStream, last_event_id, stream
from holdfast.kit import Kernel
from holdfast.kit.repair import operate
from holdfast.kit.tables import Row, Tx, events
from holdfast.settings import read
from holdfast_systems.conversion import documents, results, views
from holdfast_systems.conversion.accept import accept
from holdfast_systems.conversion.answer_types import ConversionJob, ConversionPage
from holdfast_systems.conversion.codes import TABLE, Code
from holdfast_systems.conversion.documents import status_of
from holdfast_systems.conversion.jobs import GATEWAY
from holdfast_systems.conversion.results import in_thread
from holdfast_systems.conversion.settings import ConversionSettings

ANYONE, WATCHER = require(), require_stream()
PAGE_MAX = 200
WATCHED_MAX = 100  # the newest jobs of a user that one stream follows
EVENTS_MAX = 1_000
JOB = documented(ConversionJob)
STATUSES = {Code.NOT_READY: 409, Code.EXPIRED: 410, Code.FORBIDDEN: 403, Code.IO_ERROR: 500}

Who = Annotated[Principal, ANYONE]
Watcher = Annotated[Principal, WATCHER]


def routes(kernel: Kernel, env: Mapping[str, str]) -> APIRouter:
    """The API and the page, for an open kernel."""
    settings = read(ConversionSettings, env)
    router = APIRouter(tags=["conversion"])
    _writing(router, kernel, settings)
    _reading(router, kernel, settings)
    return router


def _writing(router: APIRouter, kernel: Kernel, settings: ConversionSettings) -> None:
    @router.post("/api/jobs", status_code=202, openapi_extra=UPLOAD, response_model=JOB)
    async def upload(request: Request, who: Who, idempotency_key: Annotated[str | None, Header()] = None) -> Response:
        """Upload a PDF to convert."""
        return await accept(kernel, settings, request, who, idempotency_key)

    @router.post("/api/jobs/{job_id}/retry", status_code=202, response_model=JOB)
    async def retry(job_id: str, who: Who) -> dict[str, Any]:
        """Queue a failed job again, with fresh attempts, while its PDF is still here."""
        return await retry_job(kernel, settings, job_id, who)

    @router.post("/api/jobs/{job_id}/cancel", response_model=JOB)
    async def cancel(job_id: str, who: Who) -> dict[str, Any]:
        """End a job that is not finished."""
        return await cancel_job(kernel, job_id, who)


def _reading(router: APIRouter, kernel: Kernel, settings: ConversionSettings) -> None:
    @router.get("/api/jobs", response_model=documented(ConversionPage))
    async def jobs(
        who: Who, cursor: str | None = None, limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50
    ) -> dict[str, Any]:
        """Your jobs, the newest first. `nextCursor` fetches the next page."""
        async with kernel.store.reading() as tx:
            rows = await documents.page(tx, who.sub, before=_cursor(cursor), limit=limit + 1)
            now = kernel.now()
            banner = await views.banner(tx, GATEWAY, now)
        return {
            "jobs": [views.job_json(row, now) for row in rows[:limit]],
            "nextCursor": rows[limit - 1]["id"] if len(rows) > limit else None,
            "banner": banner,
            "uploadBytesMax": settings.upload_bytes_max,
        }

    @router.get("/api/jobs/events", response_class=EventStream)
    async def watch(request: Request, who: Watcher) -> Response:
        """Your newest jobs as they change: `job` events with a job each, `banner` events, all of them at first."""
        return stream(kernel, request, last_event_id=None, fetch=_changes(kernel, who.sub))

    @router.get("/api/jobs/{job_id}", response_model=JOB)
    async def show(job_id: str, who: Who) -> dict[str, Any]:
        """One of your jobs."""
        return await _shown(kernel, job_id, who)

    @router.get("/api/jobs/{job_id}/events", response_class=EventStream)
    async def follow(request: Request, job_id: str, who: Watcher) -> Response:
        """The job's events, from the first or from the last one you saw, until it ends."""
        after = events.EventPosition.parse(last_event_id(request))
        async with kernel.store.reading() as tx:
            row = await _own(tx, job_id, who)
            ended = status_of(row, kernel.now()) not in documents.LIVE
            if ended and not await events.of_job(tx, job_id, after, 1):
                return Response(status_code=204)  # tells an EventSource that there is nothing to come back for
        return stream(kernel, request, last_event_id=str(after), fetch=_story(job_id))

    @router.get("/api/jobs/{job_id}/result", response_class=Download)
    async def result(job_id: str, who: Who) -> Response:
        """The XML, as a download."""
        return await result_of_job(kernel, settings, job_id, who)


async def retry_job(kernel: Kernel, settings: ConversionSettings, job_id: str, who: Principal) -> dict[str, Any]:
    """Queue a failed job of the caller's again; the job as it is then."""
    async with kernel.store.reading() as tx:
        row = await _own(tx, job_id, who)
    has_file = await in_thread((settings.uploads / row["source"]).is_file)
    async with kernel.store.transaction() as tx:
        return await _retry(kernel, tx, job_id, who, has_file)


async def cancel_job(kernel: Kernel, job_id: str, who: Principal) -> dict[str, Any]:
    """End a live job of the caller's; the job as it is then."""
    async with kernel.store.reading() as tx:
        await _own(tx, job_id, who)
    try:
        await operate.cancel(kernel, job_id, who.sub)
    except NotAllowed:  # it speaks of the kernel's states
        status = (await _shown(kernel, job_id, who))["status"]
        told = f"The job is {status}; only a job that has not ended can be cancelled."
        raise Problem(409, Code.NOT_READY, told) from None
    return await _shown(kernel, job_id, who)


async def result_of_job(kernel: Kernel, settings: ConversionSettings, job_id: str, who: Principal) -> FileResponse:
    """The XML of a job of the caller's; a Problem while there is none. A result may expire between the look at its row
    and at its file: then the row is looked at again, and says so."""
    try:
        return await _result_now(kernel, settings, job_id, who)
    except Problem as problem:
        if problem.code != Code.IO_ERROR:
            raise
    return await _result_now(kernel, settings, job_id, who)


async def _result_now(kernel: Kernel, settings: ConversionSettings, job_id: str, who: Principal) -> FileResponse:
    async with kernel.store.reading() as tx:
        row = await _own(tx, job_id, who)
    return await _result(settings, row, status_of(row, kernel.now()))


async def _shown(kernel: Kernel, job_id: str, who: Principal) -> dict[str, Any]:
    async with kernel.store.reading() as tx:
        row = await _own(tx, job_id, who)
    return views.job_json(row, kernel.now())


async def _own(tx: Tx, job_id: str, who: Principal) -> Row:
    """The document behind an id, if it is the caller's."""
    try:
        row = await documents.show(tx, str(UUID(job_id)))
    except ValueError:
        row = None
    if row is None:
        raise Problem(404, Code.FORBIDDEN.value, "You have no such job.")
    if row["owner"] != who.sub:
        raise _refusal(Code.FORBIDDEN)
    return row


def _refusal(code: Code, detail: str | None = None) -> Problem:
    return Problem(STATUSES[code], code.value, detail or TABLE[code].message)


async def _retry(kernel: Kernel, tx: Tx, job_id: str, who: Principal, has_file: bool) -> dict[str, Any]:
    row = await _own(tx, job_id, who)
    status = status_of(row, kernel.now())
    if status != "failed":
        raise _refusal(Code.NOT_READY, f"The job is {status}; only a failed job can be retried.")
    if not has_file or row["source_gone"]:
        raise _refusal(Code.EXPIRED, "The PDF is no longer here; upload it again.")
    await operate.retry_dead(kernel, tx, row["id"], actor=who.sub, evidence="Its owner asked for another try.")
    if not await documents.requeue(tx, row["id"], kernel.now()):
        raise _refusal(Code.EXPIRED, "The PDF is no longer here; upload it again.")
    await tx.notify("events")
    after = await documents.show(tx, row["id"])
    assert after is not None
    return views.job_json(after, kernel.now())


async def _result(settings: ConversionSettings, row: Row, status: str) -> FileResponse:
    if status == "expired":
        raise _refusal(Code.EXPIRED)
    if status in documents.LIVE:
        raise _refusal(Code.NOT_READY)
    if status != "complete":
        raise _refusal(Code.NOT_READY, f"The job is {status}; it has no result.")
    path = results.path_of(settings.results, row["id"], row["result_sha256"])
    if not await in_thread(path.is_file):
        raise _refusal(Code.IO_ERROR)
    name = row["filename"].rsplit(".", 1)[0] or "document"
    # As an attachment: XML that came out of a stranger's file is never opened in this site's name.
    return Download(path, filename=f"{name}.xml", headers={"Accept-Ranges": "none"})


class Download(FileResponse):
    """The whole file, whatever range of it is asked for: a range that does not fit would be refused in words that are
    not ours, with none of the public codes."""

    media_type = "application/xml"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(name, value) for name, value in scope["headers"] if name != b"range"]
        await super().__call__({**scope, "headers": headers}, receive, send)


def _story(job_id: str) -> Any:
    async def fetch(tx: Tx, after: str | None) -> list[Event]:
        place = events.EventPosition.parse(after)
        rows = await events.of_job(tx, job_id, place, EVENTS_MAX)
        return views.events_of(job_id, events.positions_of(rows, place), whole=len(rows) < EVENTS_MAX)

    return fetch


def _changes(kernel: Kernel, owner: str) -> Any:
    """Whatever differs from what this stream has sent. By value and not by number: jobs commit in any order."""
    sent: dict[str, Any] = {}

    async def fetch(tx: Tx, after: str | None) -> list[Event]:
        now = kernel.now()
        seen: dict[str, Any] = {"banner": {"text": await views.banner(tx, GATEWAY, now)}}
        for row in reversed(await documents.page(tx, owner, limit=WATCHED_MAX)):
            seen[row["id"]] = views.job_json(row, now)
        new = [key for key, value in seen.items() if sent.get(key) != value]
        sent.update(seen)
        return [Event(str(now), "banner" if key == "banner" else "job", seen[key]) for key in new]

    return fetch


def _cursor(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return str(UUID(text))
    except ValueError:
        raise Problem(422, "INVALID_INPUT", "cursor: it is not one that this list gave.", field="cursor") from None


UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary", "description": "The PDF."},
                        "priority": {"type": "string", "enum": list(views.PRIORITIES), "default": "normal"},
                        "webhookUrl": {"type": "string", "format": "uri", "description": "Told how the job ends."},
                    },
                }
            }
        },
    }
}
