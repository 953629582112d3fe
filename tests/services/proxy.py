"""A TCP proxy on loopback that can do what networks do: refuse, cut, half-close, delay, and be a black hole.

absent (refuses) --open--> forwarding --swallow / delay / refuse--> in trouble --open--> forwarding
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

from tests.services.child import free_ports

CHUNK = 65_536
PATIENCE_S = 10.0


class Proxy:
    """Forwards to one port in a thread of its own. It begins absent: nobody listens on `port`. Every verb returns when
    it has been done, and may be called again."""

    def __init__(self, target_port: int) -> None:
        self.port = free_ports(1)[0]
        self._target_port = target_port
        self._delay_s = 0.0
        self._links: set[_Link] = set()
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def open(self) -> None:
        """Listen, and let everything through at once."""
        self._delay_s = 0.0
        self._do(self._flowing.set)
        if self._server is None:
            self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(PATIENCE_S)

    def swallow(self) -> None:
        """Take connections and bytes, and pass nothing on until `open`."""
        self._do(self._flowing.clear)

    def delay(self, seconds: float) -> None:
        """Pass every piece on so much later."""
        self._delay_s = seconds

    def cut(self) -> None:
        """Reset every connection; new ones are taken."""
        self._do_to_links(_Link.reset)

    def half_close(self) -> None:
        """Tell every client that its server has gone, and no server anything."""
        self._do_to_links(_Link.half_close)

    def refuse(self) -> None:
        """Reset every connection, and take no new ones until `open`."""
        server, self._server = self._server, None
        if server is not None:
            self._do(server.close)
        self.cut()

    def close(self) -> None:
        """Cut every connection, and be gone. Idempotent."""
        if not self._loop.is_closed():
            self.refuse()
            asyncio.run_coroutine_threadsafe(self._end_tasks(), self._loop).result(PATIENCE_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE_S)
            self._loop.close()

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _do(self, change: Callable[[], object]) -> None:
        done = threading.Event()

        def run() -> None:
            change()
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(PATIENCE_S), "the proxy's own thread stands still"

    def _do_to_links(self, change: Callable[[_Link], None]) -> None:
        def run() -> None:
            for link in list(self._links):
                change(link)

        self._do(run)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._connected, "127.0.0.1", self.port)

    async def _connected(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        link = _Link(client)
        self._links.add(link)
        try:
            await self._flowing.wait()
            from_server, link.server = await asyncio.open_connection("127.0.0.1", self._target_port)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, link.server))
                group.create_task(self._pump(from_server, client))
        except* (OSError, _Ended):
            pass
        finally:
            self._links.discard(link)
            link.reset()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while chunk := await source.read(CHUNK):
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            await self._flowing.wait()
            sink.write(chunk)
            await sink.drain()
        await self._flowing.wait()  # in a black hole nobody learns that the other side has gone
        raise _Ended


class _Ended(Exception):
    """One side has closed, so the other is closed too."""


class _Link:
    """One connection through the proxy: a client's side, and the server's once it is there."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.client = client
        self.server: asyncio.StreamWriter | None = None

    def reset(self) -> None:
        for side in (self.client, self.server):
            if side is not None:
                side.transport.abort()

    def half_close(self) -> None:
        with suppress(OSError):
            self.client.get_extra_info("socket").shutdown(socket.SHUT_WR)


def behind(proxy: Proxy, url: str) -> str:
    """The way to a server through the proxy before it."""
    return url.replace(f":{urlsplit(url).port}/", f":{proxy.port}/")
