"""Asks PostgreSQL one question with the standard library alone: peers measure themselves with what they have installed.

The simple query protocol, on a private server that trusts its own machine.
"""

from __future__ import annotations

import socket
import struct
from urllib.parse import urlsplit


def ask(url: str, query: str) -> list[str | None]:
    """The first row of the answer, as texts. Raises RuntimeError with the server's word if there is none."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 5432), timeout=10) as link:
        named = f"user\0{parts.username}\0database\0{parts.path[1:]}\0\0".encode()
        link.sendall(struct.pack("!ii", len(named) + 8, 196_608) + named)
        _until_ready(link)
        text = query.encode() + b"\0"
        link.sendall(b"Q" + struct.pack("!i", len(text) + 4) + text)
        row = _until_ready(link)
        link.sendall(b"X" + struct.pack("!i", 4))
    if row is None:
        raise RuntimeError(f"PostgreSQL gave no row for: {query}")
    return row


def _until_ready(link: socket.socket) -> list[str | None] | None:
    """Read messages until the server is ready for a query; the first row among them."""
    row = None
    while True:
        head = _exactly(link, 5)
        body = _exactly(link, struct.unpack("!i", head[1:])[0] - 4)
        match head[:1]:
            case b"Z":
                return row
            case b"E":
                raise RuntimeError(body.replace(b"\0", b" ").decode(errors="replace"))
            case b"D" if row is None:
                row = _fields(body)


def _fields(body: bytes) -> list[str | None]:
    found: list[str | None] = []
    at = 2
    for _ in range(struct.unpack("!h", body[:2])[0]):
        (size,) = struct.unpack("!i", body[at : at + 4])
        at += 4
        found.append(None if size < 0 else body[at : at + size].decode())
        at += max(0, size)
    return found


def _exactly(link: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = link.recv(size - len(parts))
        if not part:
            raise RuntimeError("PostgreSQL closed the connection.")
        parts += part
    return parts
