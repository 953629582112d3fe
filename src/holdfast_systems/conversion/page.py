"""The page at /convert: three files, served as they are. No build step, no inline script or style."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse

from holdfast.http.problem import Problem

HERE = Path(__file__).parent
KINDS = {"convert.js": "text/javascript", "convert.css": "text/css"}


def page_routes() -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/convert")
    async def page() -> FileResponse:
        return FileResponse(HERE / "templates" / "convert.html", media_type="text/html", headers=FRESH)

    @router.get("/convert/static/{name}")
    async def static(name: str) -> FileResponse:
        if name not in KINDS:
            raise Problem(404, "NOT_FOUND", "There is no such file.")
        return FileResponse(HERE / "static" / name, media_type=KINDS[name], headers=FRESH)

    return router


FRESH = {"Cache-Control": "no-cache"}  # asked for again after every release; the ETag makes that cheap
