"""One large upload to the real conversion server: how much more memory it takes while the file streams in."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator

import httpx

from bench.runs.serving import SECRET
from bench.stopwatch import Figures, Stopwatch, folder, most_mb
from holdfast.http.auth import token_for
from holdfast.settings import Settings

PIECE = b"x" * (1 << 20)
EDGE = "bench-edge"


async def upload(megabytes: int) -> Figures:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = os.environ | {"HOLDFAST_DATA_DIR": str(folder()), "HOLDFAST_PORT": str(port), "HOLDFAST_JWT_SECRET": SECRET}
    env |= {"UPLOAD_BYTES_MAX": str((megabytes + 1) << 20), "HOLDFAST_AUTO_MIGRATE": "true"}
    command = [sys.executable, "-c", "from holdfast.cli import cli; cli()", "serve", "--system", "conversion"]
    server = await asyncio.create_subprocess_exec(*command, env=env, stderr=asyncio.subprocess.DEVNULL)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
            await _ready(client, server)
            await _sent(client, 1)
            before, watch = most_mb(server.pid), Stopwatch()
            await _sent(client, megabytes)
            return watch.stop(1) | {"extra_mb": most_mb(server.pid) - before, "megabytes": megabytes}
    finally:
        server.send_signal(signal.SIGTERM)
        await server.wait()


async def _ready(client: httpx.AsyncClient, server: asyncio.subprocess.Process) -> None:
    while server.returncode is None:
        try:
            if (await client.get("/readyz")).status_code == 200:
                return
        except httpx.TransportError:
            await asyncio.sleep(0.1)
    raise RuntimeError("the server did not start")


async def _sent(client: httpx.AsyncClient, megabytes: int) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield (
            f'--{EDGE}\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n'.encode()
            + b"%PDF-1.7\n"
        )
        for _ in range(megabytes):
            yield PIECE
        yield f"\r\n--{EDGE}--\r\n".encode()

    bearer = token_for(Settings(jwt_secret=SECRET), "ann", ["learner"])
    headers = {"Authorization": f"Bearer {bearer}", "Content-Type": f"multipart/form-data; boundary={EDGE}"}
    answer = await client.post("/api/jobs", content=body(), headers=headers)
    if answer.status_code != 202:
        raise RuntimeError(f"the upload was answered {answer.status_code}: {answer.text[:200]}")


TASKS = {"upload": upload}
