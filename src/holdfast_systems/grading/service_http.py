"""The grading service in the main app's console: its jobs, breakers and dead letters, read through its own API.

A question goes on to the service's /api/ops with the operator's own token. So the role is checked in both, and the
service's audit has the name of whoever acted. Nothing is kept here: what the service does not answer is not known.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal
from urllib.parse import quote
from uuid import UUID

import httpx
from fastapi import APIRouter, Body, Path, Request

from holdfast.http.auth import require
from holdfast.http.ops_asked import HumanText
from holdfast.http.problem import Problem
from holdfast.providers.bounded import exchange, trust
from holdfast_systems.grading.settings import MainSettings

OPERATOR = require("operator")
SYSTEM = "grading-service"
SERVICE_BYTES_MAX = 16 << 20
List = Literal["overview", "jobs", "breakers", "dead-letters"]
Step = Literal["triage", "remediate", "correct", "replay", "resolve"]
Given = Annotated[dict[str, Any] | None, Body()]


def service_routes(settings: MainSettings) -> APIRouter:
    """The routes under /api/ops/service."""
    router = APIRouter(prefix="/api/ops/service", tags=["operations"], dependencies=[OPERATOR])

    @router.get("/{noun}")
    async def list_service(request: Request, noun: List) -> Any:
        """What the grading service has of these, by its own API and with its filters."""
        return await _ask(settings, request, noun)

    @router.get("/jobs/{job_id}")
    async def show_service_job(request: Request, job_id: UUID) -> Any:
        """One job of the grading service, with its story."""
        return await _ask(settings, request, f"jobs/{job_id}")

    @router.get("/dead-letters/{case_id}")
    async def show_service_letter(request: Request, case_id: UUID) -> Any:
        """One dead letter of the grading service, and its next step."""
        return await _ask(settings, request, f"dead-letters/{case_id}")

    @router.post("/dead-letters/{case_id}/{step}")
    async def step_service_letter(request: Request, case_id: UUID, step: Step, body: Given = None) -> Any:
        """Take a dead letter of the grading service a step further, in the operator's name."""
        return await _ask(settings, request, f"dead-letters/{case_id}/{step}", body or {})

    @router.post("/breakers/{name}/{verb}")
    async def force_service_breaker(
        request: Request, name: Annotated[HumanText, Path()], verb: Literal["open", "close"], body: Given = None
    ) -> Any:
        """Open or close a breaker of the grading service, in the operator's name."""
        return await _ask(settings, request, f"breakers/{quote(name, safe='')}/{verb}", body or {})

    return router


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
