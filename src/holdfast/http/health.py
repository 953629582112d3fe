"""Is it alive, and can it serve? For load balancers and people; says nothing that is secret."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from holdfast.errors import StoreError
from holdfast.http.problem import Problem
from holdfast.kernel.kernel import Kernel
from holdfast.system import OpenSystem
from holdfast.tables import ops
from holdfast.tables.schema import KERNEL

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: Request) -> dict[str, Any]:
    """Every database answers and has the schema of this code; else 503 NOT_READY, with the reason by system."""
    states = {one.name: await readiness(one) for one in request.app.state.systems}
    if any(state != "ready" for state in states.values()):
        raise Problem(503, "NOT_READY", "Not every system is ready.", headers={"Retry-After": "5"}, systems=states)
    return {"status": "ready", "systems": states}


async def readiness(one: OpenSystem) -> str:
    """`ready`, or in a few words what is missing."""
    try:
        async with one.kernel.store.reading() as tx:
            found = await ops.versions(tx)
    except StoreError:
        return "the database does not answer or is not migrated"
    wanted = schema_wanted(one.kernel)
    if any(found.get(namespace, 0) < version for namespace, version in wanted.items()):
        return "the database is not migrated; run holdfast migrate"
    if any(found[namespace] > version for namespace, version in wanted.items()):
        return "the database is newer than this code"
    return "ready"


def schema_wanted(kernel: Kernel) -> dict[str, int]:
    """The newest version of every namespace that this code knows."""
    newest: dict[str, int] = {}
    for step in [*KERNEL, *(step for app in kernel.registry.apps for step in app.migrations)]:
        newest[step.namespace] = max(step.version, newest.get(step.namespace, 0))
    return newest
