"""Two kernels on two real PostgreSQL sessions, whose every statement waits for its turn; see interleave.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from holdfast import App, Context, Job, Provider, Wait, stage
from holdfast.core.job import Claimed
from holdfast.engines.worker import Worker
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.reap import reap_once, sweep_once
from holdfast.kernel.submit import submit
from holdfast.kernel.turn import turn
from holdfast.testing import HandClock
from holdfast.transports.memory import MemoryTransport
from holdfast.transports.seam import Message, Queue
from tests.acceptance.deployment import rows
from tests.acceptance.interleave import GatedStore, Party, Watcher, again, orders, play
from tests.acceptance.verify import histories

NEWS = Queue("news", sink=True)
TABLES = ("jobs", "job_events", "results", "outbox", "inbox", "effects", "dead_letters", "calls", "breakers", "audit")
ORDERS_MIN = 6


class Sent:
    """What was sent to a provider with a lookup, and how often."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    async def send(self, token: str) -> str:
        self.tokens.append(token)
        return f"mail-{len(self.tokens)}"

    async def find(self, token: str) -> str | None:
        return f"mail-{self.tokens.index(token) + 1}" if token in self.tokens else None


class Confirmed(MemoryTransport):
    """Remembers every message in the order of its confirm."""

    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self.log = log

    async def publish(self, message: Message) -> None:
        await super().publish(message)
        self.log.append(message.id)


def made(sent: Sent) -> App:
    app = App("pairs", queues=[NEWS])
    mail = Provider("mail", effects="lookup", timeout_s=0.001, late_bound_s=0.001, lookup=sent.find)
    app.provider(mail)

    @app.job()
    class Plain(Job[int]):
        @stage()
        async def work(self, ctx: Context, number: int) -> int:
            return number

    @app.job()
    class Waits(Job[int]):
        @stage()
        async def ask(self, ctx: Context, number: int) -> Wait | str:
            return Wait(f"answer:{number}", within_s=10)

    return app


@dataclass
class Pairs:
    """Two kernels on two sessions, and one that nobody gates, for the test."""

    left: Kernel
    right: Kernel
    free: Kernel
    watcher: Watcher
    sent: Sent
    clocks: list[HandClock]
    published: list[str]
    played: int = field(default=0)

    def kind(self, name: str) -> type[Job[Any]]:
        return type(self.free.registry.kind(f"pairs.{name}").instance)

    def advance(self, seconds: float) -> None:
        for clock in self.clocks:
            clock.advance(seconds)

    async def leased(self, **options: Any) -> Claimed:
        """A job in the hands of a worker."""
        await submit(self.free, self.kind("plain"), 7, **options)
        taken, _ = await turn(self.free, "w1", ["pairs"], [], 10)
        return taken[0].job

    async def in_every_order(
        self,
        seed: Callable[[], Awaitable[Any]],
        left: Callable[[Kernel, Any], Awaitable[Any]],
        right: Callable[[Kernel, Any], Awaitable[Any]],
        check: Callable[[Any, Any, Any], Awaitable[None]],
        gates: frozenset[str] | None = None,
        counts: tuple[int, int] | None = None,
    ) -> None:
        """Count each one's steps when it goes first, then play every merge of them, each on a fresh seed."""
        if counts is None:
            first = await self._play(seed, left, right, check, gates, "L" * 99)
            second = await self._play(seed, left, right, check, gates, "R" * 99)
            counts = len(first[0]), len(second[1])
        for order in orders(*counts):
            try:
                await self._play(seed, left, right, check, gates, order)
            except Exception as error:
                raise AssertionError(f"in the order {order}: {error}") from error
            self.played += 1
        assert self.played >= ORDERS_MIN, "hardly any order was played"

    async def _play(
        self, seed: Any, left: Any, right: Any, check: Any, gates: frozenset[str] | None, order: str
    ) -> tuple[list[str], list[str]]:
        await self._empty()
        given = await seed()
        parties = []
        for kernel in (self.left, self.right):
            assert isinstance(kernel.store, GatedStore)
            kernel.store.party = Party(gates)
            parties.append(kernel.store.party)
        works = [again(lambda: left(self.left, given)), again(lambda: right(self.right, given))]
        await play(parties[0], parties[1], works, order, self.watcher)
        await check(given, parties[0].outcome, parties[1].outcome)
        await self._finish()
        return parties[0].steps, parties[1].steps

    async def _empty(self) -> None:
        self.sent.tokens.clear()
        self.published.clear()
        await self.watcher.connection.execute(";".join(f"DELETE FROM holdfast_{table}" for table in TABLES))

    async def _finish(self) -> None:
        """Whatever happened, the work can be finished and its history is legal."""
        self.advance(3_600)
        for _ in range(4):
            await sweep_once(self.free)
            await reap_once(self.free)
            await Worker(self.free).run_until_idle()
            self.advance(3_600)
        found = await rows(self.free, "SELECT CAST(id AS TEXT) AS id, kind, state, attempt, epoch FROM holdfast_jobs")
        await histories(self.free, {job["id"]: job for job in found})

    async def job(self) -> dict[str, Any]:
        (found,) = await rows(
            self.free,
            "SELECT state, attempt, crashes, failures, epoch, lease_owner,"
            " (SELECT COUNT(*) FROM holdfast_dead_letters) AS letters,"
            " (SELECT COUNT(*) FROM holdfast_results WHERE is_late = 0) AS results,"
            " (SELECT COUNT(*) FROM holdfast_results WHERE is_late = 1) AS late FROM holdfast_jobs",
        )
        return found
