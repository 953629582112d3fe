"""One trace from the HTTP request through both outboxes, the transport, the worker and the provider."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.services.spans import keeping_spans

from holdfast.engines.run import Duties, prepare, run
from holdfast.http.app import create_app
from holdfast.http.auth import token_for
from holdfast.main import close_systems, open_systems
from holdfast.settings import Settings, read

TEXT = "Dear Ms Lan, thank you for your letter. I would be glad to visit the school in May. Best wishes, An"
FINAL = {"REVIEW_REQUIRED", "COMPLETED", "FAILED"}


@pytest.fixture(scope="module")
def spans() -> Iterator[InMemorySpanExporter]:
    with keeping_spans() as kept:
        yield kept


@pytest.mark.slow
@pytest.mark.spec("K17")
async def test_a_submission_is_one_trace_from_the_request_to_the_callback(
    spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    env = {"HOLDFAST_DATA_DIR": str(tmp_path)}
    settings = read(Settings, env)
    opened = await open_systems(settings, env, ["grading-main", "grading-service"])
    stop = asyncio.Event()
    for one in opened:
        await one.kernel.migrate()
        await prepare(one.kernel)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(create_app(settings, opened)), base_url="http://holdfast")
    client.headers["Authorization"] = f"Bearer {token_for(settings, 'an', ['learner'])}"
    async with asyncio.TaskGroup() as group:
        for one in opened:
            group.create_task(run(one.kernel, Duties(), stop))
        payload = {"text": TEXT, "taskType": "email", "questionId": "q"}
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        made = await client.post("/api/submissions", json={"skill": "writing", "payload": payload}, headers=headers)
        assert made.status_code == 201
        async with asyncio.timeout(60):
            listener = opened[0].kernel.store.listen("events")
            while (await client.get(f"/api/submissions/{made.json()['id']}")).json()["status"] not in FINAL:
                await listener.wait(1.0)
        stop.set()
    await client.aclose()
    await close_systems(opened)
    finished = spans.get_finished_spans()
    (request,) = [one for one in finished if one.name == "POST /api/submissions"]
    assert request.context is not None
    told = {one.name for one in finished if one.context and one.context.trace_id == request.context.trace_id}
    assert {
        "POST /api/submissions",
        "publish vstep.exchange/grading.request",
        "consume grading.request",
        "grading.writing grade",
        "call llm",
        "grading.writing succeeded",
        "publish vstep.exchange/grading.callback",
        "consume grading.callback",
    } <= told
