"""Is it alive, and can it serve? For load balancers and people; says nothing that is secret."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from holdfast.errors import SchemaMismatch, StoreError
from holdfast.http.problem import Problem
from holdfast.kernel.schema import check_schema
from holdfast.system import OpenSystem

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: Request) -> dict[str, Any]:
    """Every database answers and has a schema this code works with; else 503 NOT_READY, with the reason by system."""
    states = {one.name: await readiness(one) for one in request.app.state.systems}
    if any(state != "ready" for state in states.values()):
        raise Problem(503, "NOT_READY", "Not every system is ready.", headers={"Retry-After": "5"}, systems=states)
    return {"status": "ready", "systems": states}


async def readiness(one: OpenSystem) -> str:
    """`ready`, or in a sentence what is missing."""
    try:
        await check_schema(one.kernel)
    except SchemaMismatch as error:
        return str(error)
    except StoreError:
        return "the database does not answer"
    return "ready"
