"""One stream keeps a whole page of jobs current, opened by a ticket that works once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.systems.conversion.live import live
from tests.systems.conversion.place import PDF, ToldGateway

from holdfast.http.auth import token_for
from holdfast.kernel.hold import force
from holdfast_systems.conversion.views import BANNER

pytestmark = [pytest.mark.slow, pytest.mark.spec("C8", "C10")]


async def read(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    name = ""
    async for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: ") and name != "ping":
            yield name, json.loads(line.removeprefix("data: "))


async def test_a_users_stream_tells_every_change_of_every_job_and_no_one_elses(tmp_path: Path) -> None:
    gateway = ToldGateway(hold=asyncio.Event())
    async with live(tmp_path, gateway) as (place, address), asyncio.timeout(30):
        headers = {"Authorization": f"Bearer {token_for(place.base, 'ann', [])}"}
        async with httpx.AsyncClient(base_url=address, headers=headers, verify=False) as client:
            ticket = (await client.post("/api/tickets")).json()["ticket"]
            await place.upload("bob")
            async with client.stream(
                "GET", "/api/jobs/events", params={"ticket": ticket}, headers={"Authorization": ""}
            ) as bad:
                assert bad.status_code == 401, "an empty token is not a ticket"
            bare = httpx.AsyncClient(base_url=address, verify=False)
            async with bare, bare.stream("GET", "/api/jobs/events", params={"ticket": ticket}) as answer:
                told = read(answer.aiter_lines())
                assert await anext(told) == ("banner", {"text": None})
                job = (await client.post("/api/jobs", files={"file": ("a.pdf", PDF)})).json()
                seen = []
                async for name, data in told:
                    assert (name, data["id"]) == ("job", job["id"]), "somebody else's job"
                    seen.append(data["status"])
                    if data["status"] == "processing":
                        assert gateway.hold is not None
                        gateway.hold.set()
                    if data["status"] == "complete":
                        break
                assert seen[-2:] == ["processing", "complete"]
                await force(place.kernel, "gateway", open=True, actor="ops", reason="a drill")
                assert await anext(told) == ("banner", {"text": BANNER})
                again = await client.get(f"/api/jobs/events?ticket={ticket}", headers={"Authorization": ""})
                assert again.status_code == 401


async def test_a_refused_upload_is_answered_while_the_client_still_sends(tmp_path: Path) -> None:
    """Without reading on, the client would see a reset connection and not the reason."""
    async with live(tmp_path, ToldGateway(), UPLOAD_BYTES_MAX=str(1 << 20)) as (place, address):
        headers = {"Authorization": f"Bearer {token_for(place.base, 'ann', [])}"}
        async with httpx.AsyncClient(base_url=address, headers=headers, timeout=20, verify=False) as client:
            large = await client.post("/api/jobs", files={"file": ("a.pdf", PDF + b"x" * (16 << 20))})
            html = await client.post("/api/jobs", files={"file": ("a.pdf", b"<p>" * (300 << 10))})
        assert (large.json()["code"], html.json()["code"]) == ("TOO_LARGE", "NOT_PDF")
        assert place.files() == ([], [])
