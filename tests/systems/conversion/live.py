"""The conversion system on a real port, with a worker beside it, as `holdfast up` runs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import uvicorn
from tests.systems.conversion.place import Place, environment, opened

from holdfast.engines.run import Duties, run
from holdfast.stores.sqlite import SqliteStore


class Server(uvicorn.Server):
    """Says when it listens; leaves signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    def capture_signals(self) -> Any:
        return nullcontext()


@asynccontextmanager
async def live(folder: Path, gateway: Any, **env: str) -> AsyncIterator[tuple[Place, str]]:
    """A deployment by the machine's clock, and its address."""
    own = environment(folder, **env)
    async with opened(lambda clock: SqliteStore(folder / "conversion.db"), own, gateway) as place:
        stop = asyncio.Event()
        server = Server(uvicorn.Config(place.web, port=0, log_config=None, timeout_graceful_shutdown=1))
        duties = asyncio.ensure_future(run(place.kernel, Duties(concurrency=2), stop))
        web = asyncio.ensure_future(server.serve())
        try:
            await server.listening.wait()
            port = server.servers[0].sockets[0].getsockname()[1]
            yield place, f"http://127.0.0.1:{port}"
        finally:
            place.web.state.stopping.set()
            stop.set()
            server.should_exit = True
            await asyncio.gather(duties, web)
