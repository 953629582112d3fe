"""One console over several deployments: each is told apart by its name, and none is worked for."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from tests.http.wishes import Grant, Wish, app
from typer.testing import CliRunner

from holdfast.cli import cli
from holdfast.engines.run import await_schema
from holdfast.errors import SettingsError
from holdfast.http.app import create_app
from holdfast.http.auth import token_for
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.submit import submit
from holdfast.kernel.upkeep.schema import bring_forward
from holdfast.main import close_systems, named_databases, open_systems
from holdfast.settings import Settings
from holdfast.stores.sqlite import SqliteStore

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
