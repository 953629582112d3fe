"""Each run of a model is a call of its own: to the breaker, to the ledger of calls, and to a Retry-After."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from tests.systems.grading.pair import SPEAKING, endpoint, made_engine, opened, village

from holdfast.operator.spending import spending
from holdfast.providers.openai import OpenAIClient


@pytest.mark.spec("G6", "G7", "K4", "K9")
async def test_what_the_second_run_is_told_holds_for_every_call_after_it(tmp_path: Path) -> None:
    good, asked = endpoint(), 0

    async def answer(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        if asked == 2:
            return httpx.Response(429, headers={"retry-after": "60"}, json={})
        return await good._http.send(request)

    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    engine = replace(made_engine(tmp_path), client=OpenAIClient("https://llm.example/v1", http=http))
    async with opened(tmp_path, engine) as pair:
        one = await pair.submit()
        await pair.settle()
        assert (await pair.show(one.id)).state.status in ("COMPLETED", "REVIEW_REQUIRED"), "one run is enough"
        calls = await pair.query(pair.service, "SELECT outcome, status FROM holdfast_calls ORDER BY id")
        assert [(call["outcome"], call["status"]) for call in calls] == [("ok", None), ("failed", 429)]
        other = await pair.submit()
        await pair.settle_for(50)
        assert asked == 2 and (await pair.show(other.id)).state.status == "PROCESSING", "nobody calls before its time"
        await pair.settle_for(30)
        assert asked == 4 and (await pair.show(other.id)).state.status != "PROCESSING"


@pytest.mark.spec("G15", "K18")
async def test_a_transcription_is_paid_for_by_the_second_and_once(tmp_path: Path) -> None:
    graded = endpoint()

    async def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/audio/transcriptions"):
            return httpx.Response(200, json={"text": "I grew up in a small village near the sea."})
        return await graded._http.send(request)

    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    engine = replace(
        made_engine(tmp_path, STT_MICROS_PER_SECOND="100"),
        client=OpenAIClient("https://llm.example/v1", http=http),
        fetch=village,
    )
    async with opened(tmp_path, engine) as pair:
        pair.service.script(engine.llm, server_errors=1)
        await pair.submit("speaking", SPEAKING)
        await pair.settle_for(20)
        query = "SELECT cost_micros, units FROM holdfast_calls WHERE provider = 'stt'"
        assert [tuple(call.values()) for call in await pair.query(pair.service, query)] == [
            (1_600, '{"audio_seconds":16}')
        ]
        bill = {item["provider"]: item["cost_micros"] for item in await spending(pair.service.kernel, 0)}
        assert bill["stt"] == 1_600
