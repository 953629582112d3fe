"""An HTTP server on a free port that keeps what it is sent, and answers as told, when told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.systems.conversion.place import XML


@dataclass
class Seen:
    """One request: its headers in small letters, its body, and a way to let its answer go."""

    headers: dict[str, str]
    body: bytes
    go: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Stub:
    url: str = ""
    held: bool = False
    statuses: list[int] = field(default_factory=list)
    body: bytes = XML
    headers: dict[str, str] = field(default_factory=dict)
    seen: asyncio.Queue[Seen] = field(default_factory=asyncio.Queue)

    async def next(self) -> Seen:
        async with asyncio.timeout(30):
            return await self.seen.get()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[1:-2]
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head)}
            request = Seen(headers, await reader.readexactly(int(headers.get("content-length", "0"))))
            self.seen.put_nowait(request)
            if self.held:
                await request.go.wait()
            status = self.statuses.pop(0) if self.statuses else 200
            kind = "Content-Type: application/xml\r\nConnection: close\r\n"
            kind += "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
            writer.write(f"HTTP/1.1 {status} X\r\n{kind}Content-Length: {len(self.body)}\r\n\r\n".encode() + self.body)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the caller is gone, as the tests want it
        finally:
            writer.close()


@asynccontextmanager
async def stub(**given: object) -> AsyncIterator[Stub]:
    made = Stub(**given)  # type: ignore[arg-type]
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    try:
        yield made
    finally:
        server.close()
