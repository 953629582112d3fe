"""An OpenAI-compatible server that is not ours fails in the ways providers fail; our grading service bears it."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from tests.acceptance.grading_site import PATIENCE_S, GradingSite, MainApp
from tests.acceptance.process import until
from tests.interop.npm import HERE, Strangers
from tests.services import child

pytestmark = pytest.mark.slow

GRADED = ("COMPLETED", "REVIEW_REQUIRED")
AUDIO = HERE.parent / "systems" / "grading" / "data"


@dataclass
class Endpoint:
    """The fault server, by its own control routes."""

    url: str

    async def spoil(self, **rates: float) -> None:
        """What goes wrong with every call from now on; nothing, if nothing is named."""
        async with httpx.AsyncClient(verify=False) as client:
            answer = await client.post(f"{self.url}/__aimock/chaos", json=rates)
        assert answer.status_code == 200, answer.text

    async def journal(self) -> list[dict[str, Any]]:
        async with httpx.AsyncClient(verify=False) as client:
            calls: list[dict[str, Any]] = (await client.get(f"{self.url}/__aimock/journal")).json()
        return calls

    async def times(self, text: str) -> list[int]:
        """When a text was asked for, in milliseconds."""
        calls = [call for call in await self.journal() if call["path"] == "/v1/chat/completions"]
        return [call["timestamp"] for call in calls if f"#{text}" in call["body"]["messages"][-1]["content"]]


@pytest.fixture
async def endpoint(strangers: Strangers, tmp_path: Path) -> AsyncIterator[Endpoint]:
    port = child.free_ports(1)[0]
    program = strangers.modules / "@copilotkit" / "aimock" / "dist" / "cli.js"
    command = [strangers.program, program, "-p", str(port), "-f", HERE / "aimock.json", "--validate-on-load"]
    log = tmp_path / "aimock.log"
    process = child.start(command, log=log, env=strangers.env())
    try:
        child.wait_until(lambda: child.listens(port), process, log, timeout_s=60)
        yield Endpoint(f"http://127.0.0.1:{port}")
    finally:
        child.end(process, signal.SIGTERM)


@pytest.fixture
def audio_url() -> Iterator[str]:
    """Sixteen seconds of real speech, on a host of ours."""
    handler = type("Handler", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *given: handler(*given, directory=str(AUDIO)))
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/village.ogg"
    server.shutdown()
    server.server_close()


@asynccontextmanager
async def running(site: GradingSite, endpoint: Endpoint, **env: str) -> AsyncIterator[MainApp]:
    main = await site.main()
    allowed = {"OPENAI_BASE_URL": f"{endpoint.url}/v1", "GRADING_AUDIO_PRIVATE_HOSTS": "127.0.0.1"}
    site.service(**allowed, **env)
    yield main


@pytest.mark.spec("G6", "G15", "G17", "K4", "K5")
async def test_each_kind_of_failure_is_retried_waited_out_or_final_as_it_should_be(
    grading_site: GradingSite, endpoint: Endpoint
) -> None:
    async with running(grading_site, endpoint) as main:
        made = {text: await main.submit(text) for text in ("fine", "limited", "broken", "wrong", "quota", "down")}
        for text in ("fine", "limited", "broken", "wrong"):
            await main.until_status(made[text]["id"], *GRADED)
        for text in ("quota", "down"):
            assert (await main.until_status(made[text]["id"], "FAILED"))["failureReason"] == "LLM_FAIL"
    times = {text: await endpoint.times(text) for text in made}
    calls = {text: len(found) for text, found in times.items()}
    assert calls == {"fine": 1, "limited": 2, "broken": 3, "wrong": 2, "quota": 1, "down": 4}
    assert times["limited"][1] - times["limited"][0] >= 2_000, "Retry-After is respected"


@pytest.mark.spec("G6", "G15", "K5")
async def test_a_server_gone_mad_holds_gradings_up_and_loses_none(
    grading_site: GradingSite, endpoint: Endpoint
) -> None:
    """Malformed JSON, cut connections, answers that are too slow: each for a while, all through real HTTP."""
    patient = {"GRADING_RETRIES_MAX": "200", "GRADING_RETRY_CAP_SEC": "0.5", "GRADING_BREAKER_WINDOW": "1000"}
    faults = {"malformedRate": (1, "MALFORMED_ANSWER"), "disconnectRate": (1, "NETWORK_BROKEN")}
    faults["latencyMs"] = (3_000, "NETWORK_TIMEOUT")
    async with running(grading_site, endpoint, LLM_TIMEOUT_SEC="1", **patient) as main:
        await endpoint.spoil(malformedRate=1)
        made = [await main.submit(f"mad{number}") for number in range(3)]
        for fault, (rate, error_class) in faults.items():
            await endpoint.spoil(**{fault: rate})
            met = f"SELECT 1 FROM holdfast_calls WHERE error_class = '{error_class}'"
            await grading_site.until_in_service(met, bool, f"{error_class} to be met")
        await endpoint.spoil()
        for one in made:
            await main.until_status(one["id"], *GRADED)
    done = grading_site.in_service("SELECT status FROM grading_jobs")
    assert Counter(row["status"] for row in done) == {"completed": 3}


@pytest.mark.spec("G15", "G16", "G6")
async def test_speech_is_transcribed_and_graded_by_the_foreign_server(
    grading_site: GradingSite, endpoint: Endpoint, audio_url: str
) -> None:
    async with running(grading_site, endpoint) as main, main.client() as client:
        payload = {"audioUrl": audio_url, "durationSeconds": 16, "questionId": "q", "part": 2}
        key = {"Idempotency-Key": "0b9d1f5e-7c55-4f0e-9d3a-0a4d4b7c9a10"}
        answer = await client.post("/api/submissions", json={"skill": "speaking", "payload": payload}, headers=key)
        assert answer.status_code == 201, answer.text
        await main.until_status(answer.json()["id"], *GRADED)
    stored = grading_site.in_main("SELECT ai_result FROM submissions")[0]["ai_result"]
    assert re.search("small village near the sea", stored)
    asked = Counter(call["path"] for call in await endpoint.journal())
    assert asked == {"/v1/audio/transcriptions": 2, "/v1/chat/completions": 1}, "a stage that is done is not redone"
    await until(_audio_gone(grading_site), "the audio to be removed", PATIENCE_S)


def _audio_gone(site: GradingSite) -> Any:
    async def gone() -> bool:
        return not list((site.folder / "grading-audio").glob("*"))

    return gone
