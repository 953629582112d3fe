"""The pages: a front page to try the systems, a sign-in, the instructor queue, the console. Plain files; no build step.
Every address in them is relative, so that they work below any path.

A page never carries data: its script asks the API with the bearer token, which the sign-in keeps for the browser tab.
The console's page itself is shown only to operators: the sign-in also sets a cookie that is good for nothing else. No
request that changes anything accepts the cookie, so there is nothing to forge.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, RedirectResponse, Response

from holdfast.http.auth import Principal, bearer_token, require
from holdfast.http.problem import Problem

HERE = Path(__file__).parent
COOKIE = "holdfast_console"
ASSETS = {path.name: path for path in sorted((HERE / "static").iterdir())}
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

FRESH = {"Cache-Control": "no-cache"}

router = APIRouter(include_in_schema=False)
common = APIRouter(include_in_schema=False)
"""What the console's page needs wherever it stands: here, or mounted in another application."""


@router.get("/")
async def front() -> FileResponse:
    return _page("front.html")


@router.get("/login")
async def login() -> FileResponse:
    return _page("login.html")


@router.get("/instructor")
async def instructor() -> FileResponse:
    """The instructor queue for whoever is no operator; like every page, it holds no data."""
    return _page("instructor.html")


@router.get("/console")
async def console(request: Request) -> Response:
    """Only for operators. Whoever is not signed in is asked to; whoever is somebody else is told so."""
    token = request.cookies.get(COOKIE)
    try:
        who = await request.app.state.auth.principal(token) if token else None
    except Problem:
        who = None
    if who is None:
        return RedirectResponse("login?next=console", status_code=303)
    if who.may("operator"):
        return _page("console.html")
    if "text/html" in request.headers.get("accept", ""):
        return _page("forbidden.html", status=403)
    raise Problem(403, "FORBIDDEN", "The console is for operators.")


@common.get("/api/session")
async def show_session(request: Request, who: Annotated[Principal, require()]) -> dict[str, Any]:
    """Who is signed in, and which views of the console come with the systems that run here."""
    views = [view for each in request.app.state.systems for view in each.system.views]
    return {"sub": who.sub, "roles": sorted(who.roles), "views": views}


@router.post("/api/session", status_code=204)
async def begin_session(request: Request, who: Annotated[Principal, require()]) -> Response:
    """Let this browser open the console's page. The token comes as a bearer token, as everywhere."""
    answer = Response(status_code=204)
    answer.set_cookie(COOKIE, bearer_token(request), max_age=43_200, **_cookie(request))
    return answer


@router.delete("/api/session", status_code=204)
async def end_session(request: Request, who: Annotated[Principal, require()]) -> Response:
    """Take the cookie back. It needs the bearer token too: no other site can sign somebody out."""
    answer = Response(status_code=204)
    answer.delete_cookie(COOKIE, **_cookie(request))
    return answer


def _cookie(request: Request) -> Any:
    path = f"{request.scope.get('root_path', '')}/console"
    return {"path": path, "httponly": True, "samesite": "strict", "secure": request.url.scheme == "https"}


@common.get("/static/{name}")
async def asset(name: str) -> FileResponse:
    path = ASSETS.get(name)
    if path is None:
        raise Problem(404, "NOT_FOUND", "There is no such file.")
    return FileResponse(path, media_type=TYPES.get(path.suffix), headers=FRESH)


def _page(name: str, status: int = 200) -> FileResponse:
    return FileResponse(HERE / "pages_html" / name, status, media_type="text/html", headers=FRESH)
