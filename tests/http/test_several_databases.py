"""One console over several deployments: each is told apart by its name, and none is worked for."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from tests.acceptance.process import until
from tests.http.wishes import Grant, Wish, app
from tests.services.proxy import Proxy, behind
from typer.testing import CliRunner

from holdfast.cli import cli
from holdfast.cli.serve import begin_to_show, show_later
from holdfast.engines import run
from holdfast.engines.run import await_schema
from holdfast.errors import SettingsError, StoreUnavailable
from holdfast.http.app import create_app
from holdfast.http.auth import token_for
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.loop import AWAITED
from holdfast.kernel.submit import submit
from holdfast.kernel.upkeep.schema import bring_forward
from holdfast.main import close_systems, named_databases, open_systems
from holdfast.operator import reachable
from holdfast.settings import Settings
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.system import OpenSystem

SECRET = "s" * 32


async def deployment(path: Path) -> str:
    """A database with one job in it."""
    kernel = Kernel(store=SqliteStore(path), registry=Registry([app]))
    await bring_forward(kernel)
    job_id = await submit(kernel, Grant, Wish(text=path.stem, fails=""))
    await kernel.store.close()
    return job_id


@pytest.mark.spec("K29")
async def test_one_console_shows_and_acts_on_several_databases(tmp_path: Path) -> None:
    made = {name: await deployment(tmp_path / f"{name}.db") for name in ("eu", "us")}
    settings = Settings(jwt_secret=SECRET)
    databases = named_databases([f"{name}=sqlite:///{tmp_path / name}.db" for name in made])
    opened = await open_systems(settings, {}, None, [app], to_look=True, databases=databases)
    for one in opened:
        await await_schema(one.kernel)
    token = token_for(settings, "olga", ("operator",))
    transport = httpx.ASGITransport(create_app(settings, opened))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://desk", headers={"Authorization": f"Bearer {token}"}
    ) as desk:
        listed = (await desk.get("/api/ops/jobs")).json()["items"]
        assert {(one["system"], one["id"]) for one in listed} == {(f"{app.name}@{key}", made[key]) for key in made}
        only = (await desk.get("/api/ops/jobs", params={"system": f"{app.name}@us"})).json()["items"]
        assert [one["id"] for one in only] == [made["us"]]
        assert (await desk.post(f"/api/ops/jobs/{made['us']}/cancel")).status_code == 200
        states = {one["id"]: one["state"] for one in (await desk.get("/api/ops/jobs")).json()["items"]}
        assert states == {made["eu"]: "queued", made["us"]: "cancelled"}
    await close_systems(opened)


@pytest.mark.spec("K29")
async def test_a_database_that_does_not_answer_is_named_and_hides_nobody_elses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = await deployment(tmp_path / "eu.db")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and says nothing
        third = f"third=postgresql://olga@127.0.0.1:{silent.getsockname()[1]}/jobs"
        databases = named_databases([f"eu=sqlite:///{tmp_path}/eu.db", third])
        settings = Settings(jwt_secret=SECRET)
        opened = await open_systems(settings, {}, None, [app], to_look=True, databases=databases)
        showing: list[asyncio.Task[None]] = []
        async with asyncio.timeout(8):  # a connection is given ten seconds
            await begin_to_show(opened, asyncio.Event(), showing)
            assert f"The database of '{app.name}@third' has not answered within 1 s" in capsys.readouterr().err
            token = token_for(settings, "olga", ("operator",))
            headers = {"Authorization": f"Bearer {token}"}
            transport = httpx.ASGITransport(create_app(settings, opened))
            async with httpx.AsyncClient(transport=transport, base_url="http://desk", headers=headers) as desk:
                assert [job["id"] for job in (await desk.get("/api/ops/jobs")).json()["items"]] == [made]
                lights = (await desk.get("/api/ops/overview")).json()["items"]
                assert {item["system"]: item["light"] for item in lights} == {
                    f"{app.name}@eu": lights[0]["light"],
                    f"{app.name}@third": "red",
                }
                assert (await desk.get("/api/ops/jobs", params={"system": f"{app.name}@third"})).status_code == 503
                assert f'holdfast_store_up{{system="{app.name}@third"}} 0.0' in (await desk.get("/metrics")).text
                ready = await desk.get("/readyz")
                assert ready.status_code == 200
                assert ready.json()["systems"] == {f"{app.name}@eu": "ready", f"{app.name}@third": AWAITED}
        for task in showing:
            task.cancel()
        await asyncio.wait(showing)
        await close_systems(opened)


@pytest.mark.slow
@pytest.mark.spec("K29")
@pytest.mark.parametrize("trouble", ["refuse", "swallow"])
async def test_a_database_that_goes_away_later_hides_nobody_elses(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    monkeypatch.setattr(reachable, "LOOK_S", 0.05)
    monkeypatch.setattr(reachable, "ANSWER_S", 0.5)
    there = Kernel(store=PostgresStore(postgres_url), registry=Registry([app]))
    await bring_forward(there)
    far = await submit(there, Grant, Wish(text="us", fails=""))
    await there.store.close()
    near = await deployment(tmp_path / "eu.db")
    proxy = Proxy(urlsplit(postgres_url).port or 5432)
    proxy.open()
    databases = named_databases([f"eu=sqlite:///{tmp_path}/eu.db", f"us={behind(proxy, postgres_url)}"])
    settings, stop = Settings(jwt_secret=SECRET), asyncio.Event()
    opened = await open_systems(settings, {}, None, [app], to_look=True, databases=databases)
    us = next(one for one in opened if one.name.endswith("us"))
    watching = asyncio.create_task(reachable.watch_databases(opened, stop))
    headers = {"Authorization": f"Bearer {token_for(settings, 'olga', ('operator',))}"}
    transport = httpx.ASGITransport(create_app(settings, opened))
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://desk", headers=headers) as desk,
        asyncio.timeout(30),
    ):

        async def listed() -> set[str]:
            return {job["id"] for job in (await desk.get("/api/ops/jobs")).json()["items"]}

        assert await listed() == {near, far}
        getattr(proxy, trouble)()
        await until(lambda: _is_away(us, True), "it to be set aside")
        assert await listed() == {near}
        assert (await desk.get(f"/api/ops/jobs/{far}")).status_code == 503, "nobody knows whether it is there"
        assert (await desk.post(f"/api/ops/jobs/{near}/cancel")).status_code == 200
        proxy.open()
        await until(lambda: _is_away(us, False), "it to be shown again")
        assert await listed() == {near, far}
    stop.set()
    await watching
    await close_systems(opened)
    proxy.close()


async def _is_away(one: OpenSystem, expected: bool) -> bool:
    return one.is_awaited is expected


async def test_databases_that_all_refuse_end_the_console_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "CONNECT_TRIES", 1)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    databases = named_databases([f"{name}=postgresql://olga@127.0.0.1:{port}/jobs" for name in ("eu", "us")])
    opened = await open_systems(Settings(jwt_secret=SECRET), {}, None, [app], to_look=True, databases=databases)
    with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{port} cannot be reached"):
        await begin_to_show(opened, asyncio.Event(), [])
    await close_systems(opened)


async def test_a_database_that_comes_back_is_shown(tmp_path: Path) -> None:
    """Its first wait was given up: the next one is begun at once."""
    await deployment(tmp_path / "eu.db")
    (one,) = await open_systems(
        Settings(jwt_secret=SECRET), {}, None, [app], to_look=True, databases={"eu": f"sqlite:///{tmp_path}/eu.db"}
    )
    stop = asyncio.Event()
    stop.set()  # nothing is slept over
    failed = asyncio.create_task(_raise(StoreUnavailable("away")))
    await show_later(failed, one, stop)
    assert not one.is_awaited
    await close_systems([one])


async def _raise(error: Exception) -> None:
    raise error


def test_databases_have_names_of_their_own() -> None:
    assert named_databases(["eu=postgresql://u:p@h/db?a=b", "postgresql://h/jobs", "sqlite:///d/three.db"]) == {
        "eu": "postgresql://u:p@h/db?a=b",
        "jobs": "postgresql://h/jobs",
        "three": "sqlite:///d/three.db",
    }
    for wrong in (["eu=sqlite:///a.db", "eu=sqlite:///b.db"], ["eu="]):
        with pytest.raises(SettingsError, match="needs a name and a URL of its own"):
            named_databases(wrong)


def test_a_console_over_several_databases_does_no_work() -> None:
    ran = CliRunner().invoke(cli, ["serve", "--database", "a=sqlite:///a.db", "--work"])
    assert ran.exit_code == 1 and "for several databases cannot --work" in ran.output
