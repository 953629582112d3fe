"""Posts to a web server from 32 connections that stay open, with as little work of its own as possible."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from uuid import uuid4

from bench.runs.serving import SECRET
from bench.stopwatch import Figures, Stopwatch, tree_cpu_s
from holdfast.http.auth import token_for
from holdfast.settings import Settings

CALLERS = 32
WARM = 200
TEXT = "A short essay about the sea and the wind. " * 8
BODY = json.dumps({"skill": "writing", "payload": {"text": TEXT, "taskType": "essay", "questionId": "q-1"}})


async def post(which: str, count: int) -> Figures:
    port = _free_port()
    async with _server(which, port) as pid:
        await _posted(port, WARM)
        before, watch = tree_cpu_s(pid), Stopwatch()
        await _posted(port, count)
        return watch.stop(count) | {"server_us": (tree_cpu_s(pid) - before) / count * 1e6}


@asynccontextmanager
async def _server(which: str, port: int) -> AsyncIterator[int]:
    command = [sys.executable, "-m", "bench.runs.serving", which, str(port)]
    server = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
    try:
        await _listening(port, server)
        yield server.pid
    finally:
        assert server.stdin is not None
        server.stdin.close()
        await server.wait()


async def _listening(port: int, server: asyncio.subprocess.Process) -> None:
    while server.returncode is None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
    raise RuntimeError("the server did not start")


async def _posted(port: int, count: int) -> None:
    bearer = token_for(Settings(jwt_secret=SECRET), "ann", ["learner"])
    left = iter(range(count))
    await asyncio.gather(*[_caller(port, bearer, left) for _ in range(CALLERS)])


async def _caller(port: int, bearer: str, left: object) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST /api/submissions HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {bearer}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n"
    )
    for _ in left:  # type: ignore[attr-defined]
        writer.write(f"{head}Idempotency-Key: {uuid4()}\r\n\r\n{BODY}".encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 201"):
            raise RuntimeError(answer.decode() + (await reader.read(500)).decode())
        length = answer.lower().split(b"content-length:")[1].split(b"\r\n")[0]
        await reader.readexactly(int(length))
    writer.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


TASKS = {"post": partial(post, "ours"), "post_bare": partial(post, "bare")}
