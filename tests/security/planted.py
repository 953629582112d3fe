"""Secrets to plant, each of its own kind and easily told from everything else, and a server that gives them away.

`CONTENT` is what a user may write into their own work: it may lie in that work's own row, and nowhere else.
`ADDRESS` is what stands in the user info and the queries of addresses: sealed, and found nowhere.
`NOWHERE` is what belongs to the deployment or comes out of a provider's mouth: no row, no line, no page may have it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

CONTENT = {
    "api key": "sk-proj-Planted0Content1Key2Abcdefgh",
    "bearer token": "PlantedBearer0Content1Abcdefghijklm",
    "password in a URL": "PlantedPass0Content1",
    "password": "PlantedWord0Content1",
    "private key": "MIIEPlanted0Content1Pem2Abcdefghijklmnopqrstuvwxyz",
}
EMAIL = "planted.person@example.test"
MAIL_KEY = "re_Planted0Mail1Key2Abcdefghijklmn"
LLM_KEY = "sk-live-Planted0Llm1Key2Abcdefghijkl"
HOOK_SECRET = "whsec_Planted0Hook1Secret2Abcdefghijkl"
GATEWAY_PASSWORD = "PlantedPass0Gateway1"
PROVIDER = {
    "api key": "sk-prov-Planted0Provider1Key2Abcdefg",
    "bearer token": "PlantedBearer0Provider1Abcdefghijkl",
    "password in a URL": "PlantedPass0Provider1",
    "password": "PlantedWord0Provider1",
    "private key": "MIIEPlanted0Provider1Pem2Abcdefghijklmnopqrstuvwxy",
}
ADDRESS = {
    "audio query": "PlantedAudio0Query1",
    "webhook query": "PlantedHook0Query1",
    "diff query": "PlantedDiff0Query1",
    "diff user": "PlantedDiff0User1",
    "git password": "PlantedGit0Password1",
    "git token": "PlantedGit0Token1",
    "ssh user": "PlantedSsh0User1",
    "refused message": "PlantedRefused0Query1",
}
"""What stands in addresses that users gave: whoever fetches is given it, and it lies nowhere else in the clear."""
NOWHERE = [*PROVIDER.values(), MAIL_KEY, LLM_KEY, HOOK_SECRET, GATEWAY_PASSWORD]


def words(of: dict[str, str]) -> str:
    """The secrets as people and programs write them."""
    return (
        f"Incorrect API key provided: {of['api key']}. Authorization: Bearer {of['bearer token']} "
        f"see https://admin:{of['password in a URL']}@db.example.test/x and password={of['password']}\n"
        f"-----BEGIN RSA PRIVATE KEY-----\n{of['private key']}\n-----END RSA PRIVATE KEY-----\n"
    )


def diff() -> bytes:
    added = "".join(f"+{line}\n" for line in ["import os", "", *words(CONTENT).splitlines()])
    count = added.count("\n")
    return f"diff --git a/app.py b/app.py\n--- a/app.py\n+++ b/app.py\n@@ -0,0 +1,{count} @@\n{added}".encode()


def finding() -> str:
    """What a model says that repeats what it should not."""
    message = f"The key {PROVIDER['api key']} is hard-coded; password={PROVIDER['password']}."
    found = [{"path": "app.py", "line": 1, "severity": "error", "rule": "leak", "message": message}]
    return json.dumps({"summary": words(PROVIDER), "findings": found})


@dataclass
class LeakyServer:
    """An LLM, a gateway, a mail provider and a web site in one. Every error of theirs is full of secrets."""

    port: int = 0
    asked: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            status, told = self._told(lines[0].split(" ")[1], body)
            leak = f"X-Debug: Bearer {PROVIDER['bearer token']}\r\nConnection: close"
            writer.write(f"HTTP/1.1 {status} X\r\n{leak}\r\nContent-Length: {len(told)}\r\n\r\n".encode() + told)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the caller has given up
        finally:
            writer.close()

    def _told(self, path: str, body: bytes) -> tuple[int, bytes]:
        self.asked.append(path)
        error = json.dumps({"error": {"message": words(PROVIDER), "code": None}, "message": words(PROVIDER)}).encode()
        if path.startswith("/v1/") and b"FILE app.py" in body:
            choice = {"message": {"content": finding()}, "finish_reason": "stop"}
            return 200, json.dumps(
                {"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 9}}
            ).encode()
        if path.startswith("/v1/"):
            return (401 if b"refuse me" in body else 500), error
        if path.startswith("/changes"):
            return 200, diff()
        return (422 if path.startswith("/mail") else 500), error


@asynccontextmanager
async def leaky_server() -> AsyncIterator[LeakyServer]:
    made = LeakyServer()
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
