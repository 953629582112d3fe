"""A private data folder, the shop's app on it, and the command line as a function."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from typer.testing import Result

from holdfast import App, Job
from holdfast.engines.run import prepare
from holdfast.engines.worker import Worker
from holdfast.kernel import submit
from holdfast.kernel.kernel import Kernel
from holdfast.main import close_systems, open_systems
from holdfast.settings import Settings, read
from holdfast.tables import cases
from tests.cli import shop
from tests.command_line import invoke

T = TypeVar("T")
APP = ("--app", "tests.cli.shop:app")


@dataclass(frozen=True)
class Place:
    """One deployment of the shop, and its operator's terminal."""

    env: dict[str, str]

    def run(self, *words: str) -> Result:
        return invoke(words, env=self.env)

    def on_shop(self, *words: str) -> Result:
        return self.run(*words, *APP)

    def ok(self, *words: str) -> str:
        """What a command that must succeed prints."""
        done = self.on_shop(*words)
        assert done.exit_code == 0, done.output
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.ok(*words, "--json"))

    def items(self, *words: str) -> Any:
        """The rows of a list."""
        return self.json(*words)["items"]

    def refused(self, *words: str) -> str:
        """The one sentence of a command that must fail."""
        done = self.on_shop(*words)
        assert (done.exit_code, done.stdout) == (1, ""), done.output
        assert len(done.stderr.splitlines()) == 1 and done.stderr.endswith(".\n")
        return done.stderr.strip()

    def job(self, kind: type[Job[Any]], amount: int, *, work: bool = True) -> str:
        """Accept a job and, if asked, run everything that is due."""

        async def go(kernel: Kernel) -> str:
            job_id = await submit.submit(kernel, kind, shop.Bill(7, amount))
            if work:
                await Worker(kernel).run_until_idle()
            return job_id

        return self.in_kernel(go, shop.rival if kind is shop.Collect else shop.app)

    def dead(self) -> tuple[str, str]:
        """A bill that died: its job and its case."""
        job_id = self.job(shop.Pay, -1)

        async def go(kernel: Kernel) -> str:
            async with kernel.store.reading() as tx:
                return str((await cases.page(tx))[0].id)

        return job_id, self.in_kernel(go)

    def in_kernel(self, go: Callable[[Kernel], Awaitable[T]], owner: App = shop.app) -> T:
        async def open_and_go() -> T:
            opened = await open_systems(read(Settings, self.env), self.env, None, [owner])
            try:
                await opened[0].kernel.migrate()
                await prepare(opened[0].kernel)
                return await go(opened[0].kernel)
            finally:
                await close_systems(opened)

        return asyncio.run(open_and_go())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name in ("DATABASE_URL", "MAIN_DATABASE_URL", "GRADING_DATABASE_URL", "REVIEW_DATABASE_URL", "RABBITMQ_URL"):
        monkeypatch.delenv(name, raising=False)
    return Place({"HOLDFAST_DATA_DIR": str(tmp_path / "data")})


@pytest.fixture(scope="session")
def migrated_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder as `holdfast migrate` leaves it, for the shop and its rival."""
    folder = tmp_path_factory.mktemp("migrated") / "data"
    for path in ("tests.cli.shop:app", "tests.cli.shop:rival"):
        assert Place({"HOLDFAST_DATA_DIR": str(folder)}).run("migrate", "--app", path).exit_code == 0
    return folder


@pytest.fixture
def migrated(place: Place, migrated_folder: Path) -> None:
    """The shop's tables, and its rival's, are there: to look makes none."""
    shutil.copytree(migrated_folder, place.env["HOLDFAST_DATA_DIR"])
