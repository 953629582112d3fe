"""The console below a path of another application: the host's guard decides, and nothing is there without its yes."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount
from tests.http.wishes import Grant, Wish, app

from holdfast import Principal, console
from holdfast.errors import BadDeclaration
from holdfast.http.hosted import HostedConsole
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.submit import submit
from holdfast.main import open_store

pytestmark = pytest.mark.spec("K8")
OURS = {"Holdfast-Console": "1"}
STATIC = Path(sys.modules["holdfast"].__path__[0]) / "http" / "static"
SYSTEMS = STATIC.parents[2] / "holdfast_systems"
PEOPLE = {"olga": {"operator"}, "lena": {"learner"}}


def guard(request: Request) -> Principal | None:
    """The host's own login: a cookie."""
    name = request.cookies.get("shop_user")
    return Principal(f"{name}@shop.test", PEOPLE[name]) if name in PEOPLE else None


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'wishes.db'}"
    return str(request.getfixturevalue("postgres_server").emptied("mount"))


@pytest.fixture
async def kernel(database: str) -> AsyncIterator[Kernel]:
    opened = Kernel(store=open_store(database), registry=Registry([app]))
    await opened.migrate()
    yield opened
    await opened.store.close()


@pytest.fixture
async def mounted(database: str, kernel: Kernel) -> AsyncIterator[HostedConsole]:
    guest = console(app, guard=guard, database=database, sign_in="/shop/login")
    yield guest
    await guest.close()


def client_of(guest: HostedConsole, user: str | None, **headers: str) -> httpx.AsyncClient:
    host = Starlette(routes=[Mount("/x", routes=[Mount("/jobs", guest)])])
    cookies = {} if user is None else {"shop_user": user}
    transport = httpx.ASGITransport(app=host)
    return httpx.AsyncClient(transport=transport, base_url="http://shop.test", cookies=cookies, headers=headers)


async def test_an_operator_of_the_host_sees_and_acts_under_the_hosts_name(
    mounted: HostedConsole, kernel: Kernel
) -> None:
    job_id = await submit(kernel, Grant, Wish(text="a kite"))
    async with client_of(mounted, "olga") as client:
        page = await client.get("/x/jobs/", headers={"Accept": "text/html"})
        assert page.status_code == 200 and 'data-host data-sign-in="/shop/login"' in page.text
        for path in re.findall(r'(?:src|href)="([^"#]+)"', page.text):
            assert (await client.get(f"/x/jobs/{path.removeprefix('./')}")).status_code == 200, path
        session = (await client.get("/x/jobs/api/session")).json()
        assert session.pop("acts"), "what she may do is drawn"
        assert session == {"sub": "olga@shop.test", "roles": ["operator"], "modules": []}
        listed = (await client.get("/x/jobs/api/ops/jobs")).json()["items"]
        assert [each["id"] for each in listed] == [job_id]
        answer = await client.post(f"/x/jobs/api/ops/jobs/{job_id}/cancel", headers=OURS)
        assert answer.status_code == 200, answer.text
        audit = (await client.get("/x/jobs/api/ops/audit")).json()["items"]
        assert "olga@shop.test" in [each["actor"] for each in audit]


@pytest.mark.parametrize(
    "path", ["/", "/static/console.js", "/api/session", "/api/ops/jobs", "/api/ops/changes?ticket=x", "/no/such"]
)
async def test_nothing_is_there_without_the_guards_yes(mounted: HostedConsole, path: str) -> None:
    async with client_of(mounted, None) as client:
        answer = await client.get(f"/x/jobs{path}", headers={"Authorization": "Bearer x"})
        assert answer.status_code == 401 and answer.json()["code"] == "UNAUTHENTICATED"
        page = await client.get(f"/x/jobs{path}", headers={"Accept": "text/html"})
        assert (page.status_code, page.headers["location"]) == (303, "/shop/login")


async def test_who_is_no_operator_sees_nothing(mounted: HostedConsole) -> None:
    async with client_of(mounted, "lena") as client:
        for path in ("/", "/api/ops/overview", "/api/ops/changes"):
            assert (await client.get(f"/x/jobs{path}")).status_code == 403


@pytest.mark.parametrize("headers", [{}, {**OURS, "Sec-Fetch-Site": "cross-site"}, {**OURS, "Sec-Fetch-Site": "none"}])
async def test_another_site_cannot_make_the_browser_act(
    mounted: HostedConsole, kernel: Kernel, headers: dict[str, str]
) -> None:
    """The host's cookie comes along whoever caused the request."""
    job_id = await submit(kernel, Grant, Wish(text="a kite"))
    async with client_of(mounted, "olga", **headers) as client:
        answer = await client.post(f"/x/jobs/api/ops/jobs/{job_id}/cancel")
        assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")
        assert (await client.get(f"/x/jobs/api/ops/jobs/{job_id}")).json()["state"] == "queued"


async def test_without_apps_everything_in_the_database_is_shown(database: str, kernel: Kernel) -> None:
    job_id = await submit(kernel, Grant, Wish(text="a kite"))
    guest = console(guard=guard, database=database)
    async with client_of(guest, "olga") as client:
        assert (await client.get(f"/x/jobs/api/ops/jobs/{job_id}")).json()["kind"] == "wishes.grant"
        assert (await client.get("/x/jobs/api/ops/overview")).status_code == 200
    await guest.close()


async def test_a_guard_may_be_async_and_may_raise_the_hosts_own_error(database: str, kernel: Kernel) -> None:
    async def asking(request: Request) -> Principal | None:
        if "shop_user" not in request.cookies:
            raise RuntimeError("the host's own")
        return guard(request)

    guest = console(app, guard=asking, database=database)
    async with client_of(guest, "olga") as client:
        assert (await client.get("/x/jobs/api/ops/jobs")).status_code == 200
    async with client_of(guest, None) as client:
        with pytest.raises(RuntimeError, match="the host's own"):
            await client.get("/x/jobs/")
    await guest.close()


@pytest.mark.parametrize("answer", [True, "olga", Principal("", {"operator"}), Principal("a\nb", {"operator"})])
async def test_a_guard_that_answers_anything_else_lets_nobody_in(tmp_path: Path, answer: Any) -> None:
    guest = console(app, guard=lambda request: answer, database=f"sqlite:///{tmp_path / 'none.db'}")
    async with client_of(guest, "olga") as client:
        with pytest.raises(BadDeclaration, match="guard must return a Principal"):
            await client.get("/x/jobs/")


async def test_a_database_that_was_never_migrated_is_refused_and_left_alone(tmp_path: Path) -> None:
    """A guest changes no schema."""
    url = f"sqlite:///{tmp_path / 'empty.db'}"
    guest = console(app, guard=guard, database=url)
    async with client_of(guest, "olga") as client:
        answer = await client.get("/x/jobs/api/ops/jobs")
        assert answer.status_code == 503 and "holdfast migrate" in answer.json()["detail"]
        kernel = Kernel(store=open_store(url), registry=Registry([app]))
        await kernel.migrate()
        assert (await client.get("/x/jobs/api/ops/jobs")).status_code == 200
        await kernel.store.close()
    await guest.close()


def test_it_works_in_one_event_loop_after_another(tmp_path: Path) -> None:
    """As test clients do it: each has a loop of its own."""
    url = f"sqlite:///{tmp_path / 'wishes.db'}"
    guest = console(app, guard=guard, database=url)

    async def prepare() -> None:
        kernel = Kernel(store=open_store(url), registry=Registry([app]))
        await kernel.migrate()
        await kernel.store.close()

    async def look() -> int:
        async with client_of(guest, "olga") as client:
            return (await client.get("/x/jobs/api/ops/jobs")).status_code

    asyncio.run(prepare())
    assert [asyncio.run(look()) for _ in range(2)] == [200, 200]
    asyncio.run(guest.close())


def test_nothing_of_the_web_is_imported_before_it_is_called() -> None:
    code = "import sys, holdfast; holdfast.console; holdfast.Principal; sys.exit('fastapi' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_address_in_the_pages_is_relative_to_the_mount() -> None:
    """`api`, `follow` and `at` put the mount before an address; nothing else may begin one with a slash."""
    places = [*STATIC.glob("*.js"), *STATIC.parent.glob("pages_html/*.html"), *SYSTEMS.glob("*/web/*.*")]
    wrong = re.compile(r"""(?:from|import\(|fetch\(|replace\(|EventSource\(|href:|src:|action:)\s*["'`]/|=["']/""")
    assert [
        f"{path.name}: {line}" for path in places for line in path.read_text().splitlines() if wrong.search(line)
    ] == []


async def test_a_console_that_is_closed_holds_no_file_of_its_database(tmp_path: Path) -> None:
    path = tmp_path / "alone.db"
    opened = Kernel(store=open_store(f"sqlite:///{path}"), registry=Registry([app]))
    await opened.migrate()
    await opened.store.close()

    def held() -> int:
        return sum(str(path) in os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())

    guest = console(app, guard=guard, database=f"sqlite:///{path}")
    async with client_of(guest, "olga") as client:
        assert (await client.get("/x/jobs/api/ops/jobs")).status_code == 200
    assert held() > 0
    await guest.close()
    assert held() == 0
