"""The pytest plugin: worlds on the user's own database, what they fail on, and histories against new code."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from fastapi import FastAPI
from pydantic import BaseModel

from holdfast import App, Context, InvalidInput, Job, Provider, enqueue, stage
from holdfast.contrib.pytest import OpenWorld
from holdfast.kernel.upkeep.prune import prune_once
from holdfast.operator.desk import Desk
from holdfast.operator.story import show_job
from holdfast.system import OpenSystem, System
from holdfast.testing import World, world
from holdfast.testing.history import History

ROOT = Path(__file__).parents[2]
app = App("shop")


@app.job()
class Greet(Job[str]):
    @stage()
    async def greet(self, ctx: Context, name: str) -> str:
        if name == "blocks":
            time.sleep(0.8)  # noqa: ASYNC251
        if name == "raises":
            raise LookupError("nobody knows this one")
        if name == "forgets":
            ctx.progress(done=1)  # type: ignore[unused-coroutine]  # what the test is about
        return f"hello {name}"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shop.db'}"
    return str(request.getfixturevalue("postgres_server").emptied("plugin"))


def shop_for(database: str) -> FastAPI:
    """The user's own endpoint, with a connection and a transaction of its own."""
    web = FastAPI()

    def connect() -> Any:
        is_sqlite = database.startswith("sqlite")
        return (
            sqlite3.connect(database.removeprefix("sqlite:///"))
            if is_sqlite
            else psycopg.connect(database.partition("?")[0])
        )

    @web.post("/greetings")
    def greet(name: str) -> str:
        with closing(connect()) as connection, connection:
            connection.execute("BEGIN") if isinstance(connection, sqlite3.Connection) else None
            return enqueue(connection, Greet, name)

    return web


@pytest.mark.spec("K16")
async def test_what_an_endpoint_enqueued_is_run_in_the_test(holdfast_world: OpenWorld, database: str) -> None:
    async with holdfast_world(app, database=database) as w:
        transport = httpx.ASGITransport(app=shop_for(database))
        async with httpx.AsyncClient(transport=transport, base_url="http://shop.test") as client:
            job = (await client.post("/greetings", params={"name": "ada"})).json()
        assert await w.state(job) == "queued"
        await w.run_until_idle()
        assert await w.state(job) == "succeeded" and await w.results(job) == {"greet": '"hello ada"'}
    async with holdfast_world(app, database=database) as again:
        assert await again.state(job) == "succeeded", "the database is the user's: nothing is emptied"


async def test_a_blocked_loop_fails_the_test(holdfast_world: OpenWorld) -> None:
    with pytest.raises(AssertionError, match=r"blocked for .* s in shop.greet/greet; await what waits"):
        async with holdfast_world(app) as w:
            w.kernel.tuning = replace(w.kernel.tuning, blocked_say_s=0.2)
            await w.enqueue(Greet, "blocks")
            await w.run_until_idle()


async def test_an_exception_that_nothing_recognises_fails_the_test(holdfast_world: OpenWorld) -> None:
    with pytest.raises(AssertionError, match=r"shop.greet/greet raised what nothing recognises: .*nobody knows this"):
        async with holdfast_world(app) as w:
            await w.enqueue(Greet, "raises")
            await w.tick()
    async with holdfast_world(app, strict=False) as w:
        job = await w.enqueue(Greet, "raises")
        await w.run_until_idle()
        assert await w.state(job) == "dead", "a test about it says strict=False"


async def test_a_stage_that_forgets_to_await_fails_the_test(holdfast_world: OpenWorld) -> None:
    with pytest.raises(AssertionError, match=r"shop.greet/greet: .* called ctx.progress\(...\) without awaiting it"):
        async with holdfast_world(app) as w:
            await w.enqueue(Greet, "forgets")
            await w.run_until_idle()


class Order(BaseModel):
    cents: int


class OldOrder(BaseModel):
    euros: int


def release(first: str, version: int) -> tuple[App, type[Job[Any]]]:
    """A shop whose input and whose stages change between releases."""
    shop = App("shop")

    if version == 1:

        @shop.job(name="shop.order")
        class Old(Job[OldOrder]):
            @stage()
            async def price(self, ctx: Context, order: OldOrder) -> int:
                return order.euros

            @stage()
            async def bill(self, ctx: Context, order: OldOrder, price: int) -> str:
                return f"{price} euros"

        return shop, Old

    @shop.job(name="shop.order", version=2, upgrade={1: lambda old: {"cents": old["euros"] * 100}})
    class New(Job[Order]):
        @stage(formerly=("price",))
        async def total(self, ctx: Context, order: Order) -> int:
            return order.cents

        @stage()
        async def bill(self, ctx: Context, order: Order, total: int) -> str:
            return f"{first}{total}"

    return shop, New


async def export(w: World, shop: App, job: str) -> str:
    """As `holdfast jobs show ID --json` prints it."""
    system = OpenSystem(System("shop", "shop", (), lambda env: shop), w.kernel, {})
    return json.dumps(await show_job(Desk([system]), job))


def keep(file: Path, text: str) -> None:
    file.write_text(text)


@pytest.mark.spec("K22")
async def test_an_exported_job_is_run_by_new_code(
    holdfast_world: OpenWorld, holdfast_history: Callable[[str], History], tmp_path: Path
) -> None:
    shop, order = release("", 1)
    async with world(shop) as w:
        job = await w.enqueue(order, {"euros": 3})
        await w.run_until_idle()
        keep(tmp_path / "order.json", await export(w, shop, job))
    history = holdfast_history(str(tmp_path / "order.json"))
    assert history == History("shop.order", 1, {"euros": 3}, {"price": 3, "bill": "3 euros"})
    async with holdfast_world(release("cents: ", 2)[0]) as w:
        whole = await w.load(history)
        rest = await w.load(history, at="bill")
        await w.run_until_idle()
        assert (await w.results(whole))["bill"] == '"cents: 300"', "from the start, with the upgraded input"
        assert (await w.results(rest))["bill"] == '"cents: 3"', "the result of before, under the stage's former name"


async def test_what_is_no_history_or_no_stage_is_named(holdfast_world: OpenWorld, tmp_path: Path) -> None:
    keep(tmp_path / "odd.json", '{"kind": "shop.order"}')
    with pytest.raises(InvalidInput, match="is no job as `holdfast jobs show ID --json` prints it"):
        History.read(tmp_path / "odd.json")
    async with holdfast_world(release("", 2)[0]) as w:
        with pytest.raises(InvalidInput, match="has no stage 'ship'; it has total, bill"):
            await w.load(History("shop.order", 1, {"euros": 3}, {}), at="ship")


def mailing(sent: list[str], *keys: str) -> tuple[App, type[Job[int]]]:
    """A job that mails to these, one effect each, before and after a stage without any."""
    shop, post = App("shop"), Provider("post", effects="token")

    @shop.job(name="shop.mail")
    class Mail(Job[int]):
        @stage()
        async def first(self, ctx: Context, number: int) -> str:
            return await self._mail(ctx, keys[0])

        @stage()
        async def rest(self, ctx: Context, number: int, first: str) -> list[str]:
            return [first, *[await self._mail(ctx, key) for key in keys[1:]]]

        async def _mail(self, ctx: Context, to: str) -> str:
            async def send(token: str) -> str:
                sent.append(to)
                return f"id-of-{to}"

            return await ctx.effect(("mail", to), provider=post, send=send)

    return shop, Mail


@pytest.mark.spec("K22", "K9")
async def test_a_replay_answers_effects_from_the_history_and_sends_nothing(
    holdfast_world: OpenWorld, tmp_path: Path
) -> None:
    sent: list[str] = []
    shop, mail = mailing(sent, "ann", "bob", "cem")
    async with world(shop) as w:
        job = await w.enqueue(mail, 1)
        await w.run_until_idle()
        keep(tmp_path / "mail.json", await export(w, shop, job))
    assert sent == ["ann", "bob", "cem"]
    history = History.read(tmp_path / "mail.json")
    async with holdfast_world(mailing(sent, "ann", "cem", "dora")[0]) as w:
        again = await w.replay(history)
        assert (again.state, again.results["rest"]) == ("succeeded", ["id-of-ann", "id-of-cem", "replay-3"])
        assert again.repeated == ("shop:/mail/ann", "shop:/mail/cem")
        assert (again.added, again.dropped) == (("shop:/mail/dora",), ("shop:/mail/bob",))
    async with holdfast_world(mailing(sent, "ann", "bob", "cem")[0]) as w:
        rest = await w.replay(history, at="rest")
        assert (rest.repeated, rest.added) == (("shop:/mail/bob", "shop:/mail/cem"), ())
        assert rest.dropped == (), "what stages before it have sent is not missed"
        assert sent == ["ann", "bob", "cem"], "a replay sends nothing"


def asking(asked: list[str], last: Callable[[], str]) -> tuple[App, type[Job[int]]]:
    """A job whose second stage pays for an answer, keeps a checkpoint, and then does what the release does last."""
    shop, oracle = App("shop"), Provider("oracle")

    @shop.job(name="shop.ask")
    class Ask(Job[int]):
        @stage()
        async def first(self, ctx: Context, number: int) -> int:
            asked.append("first")
            return number

        @stage(never=(ValueError,))
        async def rest(self, ctx: Context, number: int, first: int) -> list[str]:
            async def ask(key: str) -> str:
                asked.append("oracle")
                return f"answer {len(asked)}"

            async def count() -> int:
                asked.append("checkpoint")
                return len(asked)

            answer = await ctx.paid_call(ask, answer=str, provider=oracle)
            return [answer, str(await ctx.checkpoint("count", count, returns=int)), last()]

    return shop, Ask


@pytest.mark.spec("K22", "K18")
async def test_a_dead_jobs_history_answers_its_paid_calls_and_checkpoints(
    holdfast_world: OpenWorld, tmp_path: Path
) -> None:
    """The stage that failed is run by the mended code with what it had found out, from the start or from that stage."""
    asked: list[str] = []

    def fail() -> str:
        raise ValueError("a bug of this release")

    shop, job_class = asking(asked, fail)
    async with world(shop) as w:
        job = await w.enqueue(job_class, 7)
        await w.run_until_idle()
        await prune_once(w.kernel)
        keep(tmp_path / "ask.json", await export(w, shop, job))
    assert asked == ["first", "oracle", "checkpoint"]
    history = History.read(tmp_path / "ask.json")
    async with holdfast_world(asking(asked, lambda: "mended")[0]) as w:
        for at in ("rest", None):
            again = await w.replay(history, at=at)
            assert (again.state, again.results["rest"]) == ("succeeded", ["answer 2", "3", "mended"])
    assert asked == ["first", "oracle", "checkpoint", "first"], "nobody was asked again"


def test_the_plugin_costs_a_run_that_does_not_use_it_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\ndef test_it(request):\n"
        "    assert request.config.pluginmanager.hasplugin('holdfast')\n"
        "    assert 'holdfast.testing' not in sys.modules\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
