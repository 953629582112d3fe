"""The routes of an application lie in one list, and are what they were in their routers."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from holdfast.http.flat import flatten


class Marked(APIRoute):
    pass


def app_of_routers() -> FastAPI:
    inner = APIRouter(prefix="/inner", tags=["inner"], route_class=Marked)
    outer = APIRouter(tags=["outer"])

    @inner.get("/{name}", status_code=202, responses={404: {"description": "There is none."}})
    async def by_name(name: str, limit: int = 5) -> dict[str, str]:
        return {}

    @outer.post("/things", include_in_schema=False)
    async def make(thing: dict[str, int]) -> None: ...

    @outer.get("/things", response_model=list[int])
    async def things() -> list[int]:
        return []

    outer.include_router(inner, prefix="/deep")
    app = FastAPI(responses={"4XX": {"description": "A problem."}})
    app.include_router(outer)
    return app


def test_flat_routes_are_described_as_before() -> None:
    app = app_of_routers()
    flatten(app)
    assert app.openapi() == app_of_routers().openapi()


def test_flat_routes_keep_their_order_and_their_class() -> None:
    app = app_of_routers()
    flatten(app)
    own = [route for route in app.router.routes if isinstance(route, APIRoute)]
    assert [route.path for route in own] == ["/things", "/things", "/deep/inner/{name}"]
    assert [type(route) for route in own] == [APIRoute, APIRoute, Marked]
    assert own[2].tags == ["outer", "inner"] and own[2].status_code == 202
