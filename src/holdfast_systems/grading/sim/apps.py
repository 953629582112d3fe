"""The two production apps as the simulator runs them: real handlers, stages, consumers and steps; only the sockets are
not there. Models answer by an HTTP transport over the seed's provider stubs, in the shape of OpenAI's API, so that the
production client reads every answer, good or bad. Declared once; each request finds its seed's world by `here()`.
"""

from __future__ import annotations

import io
import json
import re
import wave
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Protocol, cast

import httpx

from holdfast import App, CallError
from holdfast.providers.openai import OpenAIClient
from holdfast.providers.outbound import Fetched, OutboundPolicy
from holdfast.settings import read
from holdfast_proof.provider_stub import Dedup, ProviderStub
from holdfast_proof.world import CANARY, here
from holdfast_systems.grading.audio import SAMPLE_RATE
from holdfast_systems.grading.delivery import SpokenDelivery
from holdfast_systems.grading.grade import CRITERIA, Criterion, Grade, TaskType, grade_of
from holdfast_systems.grading.grading_service import engine_for, service_app
from holdfast_systems.grading.main_app import build_main
from holdfast_systems.grading.settings import ServiceSettings

STUBS = {"llm": Dedup.NEITHER, "stt": Dedup.NEITHER, "files": Dedup.NEITHER}
LLM_RUNS = 2
HELD_EVERY_S = 40.0
WORK = re.compile(rb"work-[0-9]+-[0-9a-z]+")
NOISE = "noise"
ENV = {
    "OPENAI_BASE_URL": "http://models.sim/v1",
    "OPENAI_API_KEY": CANARY,
    "LLM_RUNS": str(LLM_RUNS),
    # The model's calls are given up by our own clock, the transcriptions by the transport's.
    "LLM_TIMEOUT_SEC": "9",
    "STT_TIMEOUT_SEC": "20",
    "GRADING_RETRY_CAP_SEC": "60",
    "GRADING_BREAKER_WINDOW": "6",
    "GRADING_BREAKER_COOLDOWN_SEC": "15",
    "GRADING_BREAKER_TRIALS": "2",
    "TIMEOUT_CHECK_INTERVAL_MS": "30000",
}


class Models(Protocol):
    """What the providers of a seed need of its world."""

    providers: dict[str, ProviderStub]
    answers: Random
    malformed: float
    audio_folder: Path


def _here() -> Models:
    return cast(Models, here())


class SimServiceSettings(ServiceSettings):
    """The service's settings, with a folder for audio that belongs to the seed's process."""

    @property
    def audio_folder(self) -> Path:
        return _here().audio_folder


class StubbedModels(httpx.AsyncBaseTransport):
    """An endpoint with OpenAI's two routes. The stub says what goes wrong with a call; here is how that looks."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        name = "stt" if request.url.path.endswith("/transcriptions") else "llm"
        found = WORK.search(body)
        assert found is not None, "every piece of work carries its mark"
        work = found.group().decode()
        try:
            await _here().providers[name].send(work, name)
        except CallError as error:
            return _rejected(error)
        return _heard(work) if name == "stt" else _chat()


def _rejected(error: CallError) -> httpx.Response:
    failure = error.failure
    if failure.status is None:
        kind = httpx.ReadTimeout if failure.ambiguous else httpx.ConnectError
        raise kind(f"The key {CANARY} met a broken line.")
    headers = {}
    if failure.retry_after_ms is not None:
        headers["retry-after"] = str(-(-failure.retry_after_ms // 1_000))
    return httpx.Response(failure.status, headers=headers, json={"error": {"message": f"Not with {CANARY}."}})


def _heard(work: str) -> httpx.Response:
    world = _here()
    if world.answers.random() < world.malformed:
        return httpx.Response(200, content=world.answers.choice((b"<html>", b"[]", b'{"words": 3}')))
    words = " ".join(["then", "we", "went", "home"] * world.answers.choice((1, 5, 25)))
    return httpx.Response(200, json={"text": f"{work} {words}"})


def _chat() -> httpx.Response:
    world = _here()
    if world.answers.random() < world.malformed:
        return httpx.Response(200, content=world.answers.choice(MALFORMED)())
    return httpx.Response(200, content=_completion(_graded(world.answers)))


def _graded(dice: Random, **spoiled: Any) -> str:
    score = dice.choice((3.0, 5.5, 6.0, 8.0))
    scored = {"score": score, "feedback": "Say why."}
    return json.dumps({**dict.fromkeys(CRITERIA, scored), "offTopic": False, "suspectedInjection": False, **spoiled})


def _completion(content: str | None, reason: str = "stop", refusal: str | None = None) -> bytes:
    choice = {"finish_reason": reason, "message": {"content": content, "refusal": refusal}}
    usage = {"prompt_tokens": 400, "completion_tokens": 80}
    return json.dumps({"id": "chat-1", "model": "sim", "choices": [choice], "usage": usage}).encode()


# Each is a way in which real endpoints break their own format. The last two are refusals, which no retry fixes.
MALFORMED: tuple[Callable[[], bytes], ...] = (
    lambda: b"upstream connect error",
    lambda: b'{"choices": []}',
    lambda: _completion("no JSON at all"),
    lambda: _completion(_graded(_here().answers, grammar={"score": 11.0, "feedback": "Beyond the scale."})),
    lambda: _completion(_graded(_here().answers)[:40], "length"),
    lambda: _completion(None),
    lambda: _completion(None, refusal=f"I will not, {CANARY}."),
    lambda: _completion("", "content_filter"),
)


class Ruler:
    """The offline measurement beside a model's grade: as quick as it is blunt."""

    def grade_writing(self, text: str, task_type: TaskType, question: str | None = None) -> Grade:
        return _measured(len(text))

    def grade_speaking(
        self, transcript: str, duration_s: float, delivery: SpokenDelivery | None = None, question: str | None = None
    ) -> Grade:
        return _measured(len(transcript))


def _measured(length: int) -> Grade:
    score = min(8.0, 3.0 + length // 100)
    return grade_of({name: Criterion(score, "Measured.") for name in CRITERIA}, method="offline")


async def fetch_audio(url: str, policy: OutboundPolicy) -> Fetched:
    """A short recording with its work's mark behind it, or noise that no decoder takes."""
    found = WORK.search(url.encode())
    assert found is not None
    await _here().providers["files"].send(found.group().decode(), "files")
    content = (b"noise" * 40 if NOISE in url else recording()) + found.group()
    return Fetched(content, "audio/wav", url)


@cache
def recording() -> bytes:
    """A tenth of a second of silence."""
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(SAMPLE_RATE)
        written.writeframes(bytes(SAMPLE_RATE // 5))
    return file.getvalue()


def _service() -> App:
    settings = read(SimServiceSettings, ENV)
    http = httpx.AsyncClient(transport=StubbedModels(), trust_env=False)
    client = OpenAIClient(str(settings.openai_base_url), settings.openai_api_key, http=http, now_ms=lambda: 0)
    engine = replace(engine_for(settings), client=client, grader=Ruler(), fetch=fetch_audio)
    app = service_app(engine)
    # A second is nothing in production and a thousand wake-ups in a seed; the breakers' own bell rings at once anyway.
    app.steps = [replace(step, every_s=max(step.every_s, HELD_EVERY_S)) for step in app.steps]
    return app


MAIN = build_main(ENV)
SERVICE = _service()
