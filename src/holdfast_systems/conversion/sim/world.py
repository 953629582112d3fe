"""The conversion system under simulated faults: the production app, routes' functions, tables and files.

Workers convert through a gateway that is slow, busy, wrong and sometimes down for minutes; users upload over slow
connections, retry what failed, cancel what runs, fetch what is done; keepers probe, reap, expire and sweep. Processes
die and stall at any await, also between a file's write and its mark, and in the middle of a write.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.engines.run import Duties, run
from holdfast.errors import IdempotencyConflict, NotAllowed, StoreError, UsageError
from holdfast.http.problem import Problem
from holdfast.kit import Kernel, Registry
from holdfast.operator.finding import Violation
from holdfast_proof.chaos import FAULT_KINDS
from holdfast_proof.coverage import PROVIDER_FAULTS, Coverage
from holdfast_proof.history import RunHistory, Stall
from holdfast_proof.operator import Operator
from holdfast_proof.provider_stub import Dedup, ProviderFaults, ProviderStub
from holdfast_proof.world import Main, SimWorld
from holdfast_systems.conversion.accept import accept
from holdfast_systems.conversion.documents import KIND
from holdfast_systems.conversion.expiry import expire_once
from holdfast_systems.conversion.http import cancel_job, result_of_job, retry_job
from holdfast_systems.conversion.jobs import GATEWAY
from holdfast_systems.conversion.results import PARTIAL, in_thread
from holdfast_systems.conversion.sim.checks import Fetch, Retried, check_conversions, tally_of
from holdfast_systems.conversion.sim.gateway import SETTINGS, STUBS, app_of, gateways
from holdfast_systems.conversion.sim.users import UploadWish, draw_wishes, request_of, who

APPS = {name: app_of(gateway) for name, gateway in gateways().items()}
USERS_REST_AFTER_MS = 180_000
SWEEP_AFTER_MS = 300_000
AN_HOUR_LATER_S = 4_000.0
TRIES_MAX = 12
RETRIES_MAX = 2
TORN = 0.06
KILLED_AFTER_WRITE = 0.06
PAUSED = 0.2
PAUSES_MS = ((50, 10_000), (100_000, 200_000))  # a moment, and longer than any lease
WATCHED = {
    "document": ("INSERT ON conversion_documents", "new.id", "new.owner, new.created_at, new.source, new.webhook_url"),
    "outcome": (
        "UPDATE ON conversion_documents",
        "new.id",
        "old.outcome, new.outcome, new.attempts, new.source_gone, old.source_gone, new.result_sha256",
    ),
}
ELSEWHERE = ("intake.", "relay.", "submit.", "sweep.", "reconcile.", "replay.", "paid.")
COVERAGE = Coverage(
    # No messages, deadlines, lookups or paid answers here; jobs are submitted within the system's own transactions.
    failpoints=frozenset(name for name in Coverage().failpoints if not name.startswith(ELSEWHERE)),
    faults=(FAULT_KINDS | PROVIDER_FAULTS) - {"broker_restart"},
    edges=frozenset(
        {
            *("queued -> processing", "processing -> queued", "processing -> succeeded", "processing -> dead"),
            *("dead -> queued", "queued -> cancelled", "processing -> cancelled"),
        }
    ),
    seen=frozenset(
        {
            *("gateway http", "gateway grobid", "gate open", "gate closed", "probe sick", "probe well"),
            *("upload accepted", "upload conflict", "upload NOT_PDF", "upload TOO_LARGE"),
            *("retry taken", "retry NOT_ALLOWED", "retry EXPIRED", "death around a write", "webhook"),
            *("outcome complete", "outcome failed", "outcome cancelled", "outcome expired"),
            *("fetch complete", "fetch NOT_READY", "fetch EXPIRED"),
            *("convert held", "convert parked", "convert lost", "convert retried"),
        }
    ),
)


class ConversionWorld(SimWorld):
    """One seed of the conversion system."""

    system = "conversion"
    databases = {"main": [APPS["http"]]}  # noqa: RUF012
    stubs = STUBS
    watched = {"main": WATCHED}  # noqa: RUF012
    coverage = COVERAGE

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        dice = self.loop.stream("gateway kind")
        self.kind = dice.choice(("http", "http", "grobid"))
        self.registries = {"main": Registry([APPS[self.kind]])}
        self.advises_waits = dice.random() < 0.5
        self._rubbish = dice.choice((0.0, 0.0, 0.1))
        self.wishes = draw_wishes(self.loop.stream("wishes"), self.swarm.faults_s)
        self.made: dict[str, str] = {}
        self.probes: list[tuple[int, str, bool]] = []
        self.retries: list[Retried] = []
        self.fetches: list[Fetch] = []
        self.torn = 0
        self.swept = False
        self._later_s = 0.0
        self._clicks: dict[str, int] = {}
        self._person = Operator(self.dice, replays_max=0)
        self._disk = self.loop.stream("disk")
        self._threads = self.loop.run_in_executor
        self.loop.run_in_executor = self._in_a_thread  # type: ignore[method-assign]
        for folder in (SETTINGS.uploads, SETTINGS.results):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()

    def stub(self, name: str, dedup: Dedup) -> ProviderStub:
        stub = super().stub(name, dedup)
        stub.retention_ms = 86_400_000
        return stub

    def cast(self) -> None:
        if self.dice.random() < 0.25:
            for number in range(self.dice.randint(1, 2)):
                self.role(f"all-{number}", _duties(Duties(relay=False, consume=False, concurrency=2, grace_s=5)))
        else:
            work = Duties(relay=False, consume=False, keep=False, concurrency=2, grace_s=5)
            for number in range(self.dice.randint(1, 3)):
                self.role(f"worker-{number}", _duties(work))
            for number in range(self.dice.choice((1, 1, 2))):
                self.role(f"keeper-{number}", _duties(Duties(work=False, relay=False, consume=False)))
        self.role("web", self.web)
        self.role("users", self.users)
        self.role("janitor", self.janitor)
        if self.dice.random() < 0.6:
            self.loop.world.spawn(self._weather(), name="weather")

    def is_quiet(self) -> bool:
        return self.swept and self._is_over()

    def _is_over(self) -> bool:
        doubtful = "SELECT 1 FROM holdfast_effects WHERE status IN ('sending', 'unknown') LIMIT 1"
        return all(wish.answer for wish in self.wishes) and self.mostly_quiet() and not self.query(doubtful)

    def history(self) -> RunHistory:
        found = super().history()
        found.retried_by_owners = frozenset({KIND})
        return found

    def judge(self, history: RunHistory) -> list[Violation]:
        return list(check_conversions(self, history))

    def tally(self, history: RunHistory) -> Mapping[str, int]:
        return tally_of(self, history)

    # The gateway's days

    def answers_rubbish(self) -> bool:
        return not self.is_healing and self.dice.random() < self._rubbish

    async def _weather(self) -> None:
        """The gateway is down for a while, now and then."""
        usual = self.providers[GATEWAY].faults
        while not self.is_healing:
            await asyncio.sleep(self.dice.uniform(20, 200))
            if self.is_healing:
                return
            down = self.dice.choice((ProviderFaults(error_before=0.9), ProviderFaults(unreachable=0.9)))
            self.providers[GATEWAY].faults = down
            await asyncio.sleep(self.dice.uniform(30, 200))
            if not self.is_healing:
                self.providers[GATEWAY].faults = usual

    # The disk

    def file_clock_s(self) -> float:
        return (self.loop.epoch_ms + self.loop.now_ms) / 1_000 + self._later_s

    def _in_a_thread(self, executor: object, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        if _work_of(func)[0] == "_save" and self.chaos.on and self._disk.random() < PAUSED:
            # What was proved before this write may not be true any more when it happens.
            host, pause_ms = self.loop.current, self._disk.randint(*self._disk.choice(PAUSES_MS))
            self.chaos.stalls.append(Stall(host.label, self.loop.now_ms, self.loop.now_ms + pause_ms))
            host.stall(pause_ms)
        return self._threads(executor, partial(self._on_disk, func, *args))

    def _on_disk(self, func: Callable[..., Any], *args: Any) -> Any:
        """Run file work with the simulation's time on its files; a process may die in its middle or right after."""
        name, given = _work_of(func)
        if name == "_save" and self.chaos.on and self._disk.random() < TORN:
            path, xml = given[:2]
            (path.parent / f".{path.stem}.torn{PARTIAL}").write_bytes(xml[: len(xml) // 2])
            return self._die_on_disk()
        try:
            return func(*args)
        finally:
            self._stamp()
            if name in ("_save", "keep") and self.chaos.on and self._disk.random() < KILLED_AFTER_WRITE:
                self._die_on_disk()

    def _die_on_disk(self) -> None:
        self.torn += 1
        self._stamp()
        if self.loop.current is not self.loop.world:
            self.loop.current.kill()

    def _stamp(self) -> None:
        """Files that were just written have the real time on them; give them the simulation's."""
        now_s = (self.loop.epoch_ms + self.loop.now_ms) / 1_000
        for folder in (SETTINGS.uploads, SETTINGS.results):
            for entry in os.scandir(folder):
                with suppress(FileNotFoundError):
                    if entry.stat().st_mtime > now_s + 86_400:
                        os.utime(entry.path, (now_s, now_s))

    # The users

    async def web(self, kernel: Kernel, stop: asyncio.Event) -> None:
        """Take the uploads that are due; a user tries again until there is an answer."""
        while not stop.is_set():
            due = [wish for wish in self.wishes if wish.answer is None and wish.at_ms <= self.loop.now_ms]
            if due:
                await asyncio.gather(*[self._upload(kernel, wish) for wish in due])
            upcoming = [wish.at_ms for wish in self.wishes if wish.answer is None]
            wait_ms = max(1_000, min(upcoming, default=self.loop.now_ms + 600_000) - self.loop.now_ms)
            await asyncio.sleep(wait_ms / 1_000)

    async def _upload(self, kernel: Kernel, wish: UploadWish) -> None:
        """What the route does."""
        wish.tries += 1
        try:
            answered = await accept(kernel, SETTINGS, request_of(wish), who(wish.owner), wish.key)
        except Problem as problem:
            if problem.status == 429 and wish.tries < TRIES_MAX:
                wish.at_ms = self.loop.now_ms + 1_000 * int((problem.headers or {})["Retry-After"])
                return
            wish.answer = problem.code
        except IdempotencyConflict:
            wish.answer = "conflict"
        except StoreError:
            wish.at_ms = self.loop.now_ms + self.dice.randint(200, 5_000)
        else:
            wish.answer, wish.job = "accepted", _job_in(bytes(answered.body))

    async def users(self, kernel: Kernel, stop: asyncio.Event) -> None:
        """Retry, cancel and fetch, in the middle of everything."""
        while not stop.is_set():
            await asyncio.sleep(self.dice.uniform(3, 25))
            if self.healed_ms is not None and self.loop.now_ms > self.healed_ms + USERS_REST_AFTER_MS:
                await asyncio.sleep(600)
                continue
            rows = self.query(
                "SELECT d.id, d.owner, j.state FROM conversion_documents AS d JOIN holdfast_jobs AS j ON j.id = d.id "
                "ORDER BY d.id"
            )
            with suppress(StoreError, UsageError, Problem):
                for job, owner, state in rows:
                    await self._act(kernel, job, owner, state)
                await self._help_webhooks(kernel)

    async def _act(self, kernel: Kernel, job: str, owner: str, state: str) -> None:
        drawn = self.dice.random()
        if state == "dead" and drawn < 0.35 and self._clicks.get(job, 0) < RETRIES_MAX:
            self._clicks[job] = self._clicks.get(job, 0) + 1
            clicks = [self._retry(kernel, job, owner) for _ in range(self.dice.choice((1, 1, 2)))]
            await asyncio.gather(*clicks)
        elif state in ("queued", "processing") and drawn < 0.03:
            with suppress(NotAllowed):
                await cancel_job(kernel, job, who(owner))
        elif drawn < 0.3:
            await self._fetch(kernel, job, owner)

    async def _retry(self, kernel: Kernel, job: str, owner: str) -> None:
        try:
            shown = await retry_job(kernel, SETTINGS, job, who(owner))
        except (Problem, NotAllowed) as error:
            self.retries.append(Retried(self.loop.now_ms, job, getattr(error, "code", "NOT_ALLOWED"), -1))
        else:
            self.retries.append(Retried(self.loop.now_ms, job, shown["status"], shown["attemptCount"]))

    async def _fetch(self, kernel: Kernel, job: str, owner: str) -> None:
        asked_ms = self.loop.now_ms
        try:
            response = await result_of_job(kernel, SETTINGS, job, who(owner))
        except Problem as problem:
            self.fetches.append(Fetch(asked_ms, self.loop.now_ms, job, problem.code, None))
        else:
            with suppress(FileNotFoundError):  # it is opened only now: a sweep may have been quicker
                content = await in_thread(Path(response.path).read_bytes)
                self.fetches.append(Fetch(asked_ms, self.loop.now_ms, job, "complete", content))

    async def _help_webhooks(self, kernel: Kernel) -> None:
        """An operator answers truly what the receiver was sent."""
        rows = self.query("SELECT key, token, provider FROM holdfast_effects WHERE status = 'review' ORDER BY key")
        await self._person.answer_doubts(kernel, rows, self.done_by, None)

    # The end

    async def janitor(self, kernel: Kernel, stop: asyncio.Event) -> None:
        """When all is over, let an hour pass for the files and sweep once more."""
        while not stop.is_set():
            await asyncio.sleep(20)
            if self.swept or self.healed_ms is None or self.loop.now_ms < self.healed_ms + SWEEP_AFTER_MS:
                continue
            if self._is_over():
                self._later_s = AN_HOUR_LATER_S
                while await expire_once(kernel, SETTINGS, self.file_clock_s):
                    pass
                self.swept = True


def _work_of(func: Callable[..., Any]) -> tuple[str, tuple[Any, ...]]:
    """What `asyncio.to_thread` was asked to run, and with what."""
    work, *given = getattr(func, "args", (None,))
    return getattr(work, "__name__", ""), tuple(given)


def _job_in(body: bytes) -> str:
    return str(json.loads(body)["id"])


def _duties(duties: Duties) -> Main:
    async def main(kernel: Kernel, stop: asyncio.Event) -> None:
        await run(kernel, duties, stop)

    return main
