"""One deployment: a database, a provider's ledger, and the processes that share them."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from holdfast.kernel.app import App, Job
from holdfast.kernel.kernel import Kernel, Registry, Tuning
from holdfast.main import open_store
from holdfast.stores.statement import _statement
from tests.acceptance.apps.orders import LEDGER, orders
from tests.acceptance.ledger import Ledger
from tests.acceptance.process import Nursery, Process
from tests.services.postgres import PostgresServer

# Short, so that a stopped process loses the rows it has locked within a test.
IDLE_LIMIT = "1500ms"


@dataclass
class Deployment:
    """Everything one test shares, and nothing that another test sees."""

    url: str
    folder: Path
    nursery: Nursery
    server: PostgresServer | None = None
    template: str = ""
    processes: list[Process] = field(default_factory=list)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folder / "provider.db")

    def start(self, *argv: str, app: str = "orders", **env: str) -> Process:
        """`holdfast ... --app`, as a process of its own on this deployment."""
        path = f"tests.acceptance.apps.{app}:make"
        given = {"DATABASE_URL": self.url, LEDGER: self.ledger.path, "HOLDFAST_DATA_DIR": str(self.folder)}
        process = self.nursery.start(*argv, "--app", path, env=given | env)
        self.processes.append(process)
        return process

    def worker(self, app: str = "orders", **env: str) -> Process:
        return self.start("worker", app=app, **env)

    @asynccontextmanager
    async def kernel(
        self, make: Callable[[Ledger], App] = orders, tuning: Tuning | None = None
    ) -> AsyncIterator[Kernel]:
        """A kernel in the test's own process: to enqueue, and to look."""
        ledger = self.ledger
        kernel = Kernel(open_store(self.url), Registry([make(ledger)]), tuning=tuning or Tuning())
        try:
            yield kernel
        finally:
            await kernel.store.close()
            ledger.close()

    def clear(self) -> None:
        for process in self.processes:
            process.kill()  # another deployment has the database after this one
        if self.server is not None:
            self.server.take_copy(self.template, self.url)
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass
class Ground:
    """Makes deployments by copying what is migrated already."""

    server: PostgresServer
    nursery: Nursery
    template: str
    embedded: Path
    folder: Path
    numbers: Iterator[int]

    def deploy(self) -> Deployment:
        url = self.server.copy_of(self.template)
        name = url.rpartition("/")[2]
        with psycopg.connect(self.server.url(), autocommit=True) as connection:
            limit = f"ALTER DATABASE {name} SET idle_in_transaction_session_timeout = '{IDLE_LIMIT}'"
            connection.execute(limit.encode())
        return Deployment(url, self._folder(), self.nursery, self.server, self.template)

    def embed(self) -> Deployment:
        folder = self._folder()
        shutil.copy(self.embedded, folder / "kernel.db")
        return Deployment(f"sqlite:///{folder / 'kernel.db'}", folder, self.nursery)

    def _folder(self) -> Path:
        folder = self.folder / f"{next(self.numbers):03d}"
        folder.mkdir()
        return folder


async def rows(kernel: Kernel, text: str) -> list[dict[str, Any]]:
    """A question of the test's own."""
    async with kernel.store.reading() as tx:
        return [dict(row) for row in await tx.rows(_statement("asked", {None: text}))]  # type: ignore[call-overload]


async def change(kernel: Kernel, text: str) -> None:
    """What no verb would do, done in the tables."""
    async with kernel.store.transaction() as tx:
        await tx.rows(_statement("changed", {None: text}))  # type: ignore[call-overload]


async def all_ended(kernel: Kernel) -> bool:
    """Every job has ended and every message is out."""
    live = await rows(
        kernel,
        "SELECT (SELECT COUNT(*) FROM holdfast_jobs WHERE state IN ('queued', 'processing', 'waiting'))"
        " + (SELECT COUNT(*) FROM holdfast_outbox WHERE status = 'pending') AS live",
    )
    return bool(live[0]["live"] == 0)


def kind(kernel: Kernel, name: str) -> type[Job[Any]]:
    """The job class of the kernel's one app."""
    app = kernel.registry.apps[0]
    return type(app.kinds[f"{app.name}.{name}"].instance)
