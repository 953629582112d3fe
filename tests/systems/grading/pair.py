"""Both grading services, each with a database of its own, on one in-process transport and one clock you turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.services.sqlite import open_migrated
from tests.systems.grading.callbacks_made import ESSAY, PlainGrader

from holdfast.kernel.relay import relay_once
from holdfast.providers.openai import OpenAIClient
from holdfast.providers.outbound import Fetched, OutboundPolicy
from holdfast.settings import read
from holdfast.stores.clock import Clock
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.seam import Store
from holdfast.stores.statement import Statement
from holdfast.tables import outbox
from holdfast.testing import HandClock, World
from holdfast.transports.memory import MemoryTransport
from holdfast.transports.seam import Delivery, Message
from holdfast_systems.grading import grading_service, main_app, submissions
from holdfast_systems.grading.contract import CALLBACK_QUEUE, DEAD_LETTER_QUEUE, EXCHANGE, REQUEST_QUEUE, Callback
from holdfast_systems.grading.grading_service import engine_for, service_app, tell_parked_once
from holdfast_systems.grading.main_app import build_main, submit
from holdfast_systems.grading.settings import MainSettings, ServiceSettings
from holdfast_systems.grading.stages import GradingEngine
from holdfast_systems.grading.submissions import StoredSubmission
from holdfast_systems.grading.sweep import sweep_timeouts

WRITING = {"text": ESSAY, "taskType": "essay", "questionId": "q-1"}
SPEAKING = {"audioUrl": "https://audio.example/a.ogg", "durationSeconds": 16, "questionId": "q-2", "part": 2}
OpenStore = Callable[[Clock], Store]


class AbandonedPostgres(PostgresStore):
    """PostgreSQL whose connections a test may cut."""

    def abandon(self) -> None:
        if self._pool is not None:
            self._pool.terminate()


async def here(work: Callable[[], Any]) -> Any:
    """Runs what would block where it stands: a test has one thread."""
    return work()


def made_engine(folder: Path, **env: str) -> GradingEngine:
    """An engine that grades everything alike, without threads or models."""
    made = engine_for(read(ServiceSettings, {"HOLDFAST_DATA_DIR": str(folder), **env}))
    return GradingEngine(made.settings, made.llm, made.stt, made.client, PlainGrader(), NoWords(), here, no_audio)


class NoWords:
    def transcribe(self, speech: object) -> str:
        return "I grew up in a small village near the sea with my grandparents"


async def no_audio(url: str, policy: OutboundPolicy) -> Fetched:
    raise AssertionError("this test fetches nothing")


async def village(url: str, policy: OutboundPolicy) -> Fetched:
    """Sixteen seconds of real speech, wherever it is fetched from."""
    return Fetched((Path(__file__).parent / "data" / "village.ogg").read_bytes(), "audio/ogg", url)


def endpoint(*, score: float = 7.0, runs: list[int] | None = None) -> OpenAIClient:
    """An OpenAI-compatible endpoint that grades everything alike; each chat is counted in `runs`."""
    scored = {"score": score, "feedback": "Good."}
    names = ("taskAchievement", "coherence", "lexis", "grammar")
    content = json.dumps({**dict.fromkeys(names, scored), "offTopic": False, "suspectedInjection": False})

    def answer(request: httpx.Request) -> httpx.Response:
        if runs is not None:
            runs.append(1)
        choice = {"message": {"content": content}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 400, "completion_tokens": 100}
        return httpx.Response(200, json={"id": "c", "model": "m", "choices": [choice], "usage": usage})

    return OpenAIClient("https://llm.example/v1", http=httpx.AsyncClient(transport=httpx.MockTransport(answer)))


class Pair:
    """The main app and the grading service. They share a transport and nothing else."""

    def __init__(self, main: World, service: World, engine: GradingEngine, clock: HandClock) -> None:
        self.main, self.service, self.engine, self.clock = main, service, engine, clock
        self.transport = MemoryTransport()
        self.sent: list[Message] = []
        self._consumers: list[asyncio.Task[None]] = []
        for world in (main, service):
            world.kernel.transport = self

    async def publish(self, message: Message) -> None:
        """Sees every message that crosses between the two."""
        await self.transport.publish(message)
        self.sent.append(message)

    async def reach(self) -> None:
        await self.transport.reach()

    def trouble(self) -> str | None:
        return self.transport.trouble()

    def stalled(self) -> Mapping[str, str]:
        return self.transport.stalled()

    async def declare(self, queues: Any) -> None:
        await self.transport.declare(queues)

    async def consume(self, queue: str, handler: Any, *, prefetch: int = 20) -> None:
        await self.transport.consume(queue, handler, prefetch=prefetch)

    async def open(self) -> None:
        for world in (self.main, self.service):
            await world.kernel.migrate()
            for app in world.kernel.registry.apps:
                await self.declare(app.queues)
                for one in app.consumers:
                    handle = self._handler(world, one.handle)
                    self._consumers.append(asyncio.ensure_future(self.consume(one.queue.name, handle)))
        await asyncio.sleep(0)

    @staticmethod
    def _handler(world: World, handle: Any) -> Any:
        return lambda delivery: handle(world.kernel, delivery)

    async def close(self) -> None:
        for task in self._consumers:
            task.cancel()
        await asyncio.gather(*self._consumers, return_exceptions=True)
        await self.main.close()
        await self.service.close()
        if self.engine.client is not None:
            await self.engine.client.aclose()

    async def submit(
        self, skill: str = "writing", payload: dict[str, Any] | None = None, user: str = "ann"
    ) -> StoredSubmission:
        async with self.main.kernel.store.transaction() as tx:
            settings = MainSettings()
            return await submit(self.main.kernel, tx, settings, user, skill, payload or WRITING)

    async def settle(self) -> None:
        """Let everything that is due at this moment happen."""
        before = None
        while before != (before := (len(self.sent), await self.pending(self.main), await self.pending(self.service))):
            await self.main._as_a_process(sweep_timeouts(self.main.kernel))
            await self.main._as_a_process(relay_once(self.main.kernel))
            await self.service.tick()
            await self.service._as_a_process(tell_parked_once(self.service.kernel, self.engine))

    async def settle_for(self, seconds: float, turn_s: float = 1.0) -> None:
        """Turn the clock in steps, with everything that falls due on the way."""
        for _ in range(int(seconds / turn_s)):
            await self.settle()
            self.clock.advance(turn_s)
        await self.settle()

    async def pending(self, world: World) -> int:
        async with world.kernel.store.reading() as tx:
            return int((await outbox.lag(tx)).pending)

    @staticmethod
    async def query(world: World, text: str) -> list[dict[str, Any]]:
        """What a plain query finds in one service's database."""
        async with world.kernel.store.reading() as tx:
            return [dict(row) for row in await tx.rows(Statement("query", text, text, ()))]

    async def show(self, submission_id: str) -> StoredSubmission:
        async with self.main.kernel.store.reading() as tx:
            stored = await submissions.show(tx, submission_id)
        assert stored is not None
        return stored

    async def events(self, submission_id: str) -> list[tuple[str, dict[str, Any]]]:
        async with self.main.kernel.store.reading() as tx:
            rows = await submissions.events_after(tx, submission_id, None)
        return [(row["kind"], json.loads(row["data"])) for row in rows]

    async def call_back(self, callback: Callback) -> None:
        """Deliver a callback as a foreign grading service would send it."""
        await self.deliver(CALLBACK_QUEUE, callback.body())

    async def deliver(self, queue: str, body: bytes, message_id: str | None = None) -> None:
        consumers = {
            one.queue.name: (world, one.handle)
            for world in (self.main, self.service)
            for app in world.kernel.registry.apps
            for one in app.consumers
        }
        world, handle = consumers[queue]
        await handle(world.kernel, Delivery(queue, body, message_id))

    def messages(self, queue: str) -> list[dict[str, Any]]:
        """The bodies that were published to a queue, in order."""
        return [json.loads(one.body) for one in self.sent if one.destination == f"{EXCHANGE}/{queue}"]

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self.messages(REQUEST_QUEUE)

    @property
    def callbacks(self) -> list[dict[str, Any]]:
        return self.messages(CALLBACK_QUEUE)

    @property
    def dead_letters(self) -> list[dict[str, Any]]:
        return self.messages(DEAD_LETTER_QUEUE)


@asynccontextmanager
async def opened(
    folder: Path, engine: GradingEngine, stores: tuple[OpenStore, OpenStore] | None = None
) -> AsyncIterator[Pair]:
    """A fresh pair; on SQLite unless told otherwise."""
    clock = HandClock()
    open_main, open_service = stores or (
        lambda clock: open_migrated(folder / "main.db", clock, main_app.MIGRATIONS),
        lambda clock: open_migrated(folder / "service.db", clock, grading_service.MIGRATIONS),
    )
    main = World([build_main({})], open_main, clock, 1)
    service = World([service_app(engine)], open_service, clock, 2)
    pair = Pair(main, service, engine, clock)
    await pair.open()
    try:
        yield pair
    finally:
        await pair.close()
