"""The routes of an application lie in one list, and are what they were in their routers."""

from __future__ import annotations

from typing import Any

import httpx
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.routing import APIRoute

from holdfast.http.flat import flatten, lay


class Marked(APIRoute):
    pass


PROBLEM: dict[int | str, dict[str, Any]] = {"4XX": {"description": "A problem."}}


def router_of_routers() -> APIRouter:
    inner = APIRouter(prefix="/inner", tags=["inner"], route_class=Marked)
    outer = APIRouter(prefix="/api", tags=["outer"], dependencies=[Depends(asked)])

    @inner.get("/{name}", status_code=202, responses={404: {"description": "There is none."}})
    async def by_name(name: str, limit: int = 5) -> dict[str, str]:
        return {"name": name}

    @outer.post("/things", include_in_schema=False)
    async def make(thing: dict[str, int]) -> None: ...

    @outer.get("/things", response_model=list[int])
    async def things() -> list[int]:
        return []

    outer.include_router(inner, prefix="/deep")
    return outer


def asked(request: Request) -> None:
    if "X-Guest" not in request.headers:
        raise HTTPException(403)


def included() -> FastAPI:
    app = FastAPI(responses=PROBLEM)
    app.include_router(router_of_routers())
    return app


def laid(*routers: APIRouter) -> FastAPI:
    app = FastAPI()
    lay(app, routers or [router_of_routers()], PROBLEM)
    return app


def test_flat_routes_are_described_as_before() -> None:
    assert laid().openapi() == included().openapi()


def test_flat_routes_keep_their_order_and_their_class() -> None:
    own = [route for route in laid().router.routes if isinstance(route, APIRoute)]
    assert [route.path for route in own] == ["/api/things", "/api/things", "/api/deep/inner/{name}"]
    assert [type(route) for route in own] == [APIRoute, APIRoute, Marked]
    assert own[2].tags == ["outer", "inner"] and own[2].status_code == 202


async def test_flat_routes_keep_the_guard_of_their_router() -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(laid()), base_url="http://test") as client:
        assert (await client.get("/api/deep/inner/a")).status_code == 403
        answer = await client.get("/api/deep/inner/a", headers={"X-Guest": "1"})
    assert (answer.status_code, answer.json()) == (202, {"name": "a"})


def test_a_router_is_laid_into_two_applications() -> None:
    router = router_of_routers()
    assert laid(router).openapi() == laid(flatten(router)).openapi() == included().openapi()
