"""A tiny real SMTP server that keeps what it accepts and fails where it is told to."""

from __future__ import annotations

import asyncio
import base64
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self


@dataclass
class SmtpServer:
    """`answers` replaces the reply to a verb ('CONTENT' is the reply to the message itself).

    A reply of 'DROP' closes the connection instead; with `accepts_before_drop` the message is kept first.
    """

    answers: dict[str, str] = field(default_factory=dict)
    accepts_before_drop: bool = False
    user: str | None = None
    accepted: list[tuple[list[str], bytes]] = field(default_factory=list)
    connections: int = 0
    _server: asyncio.Server | None = None
    _talks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._talks.append(asyncio.create_task(self._serve(reader, writer)))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        await asyncio.gather(*self._talks)  # each ends when its client leaves

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._talk(reader, writer)
        writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        recipients: list[str] = []
        if not await self._say(writer, "CONNECT", "220 here"):
            return
        while line := (await reader.readline()).decode().strip():
            verb = line.split()[0].upper()
            if verb == "RCPT":
                recipients.append(line.partition("<")[2].partition(">")[0])
            if not await self._say(writer, verb, self._usual(verb, line)):
                return
            if verb == "DATA" and not self.answers.get("DATA"):
                await self._content(reader, writer, recipients)
                if self.answers.get("CONTENT") == "DROP":
                    return
                recipients = []
            if verb == "QUIT":
                return

    def _usual(self, verb: str, line: str) -> str:
        if verb == "EHLO":
            return "250-here\r\n250-AUTH PLAIN\r\n250 8BITMIME" if self.user else "250 here"
        if verb == "AUTH":
            given = base64.b64decode(line.split()[-1]).decode()
            return "235 ok" if given == f"\0{self.user}" else "535 5.7.8 bad credentials"
        return {"DATA": "354 go on", "QUIT": "221 bye"}.get(verb, "250 ok")

    async def _say(self, writer: asyncio.StreamWriter, verb: str, usual: str) -> bool:
        answer = self.answers.get(verb, usual)
        if answer == "DROP":
            return False
        writer.write(f"{answer}\r\n".encode())
        await writer.drain()
        return True

    async def _content(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, recipients: list[str]) -> None:
        message = await reader.readuntil(b"\r\n.\r\n")
        answer = self.answers.get("CONTENT", "250 queued")
        if answer.startswith("250") or (answer == "DROP" and self.accepts_before_drop):
            self.accepted.append((list(recipients), message))
        await self._say(writer, "CONTENT", "250 queued")
