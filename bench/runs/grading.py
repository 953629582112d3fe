"""From a submission to its callback on an idle system: two services, two databases, RabbitMQ between them.

The model behind the grading service answers at once: what is left is the way there and back.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from dataclasses import replace

import asyncpg
import httpx

from bench.runs.kernels import kernel_over
from bench.stopwatch import Figures, amqp_url, folder, latency, postgres_url
from holdfast import App
from holdfast.engines.run import Duties, run
from holdfast.http.auth import Principal
from holdfast.kernel.kernel import Kernel
from holdfast.providers.openai import OpenAIClient
from holdfast.settings import read
from holdfast.transports.rabbitmq.transport import RabbitTransport
from holdfast_systems.grading import submissions
from holdfast_systems.grading.accepting import Accepting
from holdfast_systems.grading.grading_service import engine_for, service_app
from holdfast_systems.grading.main_app import build_main
from holdfast_systems.grading.main_http import NewSubmission, create_submission
from holdfast_systems.grading.settings import MainSettings, ServiceSettings

TEXT = "Cities grow because people look for work and company. " * 6
PAUSE_S = 0.05
SCORES = {name: {"score": 7.0, "feedback": "Good."} for name in ("taskAchievement", "coherence", "lexis", "grammar")}


async def callback(count: int) -> Figures:
    """Both services in one process, woken by commits and by the broker."""
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        main = await stack.enter_async_context(kernel_over([build_main({})]))
        service = await stack.enter_async_context(kernel_over([_service()], await _second_database()))
        running = []
        for kernel in (main, service):
            kernel.transport = RabbitTransport(amqp_url())
            running.append(asyncio.ensure_future(run(kernel, Duties(concurrency=10), stop)))
        await asyncio.sleep(2.0)
        waits = [await _round_trip(main) for _ in range(count + 5)][5:]
        stop.set()
        await asyncio.gather(*running)
        for kernel in (main, service):
            assert kernel.transport is not None
            await kernel.transport.close()
    return latency(waits) | {"max_ms": max(waits)}


async def _round_trip(main: Kernel) -> float:
    """Milliseconds from the call to the committed end of the submission."""
    listener = main.store.listen(submissions.CHANNEL)
    new = NewSubmission(skill="writing", payload={"text": TEXT, "taskType": "essay", "questionId": "q"})
    who = Principal("ann", frozenset({"learner"}))
    began = time.perf_counter()
    answer = await create_submission(main, MainSettings(), who, new, main.new_uuid4(), Accepting(main))
    made = json.loads(bytes(answer.body))
    while True:
        await listener.wait(10.0)
        async with main.store.reading() as tx:
            found = await submissions.show(tx, made["id"])
        if found is not None and found.state.status not in ("PENDING", "PROCESSING"):
            break
    listener.close()
    waited_ms = (time.perf_counter() - began) * 1_000
    await asyncio.sleep(PAUSE_S)
    return waited_ms


def _service() -> App:
    engine = engine_for(read(ServiceSettings, {"HOLDFAST_DATA_DIR": str(folder()), "LLM_RUNS": "1"}))
    content = json.dumps({**SCORES, "offTopic": False, "suspectedInjection": False})
    choice = {"message": {"content": content}, "finish_reason": "stop"}
    body = {"id": "c", "model": "m", "choices": [choice], "usage": {"prompt_tokens": 400, "completion_tokens": 100}}
    http = httpx.AsyncClient(transport=httpx.MockTransport(lambda request: httpx.Response(200, json=body)))
    return service_app(replace(engine, client=OpenAIClient("https://model.example/v1", http=http)))


async def _second_database() -> str:
    url = f"{postgres_url()}_service"
    connection = await asyncpg.connect(postgres_url())
    await connection.execute(f'CREATE DATABASE "{url.rpartition("/")[2]}" TEMPLATE template0')
    await connection.close()
    return url


TASKS = {"callback": callback}
