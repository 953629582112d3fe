"""The pages: a front page, a sign-in, the console, and those that the systems bring. Plain files; no build step. Every
address in them is relative, so that they work below any path.

A page never carries data: its script asks the API with the bearer token, which the sign-in keeps for the browser tab.
The console's page itself is shown only to operators: the sign-in also sets a cookie that is good for nothing else. No
request that changes anything accepts the cookie, so there is nothing to forge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from holdfast.http.auth import SAFE, Principal, asked_roles, bearer_token, require
from holdfast.http.files import FileAnswer
from holdfast.http.problem import Problem
from holdfast.system import OpenSystem, Page

HERE = Path(__file__).parent
COOKIE = "holdfast_console"
ASSETS = {path.name: path for path in sorted((HERE / "static").iterdir())}
LINKS = (("./", "Home"), ("console", "Console"), ("docs", "API"))
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".woff2": "font/woff2"}

OIDC_WAY = '<p><a class="button" href="login/oidc">Sign in with your organisation</a></p>\n'
FRESH = {"Cache-Control": "no-cache"}

router = APIRouter(include_in_schema=False)
common = APIRouter(include_in_schema=False)
"""What the console's page needs wherever it stands: here, or mounted in another application."""


@router.get("/")
async def front(request: Request) -> HTMLResponse:
    """What runs here, with the cards of the systems to try them. Where nothing can be tried, nothing invites to it."""
    brought = [(each.name, each.system.pages) for each in request.app.state.systems if each.system.pages is not None]
    cards = [(pages.folder / pages.card).read_text() for _, pages in brought if pages.card]
    scripts = [_module(f"static/{name}/{pages.card_script}") for name, pages in brought if pages.card_script]
    can_break = request.app.state.playground is not None
    title, hero = ("Try it", "hero") if cards or can_break else ("What runs here", "hero-own")
    main = read_part("front").replace("<!-- hero -->\n", read_part(hero)).replace("<!-- cards -->\n", "".join(cards))
    main = main.replace("<!-- playground -->\n", read_part("playground") if can_break else "")
    own = ["front.js", *(["playground.js"] if can_break else [])]
    head = [*(_module(f"static/{name}") for name in own), *scripts]
    return _framed(request, title, main, "./", head)


@router.get("/login")
async def login(request: Request) -> HTMLResponse:
    main = read_part("login").replace("<!-- oidc -->\n", OIDC_WAY if request.app.state.settings.oidc_issuer else "")
    return _framed(request, "Sign in", main, None, [_module("static/login.js")])


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
    if who.may("operator", "viewer"):
        return FileAnswer(HERE / "pages_html" / "console.html", media_type="text/html", headers=FRESH)
    if "text/html" in request.headers.get("accept", ""):
        return _refusal(request, who)
    raise Problem(403, "FORBIDDEN", "The console is for operators.")


def _refusal(request: Request, who: Principal) -> HTMLResponse:
    """The console's page for whoever may not see it: the pages that their roles do open."""
    mine = [page for page in _pages_of(request.app.state.systems) if page.roles and who.may(*page.roles)]
    ways = [f'<li><a href="{page.path}">{escape(page.title)}</a>, which your role opens.</li>' for page in mine]
    main = read_part("forbidden").replace("<!-- open -->", "\n  ".join(ways))
    return _framed(request, "For operators", main, None, [_module("static/forbidden.js")], status=403)


@common.get("/api/session")
async def show_session(request: Request, who: Annotated[Principal, require()]) -> dict[str, Any]:
    """Who is signed in, which acts their roles allow, and the console's modules that come with the systems here."""
    brought = [(each.name, each.system.pages) for each in request.app.state.systems]
    modules = [f"static/{name}/{pages.console}" for name, pages in brought if pages is not None and pages.console]
    acts = _acts_of(request.app.routes, who)
    return {"sub": who.sub, "roles": sorted(who.roles), "acts": acts, "modules": modules}


def _acts_of(routes: Iterable[BaseRoute], who: Principal) -> list[str]:
    """The addresses at which this person may change something, by the roles that each asks for."""
    documented = [route for route in routes if isinstance(route, APIRoute) and route.include_in_schema]
    return [
        route.path_format
        for route in documented
        if not SAFE.issuperset(route.methods or ()) and all(who.may(*roles) for roles in asked_roles(route.dependant))
    ]


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
async def asset(name: str) -> FileAnswer:
    return _file(ASSETS.get(name))


@common.get("/static/{system}/{name}")
async def system_asset(request: Request, system: str, name: str) -> FileAnswer:
    """A file that a system which runs here brings; only files of its folder, by their names."""
    folders = [
        each.system.pages.folder for each in request.app.state.systems if each.name == system and each.system.pages
    ]
    return _file(next((path for folder in folders for path in folder.iterdir() if path.name == name), None))


def system_pages(systems: Sequence[OpenSystem]) -> APIRouter:
    """The pages that these systems bring, each at its own address."""
    routes = APIRouter(include_in_schema=False)
    for each in systems:
        if each.system.pages is None:
            continue
        for page in each.system.pages.pages:
            routes.add_api_route(f"/{page.path}", _show(page, each.name, each.system.pages.folder), methods=["GET"])
    return routes


def _show(page: Page, system: str, folder: Path) -> Any:
    head = [_module(f"static/{system}/{page.script}")] if page.script else []
    if page.style:
        head.append(f'<link rel="stylesheet" href="static/{escape(system)}/{page.style}">')

    async def show(request: Request) -> HTMLResponse:
        return _framed(request, page.title, (folder / page.file).read_text(), page.path, head)

    return show


def _pages_of(systems: Sequence[OpenSystem]) -> list[Page]:
    return [page for each in systems if each.system.pages is not None for page in each.system.pages.pages]


def links(systems: Sequence[OpenSystem], current: str | None) -> str:
    """The links between the pages: the library's, and those of the systems that everybody may open."""
    shared = [(page.path, page.title) for page in _pages_of(systems) if not page.roles or page.path == current]
    mark = ' class="current" aria-current="page"'
    return "".join(
        f'<a{mark if path == current else ""} href="{path}">{escape(title)}</a>'
        for path, title in (LINKS[0], *shared, *LINKS[1:])
    )


def frame(title: str, main: str, linked: str, head: Sequence[str] = ()) -> str:
    """A whole page: what it shows, `main`, in the frame that all pages share."""
    html = read_part("frame").replace("<!-- title -->", escape(title)).replace("<!-- pages -->", linked)
    return html.replace("<!-- head -->\n", "".join(f"{line}\n" for line in head)).replace("<!-- main -->", main)


def read_part(name: str) -> str:
    return (HERE / "pages_html" / f"{name}.html").read_text()


def _module(path: str) -> str:
    return f'<script type="module" src="{escape(path)}"></script>'


def _framed(
    request: Request, title: str, main: str, current: str | None, head: Sequence[str], status: int = 200
) -> HTMLResponse:
    html = frame(title, main, links(request.app.state.systems, current), head)
    return HTMLResponse(html, status, headers=FRESH)


def _file(path: Path | None) -> FileAnswer:
    if path is None:
        raise Problem(404, "NOT_FOUND", "There is no such file.")
    return FileAnswer(path, media_type=TYPES.get(path.suffix), headers=FRESH)
