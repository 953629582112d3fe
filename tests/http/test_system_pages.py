"""Pages, cards and console modules come with the systems that run, and with no other."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from tests.http.wishes import SECRET, app

from holdfast.http.app import create_app
from holdfast.http.auth import token_for
from holdfast.kernel.kernel import Kernel
from holdfast.settings import Settings
from holdfast.system import OpenSystem, Page, System, SystemPages

PAGE = '<nav aria-label="Pages"><!-- pages --></nav>'


@pytest.fixture
def shop(tmp_path: Path) -> System:
    folder = tmp_path / "web"
    folder.mkdir()
    for name, text in {"card.html": "<h2>Buy</h2>", "card.js": "1;", "console.js": "2;", "till.html": PAGE}.items():
        (folder / name).write_text(text)
    (tmp_path / "secret.txt").write_text("no")
    pages = SystemPages(
        folder,
        (Page("till", "The <till>", "till.html", ("clerk",)), Page("open", "Open", "till.html")),
        card="card.html",
        card_script="card.js",
        console="console.js",
    )
    return System("shop", "Shop", "SHOP_URL", build=lambda env: app, roles=("clerk",), pages=pages)


def client(kernel: Kernel, tmp_path: Path, *systems: System, roles: tuple[str, ...] = ()) -> httpx.AsyncClient:
    settings = Settings(data_dir=str(tmp_path), jwt_secret=SECRET)
    web = create_app(settings, [OpenSystem(system, kernel, {}) for system in systems])
    token = token_for(settings, "ann", roles)
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(web),
        base_url="http://holdfast",
        headers={"Authorization": f"Bearer {token}"},
        cookies={"holdfast_console": token},
    )


async def test_a_system_brings_its_card_its_pages_and_its_part_of_the_console(
    kernel: Kernel, tmp_path: Path, shop: System
) -> None:
    asks = client(kernel, tmp_path, shop, roles=("clerk", "king"))
    front = (await asks.get("/")).text
    assert "<h2>Buy</h2>" in front and "Start something" in front and 'src="static/shop/card.js"' in front
    assert '<a href="open">Open</a>' in front and "till" not in front
    session = (await asks.get("/api/session")).json()
    assert not [act for act in session.pop("acts") if act.startswith("/api/ops")], "a clerk is no operator"
    assert session == {"sub": "ann", "roles": ["clerk"], "modules": ["static/shop/console.js"]}
    assert (await asks.get("/static/shop/console.js")).headers["content-type"].startswith("text/javascript")
    assert 'aria-current="page" href="till">The &lt;till&gt;</a>' in (await asks.get("/till")).text
    assert '<a href="open">Open</a>' in (await asks.get("/docs")).text
    refused = await asks.get("/console", headers={"Accept": "text/html"})
    assert refused.status_code == 403
    assert '<a href="till">The &lt;till&gt;</a>, which your role opens.' in refused.text


async def test_what_a_system_brings_is_not_there_without_it(kernel: Kernel, tmp_path: Path, shop: System) -> None:
    bare = System("bare", "Bare", "BARE_URL", build=lambda env: app)
    asks = client(kernel, tmp_path, bare, roles=("clerk", "operator"))
    session = (await asks.get("/api/session")).json()
    assert (session["roles"], session["modules"]) == (["operator"], [])
    assert [(await asks.get(path)).status_code for path in ("/till", "/static/shop/card.js")] == [404, 404]
    front = (await asks.get("/")).text
    assert "<!--" not in front and "static/bare" not in front
    assert "Start something" not in front, "nothing invites to try what cannot be tried"


@pytest.mark.parametrize("name", ["..%2fsecret.txt", "%2e%2e%2fsecret.txt", "nothing.js", ".", "..%5csecret.txt"])
async def test_only_files_of_the_folder_are_served(kernel: Kernel, tmp_path: Path, shop: System, name: str) -> None:
    assert (await client(kernel, tmp_path, shop).get(f"/static/shop/{name}")).status_code == 404
