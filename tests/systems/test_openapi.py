"""The OpenAPI document of the three systems: every operation is typed, and a client that is made from it calls them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.http.app import create_app
from holdfast.http.auth import token_for
from holdfast.main import close_systems, open_systems
from holdfast.settings import Settings
from tests.http.described import Described
from tests.http.test_openapi import GeneratedClient, untyped_operations
from tests.roles import ROLES
from tests.systems.conversion.place import PDF, SECRET
from tests.systems.grading.pair import WRITING

SYSTEMS = ("conversion", "grading-main", "review")
OPS = ("/api/ops/submissions", "/api/ops/refused", "/api/ops/dlq")
PLACES = ("/api/jobs", "/api/submissions", "/api/instructor", "/api/recordings", "/api/changelists", *OPS)
STREAMS_AND_FILES = {
    "GET /api/jobs/events",
    "GET /api/jobs/{job_id}/events",
    "GET /api/jobs/{job_id}/result",
    "GET /api/submissions/{submission_id}/events",
    "GET /api/instructor/events",
    "GET /api/instructor/submissions/{submission_id}/audio",
    "GET /api/recordings/{name}",
}
AFTER_WORK = {
    "POST /api/jobs/{job_id}/retry",
    "POST /api/recordings",
    "POST /api/submissions/{submission_id}/resubmit",
    "POST /api/submissions/{submission_id}/review",
    "POST /api/submissions/{submission_id}/review/claim",
    "POST /api/submissions/{submission_id}/review/release",
    "GET /api/instructor/submissions/{submission_id}",
    "POST /api/ops/submissions/{submission_id}/resubmit",
    "GET /api/ops/dlq/{letter_id}",
    "POST /api/ops/dlq/{letter_id}/archive",
    "POST /api/ops/dlq/{letter_id}/resend",
    "GET /api/changelists/{changelist_id}/reviews/{review_version}/mail",
}
"""What answers only once something was graded, refused or sent: held against the document in the systems' own tests, as
the passing on to the grading service is (`two_servers`)."""


class Client(GeneratedClient):
    """Finds an operation by the beginning of its id."""

    async def do(self, name: str, expected: int = 200, /, **arguments: Any) -> Any:
        begin = name if "_api_" in name else f"{name}_api_"
        (operation_id,) = [each for each in self.operations if each.startswith(begin)]
        answer = await self.call(operation_id, **arguments)
        assert answer.status_code == expected, (name, answer.text)
        return answer.json()


@pytest.fixture
async def described(tmp_path: Path) -> AsyncIterator[Described]:
    settings = Settings(data_dir=str(tmp_path), jwt_secret=SECRET)
    opened = await open_systems(settings, {"HOLDFAST_DATA_DIR": settings.data_dir}, SYSTEMS, [])
    try:
        await asyncio.gather(*(each.kernel.migrate() for each in opened))
        yield Described(create_app(settings, opened))
    finally:
        await close_systems(opened)


@pytest.mark.spec("K17")
async def test_every_operation_of_the_systems_is_typed_and_a_made_client_calls_them(described: Described) -> None:
    document = described.web.openapi()
    assert untyped_operations(document) == []
    headers = {"Authorization": f"Bearer {token_for(described.web.state.settings, 'ann', ROLES)}"}
    transport = httpx.ASGITransport(described)
    async with httpx.AsyncClient(transport=transport, base_url="http://holdfast", headers=headers) as asked:
        client = Client(document, asked)
        await _convert(client, asked)
        await _grade(client)
        await _review(client)
    assert described.problems == []
    own = {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
        if path.startswith(PLACES)
    }
    assert own - described.seen == STREAMS_AND_FILES | AFTER_WORK


async def _convert(client: Client, asked: httpx.AsyncClient) -> None:
    form = client.operations["upload_api_jobs_post"][2]["requestBody"]["content"]["multipart/form-data"]["schema"]
    assert form["required"] == ["file"]
    job = (await asked.post("/api/jobs", files={"file": ("a.pdf", PDF)})).json()
    assert (await client.do("jobs", limit=5))["jobs"] == [job]
    assert (await client.do("show", job_id=job["id"]))["fileName"] == "a.pdf"
    assert (await client.do("cancel", job_id=job["id"]))["status"] == "cancelled"


async def _grade(client: Client) -> None:
    new = {"skill": "writing", "payload": WRITING}
    made = await client.do("create_api_submissions", 201, body=new, **{"Idempotency-Key": str(uuid.uuid4())})
    assert (await client.do("mine", status="PENDING"))["items"] == [made]
    assert (await client.do("one_api_submissions", submission_id=made["id"])) == made
    assert (await client.do("queue", skill="writing"))["items"] == []
    assert (await client.do("history"))["items"] == []
    assert (await client.do("list_submissions", user="ann"))["items"][0]["id"] == made["id"]
    assert (await client.do("show_submission", submission_id=made["id"]))["payload"] == made["payload"]
    for name in ("refused_callbacks", "list_letters"):
        assert (await client.do(name))["items"] == []


async def _review(client: Client) -> None:
    source = {"type": "url", "url": "https://example.test/1.diff"}
    new = {"idempotency_key": "k", "review_version": 1, "recipients": ["ada@example.test"], "source": source}
    for status in (201, 200):
        await client.do("create_api_changelists", status, changelist_id="cl-1", body=new)
    (review,) = (await client.do("versions", changelist_id="cl-1"))["items"]
    assert (await client.do("one_api_changelists", changelist_id="cl-1", review_version=1)) == review
