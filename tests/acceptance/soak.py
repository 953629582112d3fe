"""A soak from outside: the grading system as real processes, its databases and broker behind proxies, everybody hurt.

Nothing of the code under test is asked for the verdict: what is counted are HTTP answers, the model's own list of
calls, rows of the two services, and how long a process lived after SIGTERM.
"""

from __future__ import annotations

import asyncio
import random
import signal
import threading
import time
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from holdfast.http.auth import token_for
from holdfast.settings import Settings
from tests.acceptance.grading_site import SECRET, GradingSite, writing
from tests.acceptance.process import Process, descendants, lives, until
from tests.acceptance.soak_provider import SPEECH_S, SoakModel
from tests.services.child import free_ports
from tests.services.postgres import PostgresServer
from tests.services.proxy import Proxy, behind
from tests.services.rabbitmq import RabbitMQServer

GRACE_S = 5.0
GONE_S = GRACE_S + 5.0
PACE = {
    "WORKER_CONCURRENCY": "4",
    "HOLDFAST_GRACE_SEC": f"{GRACE_S:g}",
    "LLM_TIMEOUT_SEC": "4",
    "STT_TIMEOUT_SEC": "4",
    "GRADING_AUDIO_PRIVATE_HOSTS": "127.0.0.1",
    "GRADING_BREAKER_COOLDOWN_SEC": "2",
    "HOLDFAST_LOG_LEVEL": "WARNING",
}


WEIGHTS = {"kill": 6, "stop": 3, "term": 2} | dict.fromkeys(("cut", "half-close", "delay", "hole", "refuse"), 2)
"""How often each fault comes, beside the others."""


@dataclass(frozen=True)
class Plan:
    """How long, how many, and how rude."""

    faults_s: float
    submissions: int
    mains: int = 1
    services: int = 2
    has_celery: bool = False
    pause_s: tuple[float, float] = (0.3, 1.2)
    heal_s: float = 120.0
    lease_s: float = 4.0
    restarts: bool = False
    """Whether PostgreSQL and RabbitMQ themselves are killed and started again too."""


@dataclass
class Role:
    """A process that a supervisor keeps running."""

    name: str
    argv: tuple[str, ...]
    env: dict[str, str]
    process: Process | None = None
    stopped_until: float = 0.0
    term_at: float | None = None


@dataclass
class Figures:
    """What was done, and what came of it."""

    faults: Counter[str] = field(default_factory=Counter)
    story: list[tuple[float, str]] = field(default_factory=list)
    """What was done to whom, and when, in seconds since the epoch."""
    terms_s: list[float] = field(default_factory=list)
    posts: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    accepted: dict[str, str] = field(default_factory=dict)
    """The id that the main app gave, by the key under which it was asked."""
    named: dict[str, str] = field(default_factory=dict)
    """The same by the name that the text says."""
    healed_s: float = 0.0

    def note(self, what: str) -> None:
        self.story.append((time.time(), what))


class Soak:
    def __init__(
        self, site: GradingSite, model: SoakModel, plan: Plan, seed: int, servers: tuple[PostgresServer, RabbitMQServer]
    ) -> None:
        self.site, self.model, self.plan = site, model, plan
        self.figures = Figures()
        self._dice = random.Random(seed)
        self._servers = servers
        self._orphans: list[tuple[float, list[int]]] = []
        self._proxies = {
            "main database": Proxy(servers[0].port),
            "service database": Proxy(servers[0].port),
            "broker": Proxy(servers[1].port),
        }
        self._trouble: dict[str, float] = {}
        self._ports = free_ports(plan.mains)
        self._roles = self._cast()
        model.on_429 = self._on_429

    def _cast(self) -> list[Role]:
        main, service, broker = self._proxies.values()
        shared = {
            **PACE,
            "WORKER_LEASE_TTL_SEC": f"{self.plan.lease_s:g}",
            "HOLDFAST_RENEW_SEC": f"{self.plan.lease_s / 5:g}",
            "MAIN_DATABASE_URL": behind(main, self.site.main_db),
            "GRADING_DATABASE_URL": behind(service, self.site.service_db),
            "RABBITMQ_URL": behind(broker, self.site.broker),
            "OPENAI_BASE_URL": self.model.url,
        }
        serve, work = ("serve", "--system", "grading-main"), ("worker", "--system", "grading-service")
        roles = [Role(f"main {port}", serve, {**shared, "HOLDFAST_PORT": str(port)}) for port in self._ports]
        roles += [Role(f"service {number}", work, shared) for number in range(self.plan.services)]
        if self.plan.has_celery:
            roles.append(Role("celery", work, {**shared, "HOLDFAST_ENGINE": "celery"}))
        return roles

    # The run

    async def run(self) -> Figures:
        for proxy in self._proxies.values():
            proxy.open()
        self._fill()
        until_s = time.monotonic() + self.plan.faults_s
        try:
            submitting = asyncio.ensure_future(self._submit_all())
            await self._hurt_until(until_s)
            await self._heal(submitting)
            await self._end_all()
        finally:
            for proxy in self._proxies.values():
                proxy.close()
        return self.figures

    async def _submit_all(self) -> None:
        pause_s = self.plan.faults_s / self.plan.submissions
        async with httpx.AsyncClient(timeout=5, verify=False) as client, asyncio.TaskGroup() as group:
            for number in range(self.plan.submissions):
                group.create_task(self._submit(client, f"n{number}"))
                await asyncio.sleep(pause_s)

    async def _submit(self, client: httpx.AsyncClient, name: str) -> None:
        """Post until it is accepted, by one key, at whichever main app; now and then once more."""
        bearer = token_for(Settings(jwt_secret=SECRET), f"user-{name}", ("learner",))
        key = str(uuid.uuid4())
        headers = {"Authorization": f"Bearer {bearer}", "Idempotency-Key": key}
        dice = random.Random(name)
        while True:
            url = f"http://127.0.0.1:{dice.choice(self._ports)}/api/submissions"
            try:
                answer = await client.post(url, json=self._submission(name), headers=headers)
            except httpx.HTTPError as error:
                self.figures.posts[type(error).__name__] += 1
                await asyncio.sleep(0.5)
                continue
            self.figures.posts[str(answer.status_code)] += 1
            if answer.status_code in (200, 201):
                before = self.figures.accepted.setdefault(key, answer.json()["id"])
                self.figures.named[name] = before
                if before != answer.json()["id"]:
                    self.figures.broken.append(f"{key} was given two ids")
                if dice.random() > 0.03:
                    return
            elif answer.status_code < 500 and answer.status_code != 429:
                self.figures.broken.append(f"a post was answered {answer.status_code}: {answer.text[:200]}")
                return
            await asyncio.sleep(0.5)

    def _submission(self, name: str) -> dict[str, Any]:
        if not is_spoken(name):
            return writing(name)
        audio = {"audioUrl": f"{self.model.url}/recordings/{name}.wav", "durationSeconds": SPEECH_S}
        return {"skill": "speaking", "payload": {**audio, "questionId": "q", "part": 1}}

    # The faults

    async def _hurt_until(self, until_s: float) -> None:
        kinds, weights = zip(*(WEIGHTS | {"restart": int(self.plan.restarts)}).items(), strict=True)
        while time.monotonic() < until_s:
            self._look()
            await self._hurt(self._dice.choices(kinds, weights)[0])
            self._fill()
            await asyncio.sleep(self._dice.uniform(*self.plan.pause_s))

    async def _hurt(self, fault: str) -> None:
        role = self._dice.choice(self._roles)
        name = self._dice.choice(sorted(self._proxies))
        self.figures.note(f"{fault}: {role.name if fault in ('kill', 'stop', 'term') else name}")
        if fault == "restart":
            await self._restart()
        elif fault in ("kill", "stop", "term"):
            if not self._is_well(role):
                return
            self._hurt_process(fault, role)
        elif fault in ("cut", "half-close"):
            getattr(self._proxies[name], fault.replace("-", "_"))()
        elif name not in self._trouble:
            self._begin_trouble(fault, name, self._dice.uniform(1, 6))
        else:
            return
        self.figures.faults[fault] += 1

    def _hurt_process(self, fault: str, role: Role) -> None:
        assert role.process is not None
        now = time.monotonic()
        if fault == "kill":
            self._orphans.append((now + 10, descendants(role.process.pid)))
            role.process.send(signal.SIGKILL)
        elif fault == "term":
            self._ask_to_end(role)
        else:
            role.stopped_until = now + self._dice.uniform(1, self.plan.lease_s * 1.7)
            role.process.send(signal.SIGSTOP)

    def _ask_to_end(self, role: Role) -> None:
        """SIGTERM, with a thread of its own that looks at the clock: the loop stands still while a server starts."""
        assert role.process is not None
        role.term_at = time.monotonic()
        role.process.send(signal.SIGTERM)
        threading.Thread(target=self._time_end, args=(role.process.pid, role.term_at), daemon=True).start()

    def _time_end(self, pid: int, since: float) -> None:
        while lives(pid):
            time.sleep(0.05)
        self.figures.terms_s.append(time.monotonic() - since)

    def _begin_trouble(self, fault: str, name: str, seconds: float) -> None:
        self._trouble[name] = time.monotonic() + seconds
        proxy = self._proxies[name]
        if fault == "delay":
            proxy.delay(self._dice.uniform(0.02, 0.2))
        else:
            proxy.swallow() if fault == "hole" else proxy.refuse()

    async def _restart(self) -> None:
        postgres, rabbitmq = self._servers
        if self._dice.random() < 0.6:
            await asyncio.to_thread(postgres.halt, immediate=self._dice.random() < 0.7)
            postgres.resume()  # on the main thread: a child ends with the thread that started it
        else:
            await asyncio.to_thread(rabbitmq.halt)
            rabbitmq._start_node()
            await asyncio.to_thread(rabbitmq.wait_ready)

    def _on_429(self) -> None:
        """In the model's own thread: half of the times the service's database goes away before the caller hears it."""
        if len(self.model.holds) % 2:
            self.figures.faults["database away at a 429"] += 1
            self.figures.note("refuse: service database, at a 429")
            self._trouble.setdefault("service database", time.monotonic() + 2)
            self._proxies["service database"].refuse()

    def _is_well(self, role: Role) -> bool:
        return role.process is not None and not role.stopped_until and role.term_at is None

    def _look(self) -> None:
        """End what is over, and note who ended."""
        now = time.monotonic()
        for name in [name for name, end in self._trouble.items() if end < now]:
            del self._trouble[name]
            self.figures.note(f"well again: {name}")
            self._proxies[name].open()
        for role in self._roles:
            if role.process is not None and role.stopped_until and role.stopped_until < now:
                role.stopped_until = 0.0
                self.figures.note(f"goes on: {role.name}")
                role.process.send(signal.SIGCONT)
            if role.process is None or role.term_at is None:
                continue
            if role.process.exit_code() is not None:
                role.term_at = None
            elif now - role.term_at > GONE_S + 5:
                self.figures.broken.append(f"{role.name} has not ended after SIGTERM:\n{role.process.tail()}")
                role.process.send(signal.SIGKILL)
        for due, pids in [each for each in self._orphans if each[0] < now]:
            self._orphans.remove((due, pids))
            self.figures.broken += [f"{pid} has outlived its parent" for pid in pids if lives(pid)]

    def _fill(self) -> None:
        """Who has ended is started again, as a supervisor would."""
        for role in self._roles:
            if role.process is None or role.process.exit_code() is not None:
                role.stopped_until, role.term_at = 0.0, None
                role.process = self.site._start(*role.argv, **role.env)

    # After the faults

    async def _heal(self, submitting: asyncio.Future[None]) -> None:
        """Nothing new goes wrong; what went wrong before must come right by itself."""
        began = time.monotonic()
        self.model.is_faulty = False
        self._trouble = dict.fromkeys(self._proxies, 0.0)
        for role in self._roles:
            role.stopped_until = min(role.stopped_until, 0.001)

        async def all_settled() -> bool:
            self._look()
            self._fill()
            return submitting.done() and await asyncio.to_thread(self._is_settled)

        try:
            await until(all_settled, "everything to end after the faults", self.plan.heal_s)
            await submitting
        except AssertionError as late:
            submitting.cancel()
            self.figures.broken.append(str(late))
        self.figures.healed_s = time.monotonic() - began

    def _is_settled(self) -> bool:
        live = self.site.in_main(
            "SELECT (SELECT COUNT(*) FROM submissions WHERE status IN ('PENDING', 'PROCESSING'))"
            " + (SELECT COUNT(*) FROM holdfast_outbox WHERE status = 'pending') AS live"
        )
        return not live[0]["live"]

    async def _end_all(self) -> None:
        for role in self._roles:
            self._ask_to_end(role)

        async def none_left() -> bool:
            self._look()
            return all(role.term_at is None for role in self._roles)

        with suppress(AssertionError):
            await until(none_left, "every process to end", GONE_S + 5)


def is_spoken(name: str) -> bool:
    """Every sixth: its words are paid for before its grade is."""
    return int(name[1:]) % 6 == 5
