"""The console in a real browser, below /x/jobs of a Starlette application that signs people in by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from tests.browser.pages import PATIENCE_MS, go, says, watched
from tests.browser.shop import Mood, Order, shop_app
from tests.systems.conversion.live import Server

from holdfast import Principal, console
from holdfast.engines.run import Duties, prepare, run
from holdfast.kernel.app import Job
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import submit
from holdfast.main import open_kernel
from holdfast.settings import Settings

pytestmark = pytest.mark.spec("K8")


@dataclass
class Host:
    """The application around the console, the shop behind it, and who is let in."""

    address: str
    kernel: Kernel
    mood: Mood
    sell: type[Job[Any]]
    admitted: set[str]

    async def order(self, item: str) -> str:
        return await submit(self.kernel, self.sell, Order(item))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def host(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    folder = tmp_path_factory.mktemp("host")
    async with hosted(folder) as running:
        yield running


@asynccontextmanager
async def hosted(folder: Path) -> AsyncIterator[Host]:
    settings = Settings(data_dir=str(folder), database_url=f"sqlite:///{folder / 'shop.db'}")
    mood, admitted = Mood(), {"olga"}
    app, sell = shop_app(mood)
    kernel = open_kernel(settings, [app])
    await kernel.migrate()
    await prepare(kernel)

    async def guard(request: Request) -> Principal | None:
        name = request.cookies.get("shop_user", "")
        return Principal(f"{name}@shop.test", {"operator"}) if name in admitted else None

    guest = console(app, guard=guard, settings=settings, sign_in="/login")
    web = Starlette(routes=[Route("/login", sign_in), Route("/", home), Mount("/x/jobs", guest)])
    stop = asyncio.Event()
    server = Server(uvicorn.Config(web, port=0, log_config=None, timeout_graceful_shutdown=1))
    working = asyncio.ensure_future(run(kernel, Duties(concurrency=4), stop))
    serving = asyncio.ensure_future(server.serve())
    await server.listening.wait()
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Host(f"http://127.0.0.1:{port}", kernel, mood, sell, admitted)
    finally:
        await guest.close()
        stop.set()
        server.should_exit = True
        await asyncio.gather(working, serving)
        await kernel.store.close()


async def home(request: Request) -> Response:
    return PlainTextResponse("the shop")


async def sign_in(request: Request) -> Response:
    answer = HTMLResponse("<h1>The shop's own sign-in</h1>")
    if name := request.query_params.get("as"):
        answer.set_cookie("shop_user", name, httponly=True, samesite="lax")
    return answer


@asynccontextmanager
async def tab(browser: Any, host: Host, user: str | None) -> AsyncIterator[Any]:
    """A tab in which the host has signed somebody in; whatever it asks for outside the mount fails the test."""
    context = await browser.new_context(reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_MS)
    page = await context.new_page()
    noted, strayed = watched(page), []
    if user is not None:
        await page.goto(f"{host.address}/login?as={user}")
    mount = (f"{host.address}/x/jobs", f"{host.address}/login")
    page.on("request", lambda asked: None if asked.url.startswith(mount) else strayed.append(asked.url))
    try:
        yield page
        assert (noted, [url for url in strayed if not url.startswith("data:")]) == ([], [])
    finally:
        await context.close()


async def test_pages_live_updates_and_an_action_work_below_a_path(browser: Any, host: Host) -> None:
    host.mood.broken["lamp"] = "The card was refused."
    async with tab(browser, host, "olga") as page:
        await page.goto(f"{host.address}/x/jobs")  # the host adds the slash
        await says(page, "olga@shop.test")
        await page.locator("#live[data-on=true]").wait_for()
        assert await page.get_by_role("link", name="Instructors").count() == 0, "no system here brings that view"
        await go(page, "dead", "Dead letters")
        await host.order("lamp")
        await page.get_by_role("link", name="CARD_REFUSED").first.wait_for()  # nobody has reloaded
        await go(page, "breakers", "Breakers")
        await page.get_by_role("button", name="Open the breaker of bank").click()
        await page.get_by_role("dialog").get_by_label("Why").fill("the bank has announced an outage")
        await page.get_by_role("button", name="Open it").click()
        await go(page, "audit", "Audit")
        await says(page, "olga@shop.test")
        await page.reload()
        await page.get_by_role("heading", name="Audit", level=2).wait_for()


async def test_whom_the_guard_refuses_is_sent_to_the_hosts_own_sign_in(browser: Any, host: Host) -> None:
    async with tab(browser, host, None) as page:
        await page.goto(f"{host.address}/x/jobs/")
        await page.get_by_role("heading", name="The shop's own sign-in").wait_for()
        assert page.url == f"{host.address}/login"


async def test_whom_the_guard_refuses_in_the_middle_sees_no_more(browser: Any, host: Host) -> None:
    host.admitted.add("nils")
    async with tab(browser, host, "nils") as page:
        await page.goto(f"{host.address}/x/jobs/#jobs")
        await page.get_by_role("heading", name="Jobs", level=2).wait_for()
        host.admitted.remove("nils")
        await page.evaluate("() => { location.hash = 'machines'; }")
        await says(page, "does not let you in")
        assert await page.get_by_role("link", name="Sign in again").get_attribute("href") == "/login"
