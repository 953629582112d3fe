"""A tiny real IMAP server over a list of messages: LOGIN, SELECT, SEARCH HEADER, FETCH, LOGOUT."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self


@dataclass
class ImapServer:
    messages: list[bytes] = field(default_factory=list)
    refuses: str = ""
    _server: asyncio.Server | None = None
    _talks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"imap://ada:pw@127.0.0.1:{self._server.sockets[0].getsockname()[1]}/Archive"

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
        writer.write(b"* OK here\r\n")
        while line := (await reader.readline()).decode().strip():
            tag, verb, *_ = line.split()
            for answer in self._answers(verb.upper(), line):
                writer.write(answer + b"\r\n")
            status = "NO" if verb.upper() == self.refuses else "OK"
            writer.write(f"{tag} {status} done\r\n".encode())
            await writer.drain()
            if verb.upper() == "LOGOUT":
                break
        writer.close()

    def _answers(self, verb: str, line: str) -> list[bytes]:
        match verb:
            case "CAPABILITY":
                return [b"* CAPABILITY IMAP4rev1"]
            case "EXAMINE":
                return [f"* {len(self.messages)} EXISTS".encode()]
            case "SEARCH":
                wanted = re.findall(r'"([^"]*)"', line)[-1].encode()
                hits = [str(n) for n, message in enumerate(self.messages, 1) if wanted in _message_id(message)]
                return [" ".join(["* SEARCH", *hits]).encode()]
            case "FETCH":
                number = int(line.split()[2])
                header = b"Message-ID: " + _message_id(self.messages[number - 1]) + b"\r\n\r\n"
                label = f"* {number} FETCH (BODY[HEADER.FIELDS (MESSAGE-ID)] {{{len(header)}}}\r\n".encode()
                return [label + header + b")"]
            case "LOGOUT":
                return [b"* BYE"]
        return []


def _message_id(message: bytes) -> bytes:
    found = re.search(rb"^Message-ID: (.+?)\r\n", message, re.MULTILINE | re.IGNORECASE)
    return found[1] if found else b""
