"""The grading service in the main app's console: its jobs, breakers and dead letters, read through its own API.

A question goes on to the service's /api/ops with the operator's own token. So the role is checked in both, and the
service's audit has the name of whoever acted. Nothing is kept here: what the service does not answer is not known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import quote
from uuid import UUID

import httpx
from fastapi import APIRouter, Body, Path, Request

from holdfast.http.answers.acts import BreakerForced, LetterCorrected, LetterReplayed, LetterStep, LetterTriaged
from holdfast.http.answers.documented import Documents, documented
from holdfast.http.answers.jobs import JobPage, JobStory
from holdfast.http.answers.letters import LetterPage, LetterStory
from holdfast.http.answers.service import BreakerList, OverviewAnswer
from holdfast.http.auth import require
from holdfast.http.ops_asked import HumanText, Reason
from holdfast.http.ops_cases import Correct, Remediate, Replay, Resolve, Triage
from holdfast.http.problem import Problem
from holdfast.providers.bounded import exchange, trust
from holdfast_systems.grading.settings import MainSettings

OPERATOR = require("operator")
SYSTEM = "grading-service"
SERVICE_BYTES_MAX = 16 << 20
LISTS: Mapping[str, Any] = {
    "overview": OverviewAnswer,
    "jobs": JobPage,
    "breakers": BreakerList,
    "dead-letters": LetterPage,
}
Given = dict[str, Any] | None
# The bodies go on as they came: it is the service that reads them.
TriageBody = Annotated[Given, Documents(Triage), Body()]
RemediateBody = Annotated[Given, Documents(Remediate), Body()]
CorrectBody = Annotated[Given, Documents(Correct), Body()]
ReplayBody = Annotated[Given, Documents(Replay | None), Body()]
ResolveBody = Annotated[Given, Documents(Resolve), Body()]
ReasonBody = Annotated[Given, Documents(Reason | None), Body()]


def service_routes(settings: MainSettings) -> APIRouter:
    """The routes under /api/ops/service."""
    router = APIRouter(prefix="/api/ops/service", tags=["grading", "operations"], dependencies=[OPERATOR])

    for noun, answer in LISTS.items():
        router.get(f"/{noun}", name=f"list_service_{noun}", response_model=documented(answer))(_list(settings, noun))

    @router.get("/jobs/{job_id}", response_model=documented(JobStory))
    async def show_service_job(request: Request, job_id: UUID) -> Any:
        """One job of the grading service, with its story."""
        return await _ask(settings, request, f"jobs/{job_id}")

    @router.get("/dead-letters/{case_id}", response_model=documented(LetterStory))
    async def show_service_letter(request: Request, case_id: UUID) -> Any:
        """One dead letter of the grading service, and its next step."""
        return await _ask(settings, request, f"dead-letters/{case_id}")

    _add_step_routes(router, settings)

    @router.post("/breakers/{name}/{verb}", response_model=documented(BreakerForced))
    async def force_service_breaker(
        request: Request,
        name: Annotated[HumanText, Path()],
        verb: Literal["open", "close"],
        body: ReasonBody = None,
    ) -> Any:
        """Open or close a breaker of the grading service, in the operator's name."""
        return await _ask(settings, request, f"breakers/{quote(name, safe='')}/{verb}", body or {})

    return router


def _list(settings: MainSettings, noun: str) -> Callable[[Request], Awaitable[Any]]:
    async def list_service(request: Request) -> Any:
        """What the grading service has of these, by its own API and with its filters."""
        return await _ask(settings, request, noun)

    return list_service


def _add_step_routes(router: APIRouter, settings: MainSettings) -> None:
    """A dead letter of the grading service is taken a step further in the operator's name."""

    async def take(request: Request, case_id: UUID, step: str, body: Given) -> Any:
        return await _ask(settings, request, f"dead-letters/{case_id}/{step}", body or {})

    @router.post("/dead-letters/{case_id}/triage", response_model=documented(LetterTriaged))
    async def triage_service_letter(request: Request, case_id: UUID, body: TriageBody = None) -> Any:
        """Step 1: say what kind of cause it was."""
        return await take(request, case_id, "triage", body)

    @router.post("/dead-letters/{case_id}/remediate", response_model=documented(LetterStep))
    async def remediate_service_letter(request: Request, case_id: UUID, body: RemediateBody = None) -> Any:
        """Step 2: record what was fixed."""
        return await take(request, case_id, "remediate", body)

    @router.post("/dead-letters/{case_id}/correct", response_model=documented(LetterCorrected))
    async def correct_service_letter(request: Request, case_id: UUID, body: CorrectBody = None) -> Any:
        """Instead of step 2: correct the job's input."""
        return await take(request, case_id, "correct", body)

    @router.post("/dead-letters/{case_id}/replay", response_model=documented(LetterReplayed))
    async def replay_service_letter(request: Request, case_id: UUID, body: ReplayBody = None) -> Any:
        """Step 3: put the job back at its failed stage."""
        return await take(request, case_id, "replay", body)

    @router.post("/dead-letters/{case_id}/resolve", response_model=documented(LetterStep))
    async def resolve_service_letter(request: Request, case_id: UUID, body: ResolveBody = None) -> Any:
        """Step 4: close the case."""
        return await take(request, case_id, "resolve", body)


async def _ask(settings: MainSettings, request: Request, path: str, body: dict[str, Any] | None = None) -> Any:
    """The service's answer; its problems are this app's, and its absence is one sentence."""
    if settings.service_url is None:
        raise Problem(404, "NOT_FOUND", "The grading service is not shown here: GRADING_SERVICE_URL is not set.")
    try:
        async with asyncio.timeout(settings.service_timeout_s):
            answer = await _send(settings.service_url, request, path, body)
    except (httpx.HTTPError, TimeoutError):
        detail = "The grading service does not answer at present; look at its process and at GRADING_SERVICE_URL."
        raise Problem(503, "GRADING_SERVICE_AWAY", detail) from None
    if answer.status_code in (401, 403):
        detail = "The grading service refuses your token; both must have the same HOLDFAST_JWT_SECRET or key server."
        raise Problem(502, "GRADING_SERVICE_REFUSED", detail)
    content = _json(answer)
    if answer.status_code >= 400 and isinstance(content.get("code"), str):
        raise Problem(answer.status_code, content["code"], str(content.get("detail", "")))
    if answer.status_code != 200:
        detail = f"What answers at GRADING_SERVICE_URL is no grading service: it answered {answer.status_code}."
        raise Problem(502, "GRADING_SERVICE_UNREADABLE", detail)
    return content


async def _send(url: str, request: Request, path: str, body: dict[str, Any] | None) -> httpx.Response:
    headers = {"Authorization": request.headers["authorization"]}
    params = {**request.query_params, "system": SYSTEM}
    async with httpx.AsyncClient(timeout=None, follow_redirects=False, trust_env=False, verify=trust()) as client:
        address = f"{url.rstrip('/')}/api/ops/{path}"
        asked = client.build_request(request.method, address, headers=headers, params=params, json=body)
        return await exchange(client, asked, SERVICE_BYTES_MAX)


def _json(answer: httpx.Response) -> dict[str, Any]:
    try:
        content = answer.json()
    except ValueError:
        content = None
    if not isinstance(content, dict):
        detail = "What answers at GRADING_SERVICE_URL is no grading service: its answer is no JSON object."
        raise Problem(502, "GRADING_SERVICE_UNREADABLE", detail)
    return content
