"""Every Python block in the documentation is executed, with only those names given that its page speaks of."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import pytest
import sqlalchemy
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from tests.docs.pages import ROOT, blocks, everything
from tests.docs.test_examples import load

import holdfast
from holdfast.engines.worker import Worker
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.submit import submit
from holdfast.kernel.upkeep.schedule import announce_schedules
from holdfast.stores.sqlite import SqliteStore
from holdfast.tables import jobs, new_jobs, schedules
from holdfast.testing.history import History

# Where each page's Python is run. A page that is not here fails.
PAGES = {
    "README.md": "here",
    "docs/how-to/come-from-celery.md": "here",
    "docs/how-to/come-from-dbos.md": "here",
    "docs/how-to/come-from-procrastinate.md": "here",
    "docs/how-to/come-from-temporal.md": "here",
    "docs/how-to/compose-jobs.md": "here",
    "docs/how-to/limit-schedule-and-bulk.md": "here",
    "docs/how-to/mount-the-console.md": "here",
    "docs/how-to/run-blocking-and-cpu-code.md": "here",
    "docs/how-to/shard.md": "here",
    "docs/how-to/test-with-pytest.md": "here",
    "docs/how-to/use-with-django.md": "here",
    "docs/how-to/use-with-fastapi.md": "here",
    "docs/how-to/use-with-flask.md": "here",
    "docs/how-to/use-the-client.md": "here",
    "docs/how-to/write-a-job.md": "here",
    "docs/how-to/your-rows-in-the-stages-commit.md": "here",
    "docs/tutorial/first-job.md": "tests/docs/test_tutorial.py",
}


def test_every_page_with_python_is_run_somewhere() -> None:
    assert {block.page for block in everything() if block.kind == "python"} == set(PAGES)


class Page:
    """A module that a page's blocks are executed in, one after the other."""

    def __init__(self, page: str, **given: Any) -> None:
        self.code = [block.text for block in blocks(ROOT / page) if block.kind == "python"]
        self.module = ModuleType("page_" + "".join(letter for letter in page if letter.isalnum()))
        sys.modules[self.module.__name__] = self.module
        self.module.__dict__.update(given)

    def run(self, number: int) -> ModuleType:
        exec(compile(self.code[number], f"block {number}", "exec"), self.module.__dict__)
        return self.module


def job_store(path: Path, app: holdfast.App) -> Kernel:
    return Kernel(store=SqliteStore(path), registry=Registry([app]))


async def answer_with_words(*given: object) -> str:
    """A client of somebody's own: a page, a summary, a mail's id."""
    return " ".join(map(str, given))


@pytest.mark.slow
def test_the_readmes_job_is_declared_enqueued_and_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = ModuleType("shop")
    clients.__dict__.update(dict.fromkeys(("fetch_page", "ask_llm", "post_mail"), answer_with_words))
    monkeypatch.setitem(sys.modules, "shop", clients)
    page = Page("README.md", insert=sqlalchemy.insert)
    declared = page.run(0)
    assert [one.name for one in declared.SendDigest.__holdfast__.stages] == ["fetch", "summarise", "notify"]

    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    kernel = job_store(tmp_path / "jobs.db", declared.app)
    asyncio.run(kernel.migrate())
    orders = sqlalchemy.Table("orders", sqlalchemy.MetaData(), sqlalchemy.Column("id", sqlalchemy.Integer))
    engine = sqlalchemy.create_engine(url)
    orders.metadata.create_all(engine)
    page.module.__dict__.update(engine=engine, orders=orders, order=declared.Order(17, "ada@example.test"))
    page.code[1] = page.code[1].replace("values(...)", "values(id=17)")
    page.run(1)

    async def enqueued() -> object:
        async with kernel.store.reading() as tx:
            return await new_jobs.by_key(tx, "digest.send_digest", "digest:17")

    assert asyncio.run(enqueued()) is not None

    tested = page.run(2)
    asyncio.run(tested.test_a_crash_after_the_send_mails_once())


@pytest.mark.slow
def test_the_page_about_limits_runs(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    @contextmanager
    def database() -> Iterator[sqlite3.Connection]:
        with sqlite3.connect(path) as connection:
            yield connection
        connection.close()

    page = Page("docs/how-to/limit-schedule-and-bulk.md", database=database)
    declared = page.run(0)
    kernel = job_store(path, declared.app)
    asyncio.run(kernel.migrate())
    for number in range(1, len(page.code)):
        page.run(number)
    assert len(set(page.module.ids)) == 2_000

    async def written() -> tuple[list[int], list[Any]]:
        await announce_schedules(kernel)
        async with kernel.store.reading() as tx:
            found = await jobs.page(tx, limit=5_000)
            return [row.priority for row in found], [row.name for row in await schedules.read_every(tx)]

    priorities, names = asyncio.run(written())
    assert (len(priorities), min(priorities)) == (2_002, int(holdfast.Priority.HIGH)) and names == ["weekly report"]


def test_the_page_about_shards_sends_each_tenant_to_one_place() -> None:
    page = Page("docs/how-to/shard.md").run(0)
    places = [page.database_of(f"tenant {number}") for number in range(40)]
    assert set(places) == set(page.DATABASES) and places == [page.database_of(f"tenant {n}") for n in range(40)]


def test_the_page_about_writing_a_job_tests_one() -> None:
    digest = load("digest")
    page = Page("docs/how-to/write-a-job.md", digest=digest)
    for number in range(len(page.code)):
        page.run(number)
    tests = [
        one for name, one in vars(page.module).items() if name.startswith("test_") and inspect.iscoroutinefunction(one)
    ]
    assert tests
    for one in tests:
        asyncio.run(one())


@pytest.mark.parametrize("name", sorted(holdfast.__all__))
def test_every_public_name_says_what_it_is(name: str) -> None:
    assert inspect.getdoc(getattr(holdfast, name))


def test_the_blocking_and_computing_job_runs(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text("hello")
    page = Page("docs/how-to/run-blocking-and-cpu-code.md", PAGE=file.as_uri())
    page.run(0)
    asyncio.run(page.run(1).test_a_page_is_mirrored())


def test_the_composed_jobs_run_and_are_scheduled() -> None:
    page = Page("docs/how-to/compose-jobs.md")
    page.run(0)
    assert [one.timezone for one in page.run(1).app.schedules] == ["Europe/Berlin"]
    page.module.app.schedules.clear()
    asyncio.run(page.run(2).test_what_is_approved_is_published())


@pytest.mark.slow
def test_the_console_is_mounted_behind_the_readers_own_login(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    people = {"olga": SimpleNamespace(email="olga@shop.test", is_staff=True)}
    page = Page(
        "docs/how-to/mount-the-console.md",
        DATABASE_URL=url,
        user_of=lambda request: people.get(request.cookies.get("user")),
        django_application=PlainTextResponse("the site"),
    )
    shop = page.run(0)
    asyncio.run(job_store(tmp_path / "shop.db", shop.shop).migrate())

    async def ask(web: Any, path: str, **cookies: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=web)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop.test", cookies=cookies) as client:
            answer = await client.get(path)
        await shop.jobs.close()
        return answer

    assert asyncio.run(ask(shop.web, "/jobs/api/ops/overview", user="olga")).status_code == 200
    assert asyncio.run(ask(shop.web, "/jobs/api/ops/overview")).status_code == 401
    beside = page.run(1).application
    assert asyncio.run(ask(beside, "/jobs/", user="olga")).status_code == 200
    assert asyncio.run(ask(beside, "/anything")).text == "the site"


@pytest.mark.slow
def test_what_others_jobs_become_runs(tmp_path: Path) -> None:
    """The jobs of the pages for those who come from elsewhere, each once."""
    path = tmp_path / "orders.db"
    sent: dict[str, str] = {}

    async def charge_card(order: int, token: str) -> str:
        return sent.setdefault(token, f"charge {order}")

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(path)

    here = {"connect": connect, "send_mail": lambda order, token: sent.setdefault(token, f"mail {order}")}

    async def run(page: str, name: str, input: Any, **given: Any) -> Any:
        module = Page(f"docs/how-to/come-from-{page}.md", **here, **given).run(0)
        kernel = job_store(path, module.app)
        await kernel.migrate()
        job_id = await submit(kernel, getattr(module, name), input(module))
        await Worker(kernel).run_until_idle()
        async with kernel.store.reading() as tx:
            row = await jobs.show(tx, job_id)
        await kernel.store.close()
        assert row is not None
        return row.state

    connect().execute("CREATE TABLE orders (id INTEGER, paid TEXT)")
    assert asyncio.run(run("celery", "SendInvoice", lambda module: 1)) == "succeeded"
    assert asyncio.run(run("procrastinate", "Add", lambda module: module.Pair(a=1, b=2))) == "succeeded"
    charge_here = {"charge_card": lambda order, token: sent.setdefault(token, f"charge {order}")}
    assert asyncio.run(run("dbos", "Checkout", lambda module: 2, **charge_here)) == "succeeded"
    assert asyncio.run(run("temporal", "Checkout", lambda module: 3, charge_card=charge_card)) == "waiting"
    assert sorted(sent.values()) == ["charge 2", "charge 3", "mail 1"]


@pytest.mark.slow
def test_the_shops_of_the_pages_about_frameworks_accept_orders(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    urls = {"DATABASE_URL": f"sqlite:///{path}", "SQLALCHEMY_URL": f"sqlite:///{path}"}
    asyncio.run(job_store(path, holdfast.App("shop")).migrate())
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (article TEXT)")
    flask = Page("docs/how-to/use-with-flask.md", **urls).run(0)
    answer = flask.web.test_client().post("/orders", json={"article": "chair"})
    assert answer.status_code == 202 and answer.json["job"]
    urls["SQLALCHEMY_URL"] = f"sqlite+aiosqlite:///{path}"
    fastapi = Page("docs/how-to/use-with-fastapi.md", **urls).run(0)
    with TestClient(fastapi.web) as client:
        assert client.post("/orders", json={"article": "lamp"}).status_code == 202
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT article FROM orders").fetchall() == [("chair",), ("lamp",)]
        assert connection.execute("SELECT COUNT(*) FROM holdfast_jobs").fetchone() == (2,)


def test_the_page_about_django_says_what_the_tests_of_a_project_do() -> None:
    """Its code is run by tests/contrib, in a project; here it is only compiled, and the jobs of it are declared."""
    page = Page("docs/how-to/use-with-django.md", connection=None)
    assert page.run(0).HOLDFAST == {"APP": "shop.jobs:app", "CONSOLE_URL": "/jobs/"}
    page.run(2)
    assert [each.name for each in page.module.PlaceOrder.__holdfast__.stages] == ["place"]


async def test_the_tests_of_the_page_about_pytest_pass(holdfast_world: Any, tmp_path: Path) -> None:
    app = holdfast.App("shop")

    @app.job(name="shop.place_order")
    class PlaceOrder(holdfast.Job[str]):
        @holdfast.stage()
        async def place(self, ctx: holdfast.Context, article: str) -> str:
            return article

    url = f"sqlite:///{tmp_path / 'shop.db'}"
    page = Page("docs/how-to/test-with-pytest.md", shop=SimpleNamespace(app=app), DATABASE_URL=url)
    await job_store(tmp_path / "shop.db", app).migrate()

    class Client:
        async def post(self, path: str, json: dict[str, str]) -> httpx.Response:
            with sqlite3.connect(tmp_path / "shop.db") as connection:
                connection.execute("BEGIN")
                return httpx.Response(202, json={"job": str(holdfast.enqueue(connection, PlaceOrder, json["article"]))})

    await page.run(0).test_an_order_is_placed(holdfast_world, Client())
    history = History("shop.place_order", 1, "lamp", {"place": "lamp"})
    await page.run(1).test_an_order_of_last_year_still_runs(holdfast_world, lambda name: history)


def test_own_rows_are_committed_with_the_stage(tmp_path: Path) -> None:
    path = tmp_path / "billing.db"
    page = Page("docs/how-to/your-rows-in-the-stages-commit.md", DATABASE=str(path)).run(0)

    async def bill() -> None:
        kernel = job_store(path, page.app)
        await kernel.migrate()
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE invoices (id INTEGER)")
        await submit(kernel, page.Bill, 17)
        await Worker(kernel).run_until_idle()
        await kernel.store.close()

    asyncio.run(bill())
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT id FROM invoices").fetchall() == [(17,)]
        states = connection.execute("SELECT kind, state FROM holdfast_jobs ORDER BY kind").fetchall()
    assert states == [("billing.bill", "succeeded"), ("billing.send_invoice", "succeeded")]


async def test_the_client_waits_for_the_receipt_of_an_order(tmp_path: Path) -> None:
    page = Page("docs/how-to/use-the-client.md").run(0)
    kernel = job_store(tmp_path / "shop.db", page.app)
    await kernel.migrate()
    client, stop = holdfast.Client(kernel), asyncio.Event()
    working = asyncio.create_task(Worker(kernel).run(stop))
    assert await page.place(client, 17) == "paid 17"
    stop.set()
    await working
    await client.close()
