"""Two web servers to post to: grading's main app as it is deployed, and the least that FastAPI can do durably.

Called as `python -m bench.runs.serving ours|bare PORT`; serves until its standard input is closed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any
from uuid import uuid4

import asyncpg
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from bench.stopwatch import postgres_url
from holdfast.engines.collecting import collect_seldom
from holdfast.engines.run import Duties

SECRET = "only-for-the-bench-and-at-least-32-characters"
TABLE = "CREATE TABLE IF NOT EXISTS submissions (id uuid PRIMARY KEY, skill text NOT NULL, payload text NOT NULL)"
INSERT = "INSERT INTO submissions (id, skill, payload) VALUES ($1, $2, $3)"


class New(BaseModel):
    skill: str
    payload: dict[str, Any]


def bare() -> FastAPI:
    """One route, one INSERT, no promise."""

    @asynccontextmanager
    async def opened(app: FastAPI) -> AsyncIterator[None]:
        async with asyncpg.create_pool(postgres_url(), min_size=10, max_size=10) as pool:
            await pool.execute(TABLE)
            app.state.pool = pool
            yield

    app = FastAPI(lifespan=opened)

    @app.post("/api/submissions", status_code=201)
    async def create(new: New) -> dict[str, Any]:
        identity = uuid4()
        await app.state.pool.execute(INSERT, identity, new.skill, str(new.payload))
        return {"id": str(identity), "status": "PENDING"}

    return app


async def ours() -> FastAPI:
    """The main app's routes with authentication and everything in front of them; its relay runs elsewhere."""
    from holdfast.engines.run import prepare
    from holdfast.http.app import create_app
    from holdfast.main import open_systems
    from holdfast.settings import Settings

    # One user posts as fast as it can and nobody grades, which the limits are there to prevent.
    limits = {"GRADING_SUBMISSIONS_PER_MINUTE": "0", "GRADING_UNFINISHED_MAX": "0"}
    env = os.environ | {"MAIN_DATABASE_URL": postgres_url()} | limits
    settings = Settings(jwt_secret=SECRET, requests_per_user=0)
    systems = await open_systems(settings, env, ["grading-main"])
    for one in systems:
        await one.kernel.migrate()
        await prepare(one.kernel)
    return create_app(settings, systems)


async def main(which: str, port: int) -> None:
    app = bare() if which == "bare" else await ours()
    collecting = nullcontext() if which == "bare" else collect_seldom(Duties().concurrency)
    config = uvicorn.Config(app, port=port, log_config=None, access_log=False, server_header=False)
    server = uvicorn.Server(config)
    with collecting:
        serving = asyncio.ensure_future(server.serve())
        await asyncio.to_thread(sys.stdin.read)
        server.should_exit = True
        await serving


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
