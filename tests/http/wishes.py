"""A small system of the tests: wishes that an oracle grants, or refuses, with routes that use all of the layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Header, Request
from pydantic import BaseModel
from tests.roles import ROLES

from holdfast import App, Category, Context, Job, Provider, Retry, stage
from holdfast.errors import CallError
from holdfast.http.app import create_app
from holdfast.http.auth import Principal, require, require_stream
from holdfast.http.guard import allow_body
from holdfast.http.idempotency import idempotent
from holdfast.http.stream import Event, last_event_id, stream
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import prepare, submit_in
from holdfast.settings import Settings
from holdfast.stores.seam import Tx
from holdfast.system import OpenSystem, System
from holdfast.tables import events, jobs

SECRET = "a-secret-of-the-tests-" + "that-is-long-enough-" * 3
LEARNER, WATCHER = require("learner"), require_stream("learner", "operator")


class Wish(BaseModel):
    text: str
    fails: str = ""


oracle = Provider("oracle")
app = App("wishes")


@app.job(deadline_s=3_600)
class Grant(Job[Wish]):
    @stage(provider=oracle, retry=Retry(attempts=2, base_s=60, jitter="none"))
    async def ask(self, ctx: Context, wish: Wish) -> str:
        if wish.fails:
            raise CallError.of(Category.VALIDATION, wish.fails, "The oracle refused <b>this</b>.")
        return wish.text.upper()


def routes(kernel: Kernel, env: Mapping[str, str]) -> APIRouter:
    router = APIRouter()

    @router.post("/api/wishes", status_code=201)
    async def wish(
        request: Request,
        body: Wish,
        who: Annotated[Principal, LEARNER],
        idempotency_key: Annotated[str | None, Header()] = None,
    ) -> Any:
        async def make(tx: Tx) -> tuple[int, dict[str, Any]]:
            if body.fails == "AT_ONCE":
                raise RuntimeError("the password is hunter2")
            now = kernel.now()
            order = prepare(Grant.__holdfast__, body, job_id=kernel.new_id(), now=now, owner=who.sub)
            return 201, {"id": (await submit_in(tx, [order], now))[0], "text": body.text}

        payload = await request.body()
        return await idempotent(kernel, who, "POST /api/wishes", idempotency_key, payload, make, required=True)

    @router.get("/api/wishes/{wish_id}/events")
    async def follow(request: Request, wish_id: str, who: Annotated[Principal, WATCHER]) -> Any:
        async def fetch(tx: Tx, after: str | None) -> list[Event]:
            place = events.EventPosition.parse(after)
            steps = events.positions_of(await events.of_job(tx, wish_id, place), place)
            return [Event(str(at), row.type, {}, row.type == "succeeded") for at, row in steps]

        return stream(kernel, request, last_event_id=last_event_id(request), fetch=fetch, heartbeat_s=0.05)

    @router.post("/api/large")
    async def large(request: Request, who: Annotated[Principal, LEARNER]) -> dict[str, int]:
        allow_body(request, 3_000_000)
        return {"bytes": len(await request.body())}

    return router


def web_for(settings: Settings, kernel: Kernel) -> FastAPI:
    system = System("wishes", "Wishes", "WISHES_URL", build=lambda env: app, routes=routes, roles=ROLES)
    return create_app(settings, [OpenSystem(system, kernel, {})])


async def count_jobs(kernel: Kernel) -> int:
    async with kernel.store.reading() as tx:
        return len(await jobs.page(tx, limit=1_000))
