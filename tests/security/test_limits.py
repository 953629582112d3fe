"""Bodies have limits, every kind of answer has safe headers, and a refusal waits for nothing that will not come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.security.deployment import Deployment, deployed

from holdfast.http.auth import token_for
from holdfast.http.guard import BODY_BYTES_MAX, SECURE_HEADERS, STRANGER_BYTES_MAX
from holdfast_systems.grading import audio
from holdfast_systems.sandbox.parent import sandbox_for

OWN_LIMITS = {"/api/jobs", "/api/recordings"}  # uploads; tested by themselves


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Deployment]:
    async with deployed(tmp_path) as made:
        made.web.state.stopping.set()
        yield made


def writing_routes(place: Deployment) -> Iterator[tuple[str, str]]:
    for path, methods in place.web.openapi()["paths"].items():
        for method, operation in methods.items():
            if "requestBody" in operation and path not in OWN_LIMITS:
                yield method.upper(), path


async def endless(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // 65_536 + 2):
        yield b" " * 65_536


async def test_every_route_with_a_body_refuses_one_that_is_too_large(place: Deployment) -> None:
    """Declared or not: the length that is announced and the bytes that come are both counted."""
    client = place.client("someone", "learner", "instructor", "operator", "service")
    client.headers["Content-Type"] = "application/json"
    wrong = []
    for method, path in writing_routes(place):
        declared = await client.request(method, path, content=b" " * (BODY_BYTES_MAX + 1))
        chunked = await client.request(method, path, content=endless(BODY_BYTES_MAX))
        for answer in (declared, chunked):
            if (answer.status_code, answer.json()["code"]) != (413, "BODY_TOO_LARGE"):
                wrong.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
    assert wrong == []


async def test_a_long_body_is_read_of_those_only_who_are_known(place: Deployment) -> None:
    """To read 1 MiB of JSON costs up to a fifth of a second of CPU, and memory as long as it is on its way."""
    stranger, came = place.client(), 0
    stranger.headers["Content-Type"] = "application/json"

    async def body() -> AsyncIterator[bytes]:
        nonlocal came
        for _ in range(16):
            came += STRANGER_BYTES_MAX // 2
            yield b" " * (STRANGER_BYTES_MAX // 2)

    for method, path in (*writing_routes(place), *(("POST", path) for path in sorted(OWN_LIMITS))):
        came = 0
        refused = {401, 403} if path.startswith("/api/callbacks/") else {401}
        query = {"key": "k", "expires": "1", "signature": "x"}
        length = {"Content-Length": str(8 * STRANGER_BYTES_MAX)}
        declared = await stranger.request(method, path, params=query, content=body(), headers=length)
        assert came == 0, "what is declared to be long is not read at all"
        chunked = await stranger.request(method, path, params=query, content=body())
        assert {declared.status_code, chunked.status_code} <= refused, (method, path, declared.text, chunked.text)
        assert came <= 2 * STRANGER_BYTES_MAX, (method, path)


async def test_the_requests_of_a_caller_hold_a_bounded_memory(
    place: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request alone may be as large as its route takes; what a route writes down as it comes is not held."""
    monkeypatch.setattr("holdfast.http.buckets.HELD_PER_CALLER", 100_000)
    ann, ben, held, go_on = (
        place.client("ann", "learner"),
        place.client("ben", "learner"),
        asyncio.Event(),
        asyncio.Event(),
    )

    async def waits() -> AsyncIterator[bytes]:
        yield b"x" * 150_000
        held.set()
        await go_on.wait()

    begun = asyncio.create_task(ann.post("/api/recordings", content=waits()))
    await asyncio.wait_for(held.wait(), 10)
    refused = await ann.post("/api/recordings", content=b"x" * 20_000)
    assert (refused.status_code, refused.json()["code"]) == (429, "RATE_LIMITED")
    assert (await ann.post("/api/jobs", files={"file": ("a.pdf", b"%PDF-1.7\n" + b"x" * 200_000)})).status_code == 202
    assert (await ben.post("/api/recordings", content=b"x" * 20_000)).json()["code"] == "AUDIO_UNDECODABLE"
    go_on.set()
    assert (await begun).json()["code"] == "AUDIO_UNDECODABLE"
    assert (await ann.post("/api/recordings", content=b"x" * 20_000)).json()["code"] == "AUDIO_UNDECODABLE"


async def test_recordings_that_take_their_time_leave_threads_to_everybody_else(place: Deployment) -> None:
    """The event loop's own threads look up names, fetch keys of tokens and open files."""
    client = place.client("ann", "learner")
    with sandbox_for(audio._TASK)._lock:  # a sandbox that stands still
        uploads = [asyncio.create_task(client.post("/api/recordings", content=b"no sound")) for _ in range(40)]
        missing = client.get(f"/api/recordings/{'x' * 43}")  # a thread looks for the file
        assert (await asyncio.wait_for(missing, 10)).status_code == 404
        assert not any(upload.done() for upload in uploads)
    assert {(await upload).status_code for upload in uploads} == {422}


async def test_an_upload_has_a_limit_of_its_own(tmp_path: Path) -> None:
    async with deployed(tmp_path, UPLOAD_BYTES_MAX="2000") as place:
        for size, status in ((1_000, 202), (3_000, 413), (3 << 20, 413)):
            files = {"file": ("a.pdf", b"%PDF-1.7\n" + b"x" * size)}
            assert (await place.client("ann").post("/api/jobs", files=files)).status_code == status


async def test_a_recording_has_a_limit_of_its_own(tmp_path: Path) -> None:
    async with deployed(tmp_path, GRADING_AUDIO_BYTES_MAX="2000") as place:
        client = place.client("ann", "learner")
        for body in (b"x" * 2_001, endless(2_001)):
            answer = await client.post("/api/recordings", content=body)
            assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")
        assert (await client.post("/api/recordings", content=b"no sound")).json()["code"] == "AUDIO_UNDECODABLE"


async def test_every_kind_of_answer_has_the_safe_headers(place: Deployment) -> None:
    job = await place.conversion("ann")
    anonymous, ann = place.client(), place.client("ann", "learner")
    answers = {
        "page": await anonymous.get("/"),
        "asset": await anonymous.get("/static/holdfast.css"),
        "redirect": await anonymous.get("/console"),
        "text": await anonymous.get("/metrics"),
        "yaml": await anonymous.get("/asyncapi.yaml"),
        "json": await ann.get("/api/jobs"),
        "stream": await ann.get(f"/api/jobs/{job['id']}/events"),
        "created": await ann.post("/api/tickets"),
        "no content": await ann.post("/api/session"),
        "unauthenticated": await anonymous.get("/api/jobs"),
        "no such route": await anonymous.get("/nope"),
        "method": await anonymous.delete("/healthz"),
        "validation": await ann.get("/api/jobs?limit=x"),
        "NUL": await ann.get("/api/jobs?cursor=%00"),
        "too large": await ann.post("/api/submissions", content=b" " * (BODY_BYTES_MAX + 1)),
    }
    bare = {
        kind: sorted(name for name, value in SECURE_HEADERS.items() if answer.headers.get(name) != value)
        for kind, answer in answers.items()
    }
    assert {kind: missing for kind, missing in bare.items() if missing} == {}
    assert [kind for kind, answer in answers.items() if "server" in answer.headers] == []
    asked = {kind: answer for kind, answer in answers.items() if "/api/" in str(answer.url)}
    assert {answer.headers.get("cache-control") for answer in asked.values()} == {"no-store"}


async def test_a_failure_nobody_expected_tells_nothing_and_has_the_headers_too(
    place: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*given: Any, **named: Any) -> Any:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr("holdfast.http.health.readiness", broken)
    answer = await place.client().get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL")
    assert "hunter2" not in answer.text and all(answer.headers[name] == text for name, text in SECURE_HEADERS.items())


async def test_a_refused_upload_is_answered_as_soon_as_its_body_has_come(place: Deployment) -> None:
    """A client that is done sending waits for our answer; to ask it for more would be to wait for each other."""
    made = httpx.Request("POST", "http://holdfast/api/jobs", files={"file": ("a.pdf", b"no PDF at all")})
    token = token_for(place.settings, "ann", ["learner"])
    sent = [(name.lower(), value) for name, value in made.headers.raw]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": "/api/jobs",
        "raw_path": b"/api/jobs",
        "query_string": b"",
        "headers": [*sent, (b"authorization", f"Bearer {token}".encode())],
        "scheme": "http",
        "server": ("holdfast", 80),
        "client": ("127.0.0.1", 1),
    }
    bodies = iter([{"type": "http.request", "body": made.read(), "more_body": False}])
    answers: list[Any] = []

    async def receive() -> Any:
        body = next(bodies, None)
        assert body is not None, "it asked for more than there is"
        return body

    async def send(message: Any) -> None:
        answers.append(message)

    await place.web(scope, receive, send)
    assert answers[0]["status"] == 415
