"""One seed's deployment: hosts that run the production kernel, a broker, providers, and everything that goes wrong.

A system brings its own world by subclassing `SimWorld`:

    class ShopWorld(World):
        system = "shop"
        databases = {"main": [shop_app], "stock": [stock_app]}         # apps by database; each has its own file
        stubs = {"llm": Dedup.NEITHER, "mail": Dedup.TOKEN}            # providers: ProviderStub by name

        def cast(self) -> None:                                        # who runs what; the dead are restarted
            self.role("main-1", lambda kernel, stop: run(kernel, Duties(), stop), database="main")
            self.role("client", self.client, database="main")          # submits; remembers in `self`, not in its host

        def is_quiet(self) -> bool: ...                                # nothing is left to do: the seed may end
        def judge(self, history: RunHistory) -> list[Violation]: ...  # its own predicates, besides the kernel's

It may also say:

        watched = {"main": {"consumed": ("INSERT ON main_consumed", "new.message_id", "new.seq")}}  # lines of its own
        coverage = Coverage(faults=..., seen=frozenset({"late callback"}))  # what many seeds must have seen
        def tally(self, history) -> dict[str, int]: ...                # counts for `coverage.seen`
        def stub(self, name, dedup) -> ProviderStub: ...               # other limits than the usual
        def visible(self, database) -> str: ...                        # what people see of it, for the secrecy check

and by naming it in an entry point of the group `holdfast.worlds`:

    shop = "shop.world:ShopWorld"

Handlers reach the present world by `here()` (their stubs by `here().providers["llm"]`), so that an app is declared once
and not once per seed. The history is one, of all databases: `history.of("consumed")` has the lines of a watched table,
`history.changes` every job's. A watched kind called "consumed" (its id a message's) proves that a message's effects are
committed once. `mostly_quiet` answers for the kernel's own tables and queues.

A role's main takes a kernel and a stop event; it must not remember anything outside `self` of the world, for its host
may die at any await.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from heapq import merge
from typing import Any, ClassVar

from holdfast.kernel.app import App
from holdfast.kernel.kernel import Kernel, Registry, Tuning
from holdfast.kernel.running.lockstep import Lockstep
from holdfast.operator.audit import audit
from holdfast.stores.clock import SeededDice
from holdfast_proof.broker import Broker, Faults
from holdfast_proof.chaos import Chaos, draw_swarm
from holdfast_proof.checker import Violation, check
from holdfast_proof.coverage import Coverage
from holdfast_proof.history import AcceptedJob, ProviderTale, RunHistory, Told, job_changes, read_lines, read_stories
from holdfast_proof.hosts import Host
from holdfast_proof.loop import SimLoop
from holdfast_proof.provider_stub import Dedup, Effect, ProviderFaults, ProviderStub
from holdfast_proof.steps import StepFailed
from holdfast_proof.store import Arena, StoreFaults
from holdfast_proof.transport import SimTransport

TUNING = Tuning(
    lease_s=90, renew_s=35, poll_s=60, reap_s=35, sweep_s=50, breaker_s=30, reconcile_s=75, reconcile_grace_s=60,
    relay_poll_s=60, relay_lease_s=25, relay_backoff_cap_s=10, prune_s=10_000, ramp_every_s=2, keeper_s=45,
    wake_s=25, schedule_s=25,
)  # fmt: skip
QUIET_AFTER_S_MAX = 1_200
LOOK_EVERY_S = 5.0
# What a simulated process logs is no news: its faults are made.
logging.getLogger("holdfast").addHandler(logging.NullHandler())
AWAY_AT_LIMIT = 0.3
CANARY = "sk-holdfast-canary-3f9a1b7c5d2e"

_ALIVE = "SELECT 1 FROM holdfast_jobs WHERE state IN ('queued', 'processing', 'waiting') LIMIT 1"
_UNSENT = "SELECT 1 FROM holdfast_outbox WHERE status = 'pending' LIMIT 1"

Main = Callable[[Kernel, asyncio.Event], Coroutine[Any, Any, None]]
WORLD: ContextVar[SimWorld] = ContextVar("holdfast_sim_world")


def here() -> SimWorld:
    """The world whose code is running."""
    return WORLD.get()


@dataclass(slots=True)
class Role:
    """A process that is started again whenever it ends."""

    name: str
    main: Main
    database: str
    skew_ms: int
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    host: Host | None = None


class SimWorld:
    """What every system's simulation shares. One object is one seed."""

    system: ClassVar[str]
    databases: ClassVar[Mapping[str, Sequence[App]]]
    stubs: ClassVar[Mapping[str, Dedup]] = {}
    tuning: ClassVar[Tuning] = TUNING
    watched: ClassVar[Mapping[str, Mapping[str, Told]]] = {}
    coverage: ClassVar[Coverage] = Coverage()

    def __init__(self, seed: int, arenas: Mapping[str, Arena], *, keeping: bool = False) -> None:
        WORLD.set(self)
        self.seed = seed
        self.arenas = arenas
        self.loop = SimLoop(seed, hashing=False, keeping=keeping)
        self.dice = self.loop.stream("world")
        self.swarm = draw_swarm(self.loop.stream("swarm"), tuple(sorted(self.stubs)))
        self.broker = Broker(self.loop, self.loop.stream("broker"))
        self.chaos = Chaos(self.loop, self.swarm, self.broker, self.loop.stream("chaos"))
        # Of a stream of its own: a seed without it is the seed it was.
        self.away = self.loop.stream("away")
        self.registries = {name: Registry(apps) for name, apps in self.databases.items()}
        self.providers = {name: self.stub(name, dedup) for name, dedup in self.stubs.items()}
        self.roles: list[Role] = []
        self.sinks: set[str] = set()
        self.accepted: list[AcceptedJob] = []
        self.answered: dict[str, int] = {}
        self.crashes: list[Violation] = []
        self.audited: list[Violation] = []
        self.healed_ms: int | None = None
        self.unquiet = False

    # What a system says

    def cast(self) -> None:
        """Name every process with `self.role`."""
        raise NotImplementedError

    def is_quiet(self) -> bool:
        """Whether nothing is left to do."""
        raise NotImplementedError

    def judge(self, history: RunHistory) -> list[Violation]:
        """The system's own predicates."""
        return []

    def tally(self, history: RunHistory) -> Mapping[str, int]:
        """What of the system's own was seen, and how often; `coverage.seen` names what must be."""
        return {}

    def stub(self, name: str, dedup: Dedup) -> ProviderStub:
        """One provider. A system whose provider has other limits says so here."""
        dice = self.loop.stream(name)
        patience_ms = dice.choice((8_000, 12_000))  # the client gives up before the kernel does, or after it
        return ProviderStub(self.loop, dice, name=name, dedup=dedup, timeout_ms=patience_ms, retention_ms=600_000)

    # What it may use

    def mostly_quiet(self) -> bool:
        """Whether no job lives, no message waits to go out, and the broker owes nobody anything."""
        for database in self.arenas:
            if self.query(_ALIVE, database=database) or self.query(_UNSENT, database=database):
                return False
        return not any(self.broker.held(queue) for queue in self.broker._queues if queue not in self.sinks)

    @property
    def is_healing(self) -> bool:
        return self.healed_ms is not None

    def role(self, name: str, main: Main, *, database: str = "main") -> None:
        skews = self.swarm.skews_ms
        self.roles.append(Role(name, main, database, skews[len(self.roles) % len(skews)]))

    def query(self, text: str, *values: object, database: str = "main") -> list[Any]:
        """What is committed now, seen from outside."""
        return self.arenas[database].keeper.execute(text, values).fetchall()

    def done_by(self, provider: str, token: str) -> Sequence[Effect]:
        """What a provider has really done under a token."""
        return self.providers[provider].effects_of(token)

    def is_unsent(self, token: str) -> None:
        """A person knows, and says now, that nothing was sent under this token."""
        self.answered[token] = self.loop.now_ms

    def kernel(self, host: Host, database: str) -> Kernel:
        """The production kernel of one process."""
        stream = self.loop.stream(f"store/{host.label}")
        return Kernel(
            store=self.arenas[database].open(host, stream),
            registry=self.registries[database],
            transport=SimTransport(self.broker, self.loop),
            dice=SeededDice(stream.getrandbits(64)),
            tuning=self.tuning,
            failpoint=self.chaos.failpoint,
            aside=Lockstep(),
        )

    # The seed

    def run(self) -> RunHistory:
        """Live through the faults and the healing; then tell what happened."""
        for arena in self.arenas.values():
            arena.reset()
        until_ms = (self.swarm.faults_s + QUIET_AFTER_S_MAX + 600) * 1_000
        try:
            self.loop.run(self._main(), until_ms=until_ms, steps_max=3_000_000)
        except StepFailed as error:
            for failed in error.failures:
                self.crashes.append(Violation("crash", f"A task failed and nobody looked: {failed}."))
        return self.history()

    def close(self) -> None:
        self.loop.close()

    async def _main(self) -> None:
        for registry in self.registries.values():
            for app in registry.apps:
                for queue in app.queues:
                    self.broker.declare(queue.name)
                    self.sinks |= {queue.name} if queue.sink else set()
        self.cast()
        self._make_trouble()
        for role in self.roles:
            self._start(role)
        await asyncio.sleep(self.swarm.faults_s)
        self._heal()
        for _ in range(int(QUIET_AFTER_S_MAX / LOOK_EVERY_S)):
            await asyncio.sleep(LOOK_EVERY_S)
            if self.is_quiet():
                await self._audit()
                if self.is_quiet():  # nobody replayed anything while it was audited
                    return
        self.unquiet = True

    async def _audit(self) -> None:
        """What `holdfast audit` would say now."""
        for database in self.arenas:
            host = self.loop.host(f"auditor-{database}")
            self.audited += await host.spawn(audit(self.kernel(host, database)))

    def _make_trouble(self) -> None:
        self.chaos.begin()
        self.broker.faults = self.swarm.broker
        for name, faults in self.swarm.providers.items():
            self.providers[name].faults = faults
        if self.away.random() < AWAY_AT_LIMIT:
            for stub in self.providers.values():
                stub.on_limited = self._lose_the_store
        swarm = self.swarm.store
        for arena in self.arenas.values():
            arena.faults = StoreFaults(swarm.busy, swarm.answer_lost, swarm.hint_lost)
            self.loop.world.spawn(self.chaos.trouble(arena.faults, self._terminate), name="trouble")

    def _lose_the_store(self) -> None:
        """The databases are away just when a Retry-After is to be written down."""
        if self.away.random() < 0.5:
            self.chaos.done["store_away_at_limit"] += 1
            for arena in self.arenas.values():
                arena.faults.down_until_ms = self.loop.now_ms + self.away.randint(500, 8_000)

    def _heal(self) -> None:
        """From here on nothing new goes wrong; what went wrong before must come right by itself."""
        self.healed_ms = self.loop.now_ms
        self.chaos.calm()
        self.broker.faults = Faults()
        for stub in self.providers.values():
            stub.faults = ProviderFaults()
            stub.on_limited = None
        for arena in self.arenas.values():
            arena.faults = StoreFaults()

    def _start(self, role: Role) -> None:
        role.stop = asyncio.Event()
        role.host = host = self.loop.host(role.name, skew_ms=role.skew_ms)
        host.at_death(lambda _: self.loop.world.after_ms(self.dice.randint(200, 12_000), self._start, role))
        host.spawn(self._live(role, host, role.stop), name=role.name)

    async def _live(self, role: Role, host: Host, stop: asyncio.Event) -> None:
        try:
            await role.main(self.kernel(host, role.database), stop)
        except Exception as error:
            if host.dead:
                return
            self.crashes.append(Violation("crash", f"The process {host.label} ended with {_leaf(error)!r}."))
        host.kill()

    def _terminate(self, host: Host) -> None:
        for role in self.roles:
            if role.host is host:
                role.stop.set()

    # Its history

    def history(self) -> RunHistory:
        """One history of all databases: what one writes, another may answer to."""
        arenas = self.arenas.values()
        told = [read_lines(arena.keeper) for arena in arenas]
        lines = told[0] if len(told) == 1 else list(merge(*told, key=lambda line: line.at_ms))
        held = {queue: self.broker.held(queue) for queue in sorted(self.broker._queues)}
        return RunHistory(
            lines=lines,
            changes=job_changes(lines),
            born={line.id: line for line in lines if line.what == "born"},
            stories={job: steps for arena in arenas for job, steps in read_stories(arena.keeper).items()},
            kinds={name: kind for registry in self.registries.values() for name, kind in registry.kinds.items()},
            providers={name: self._tale(stub) for name, stub in self.providers.items()},
            broker=self.broker.log,
            undelivered=frozenset(m for queue, messages in held.items() if queue not in self.sinks for m in messages),
            shelved=frozenset(m for queue in self.sinks for m in held[queue]),
            accepted=self.accepted,
            stalls=self.chaos.stalls,
            answered=self.answered,
            skew_ms=max(0, *self.swarm.skews_ms) - min(0, *self.swarm.skews_ms),
            epoch_ms=self.loop.epoch_ms,
            texts="\n".join(self.visible(database) for database in self.arenas),
            canary=CANARY,
            pauses_excused=False,
        )

    def visible(self, database: str) -> str:
        """Everything that people, logs and metrics can see: all tables but the payloads and results themselves. A
        system adds its own."""
        texts = self.query(
            "SELECT group_concat(data) FROM holdfast_job_events "
            "UNION ALL SELECT group_concat(error) FROM holdfast_jobs "
            "UNION ALL SELECT group_concat(last_error || last_stack || sanitized_context) FROM holdfast_dead_letters "
            "UNION ALL SELECT group_concat(data) FROM holdfast_audit "
            "UNION ALL SELECT group_concat(key || coalesce(error, '')) FROM holdfast_effects "
            "UNION ALL SELECT group_concat(payload || coalesce(error_message, '')) FROM holdfast_outbox",
            database=database,
        )
        return "\n".join(row[0] or "" for row in texts)

    def findings(self, history: RunHistory) -> list[Violation]:
        found = [*self.crashes, *check(history), *self.audited, *self.judge(history)]
        if self.unquiet:
            found.append(Violation("L1", f"The world was still busy {QUIET_AFTER_S_MAX} s after the last fault."))
        return found

    def _tale(self, stub: ProviderStub) -> ProviderTale:
        return ProviderTale(stub.name, stub.dedup, stub.log, stub.effects, stub.retention_ms)


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
