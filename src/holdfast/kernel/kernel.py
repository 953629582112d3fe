"""The bundle every verb works on: a store, a transport, a clock's dice, and the apps that are loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

from holdfast.core.aggregates import Aggregates
from holdfast.core.breaker import Gate
from holdfast.core.failure import Failure, PublicFailure
from holdfast.core.floor import FloorBook
from holdfast.core.provider import Provider
from holdfast.core.turns import TurnRules
from holdfast.errors import BadDeclaration, UnknownKind
from holdfast.kernel.app import App
from holdfast.kernel.compose.awaited import Awaited
from holdfast.kernel.compose.signing import CallbackSigner
from holdfast.kernel.failpoint import Failpoint, no_failpoint
from holdfast.kernel.gather import Gather
from holdfast.kernel.kinds import JobKind
from holdfast.kernel.observe.watch import LogWatch, Watch
from holdfast.kernel.running.aside import Aside
from holdfast.kernel.running.processes import Pools
from holdfast.kernel.sealing import Sealer
from holdfast.stores.clock import Dice, SystemDice, uuid4, uuid7
from holdfast.stores.migration import Patience
from holdfast.stores.seam import Store
from holdfast.stores.statement import Migration
from holdfast.tables import batch
from holdfast.tables.answers import RunId
from holdfast.tables.schema import KERNEL
from holdfast.tables.turns import Counts, WaitingLane
from holdfast.transports.seam import Transport

MAY_BE_ZERO = frozenset({"verify_batch"})


@dataclass(frozen=True, slots=True)
class Tuning:
    """The kernel's own numbers. Every one can be set; the defaults suit one machine."""

    lease_s: float = 60.0
    renew_s: float = 20.0
    poll_s: float = 1.0
    keeper_s: float = 15.0
    reap_s: float = 5.0
    sweep_s: float = 60.0
    breaker_s: float = 1.0
    reconcile_s: float = 30.0
    reconcile_grace_s: float = 60.0
    verify_s: float = 60.0
    verify_batch: int = 5
    relay_poll_s: float = 5.0
    relay_batch: int = 50
    relay_lease_s: float = 30.0
    relay_retries_max: int = 8
    relay_backoff_cap_s: float = 30.0
    outbox_stale_s: float = 60.0
    prune_s: float = 60.0
    wake_s: float = 1.0
    schedule_s: float = 1.0
    retention_s: float = 30 * 86_400.0
    inbox_retention_s: float = 90 * 86_400.0
    claim_batch: int = 400
    ramp_first: int = 10
    ramp_every_s: float = 1.0
    migrate_lock_s: float = 1.0
    migrate_wait_s: float = 300.0
    blocked_say_s: float = 1.0
    blocked_max_s: float = 600.0

    def problems(self) -> list[str]:
        """Every contradiction, in sentences."""
        sentences = []
        if self.lease_s < 3 * self.renew_s:
            sentences.append(
                f"The lease of {self.lease_s:g} s must be at least three times the renewal of {self.renew_s:g} s."
            )
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if not isfinite(value) or (value <= 0 and name not in MAY_BE_ZERO):
                sentences.append(f"The setting '{name}' is {value}; it must be positive and finite.")
        return sentences


class FairKinds(NamedTuple):
    """What is declared about turns: in which queues they are taken, by which rules, and, as one JSON object, the stages
    in which a job may be that waits for its turn, each with its provider."""

    queues: frozenset[str]
    rules: TurnRules
    stages: str


def fair_kinds(kinds: Iterable[JobKind]) -> FairKinds | None:
    """None where nobody takes turns."""
    fair = [(kind, kind.turns) for kind in kinds if kind.turns is not None]
    weights: dict[str, int] = {}
    for kind, turns in fair:
        for key, weight in turns.weights.items():
            if weights.setdefault(key, weight) != weight:
                raise BadDeclaration(f"The key '{key}' has two weights; '{kind.name}' must give it {weights[key]} too.")
    stages = {f"{kind.name} {name}": stage.plan.provider for kind, _ in fair for name, stage in kind.by_name.items()}
    rules = TurnRules(weights, {kind.name: turns.limit for kind, turns in fair if turns.limit is not None})
    return FairKinds(frozenset(kind.queue for kind, _ in fair), rules, batch.text(stages)) if fair else None


def takes_turns_key(kind: str) -> str:
    """What a worker whose code takes turns for a kind says beside what it may claim. No stage has such a key."""
    return f"turns {kind}"


class Registry:
    """Every loaded app's kinds, providers and queues, by name."""

    def __init__(self, apps: Iterable[App]) -> None:
        self.apps = list(apps)
        self.kinds: dict[str, JobKind] = {}
        self.providers: dict[str, Provider] = {}
        self.app_names: dict[str, str] = {kind: app.name for app in self.apps for kind in app.kinds}
        """Which app declares a job kind."""
        for app in self.apps:
            for name, kind in app.kinds.items():
                if self.kinds.setdefault(name, kind) is not kind:
                    raise BadDeclaration(f"Two loaded apps declare the job kind '{name}'.")
            for name, provider in app.providers.items():
                if self.providers.setdefault(name, provider) != provider:
                    raise BadDeclaration(f"Two loaded apps declare different providers named '{name}'.")
        declared = {key: triple for kind in self.kinds.values() for key, triple in kind.declares().items()}
        taking = {takes_turns_key(name): (name, "", 0) for name, kind in self.kinds.items() if kind.turns is not None}
        self.declared: str = batch.text(declared | taking)
        """What workers of this code may claim: kind, stage and version of input, as one JSON object; and for which
        kinds they take turns."""
        self.schema = _common_schema(self.apps)
        queues = {kind.queue for kind in self.kinds.values()} | {app.name for app in self.apps if app.kinds}
        self.queues: Sequence[str] = sorted(queues or {app.name for app in self.apps})
        self.fair = fair_kinds(self.kinds.values())

    def knows(self, kind: str, stage: str) -> bool:
        """Whether a loaded app declares this stage, by its name or one that it had."""
        return kind in self.kinds and stage in self.kinds[kind].by_name

    def public_failure(self, kind: str, why: Failure, stage: str) -> PublicFailure:
        """What the users of a kind are told of a failure; its class, where the kind is not loaded here."""
        if kind not in self.kinds:
            return PublicFailure(why.error_class)
        public: PublicFailure = self.kinds[kind].instance.public_failure(why, stage)
        return public

    def kind(self, name: str) -> JobKind:
        try:
            return self.kinds[name]
        except KeyError:
            raise UnknownKind(name, self.kinds) from None

    def provider(self, name: str) -> Provider:
        return self.providers.get(name) or Provider(name)


def _common_schema(apps: Sequence[App]) -> str | None:
    """The schema that the apps' tables are in: one kernel has one database."""
    schemas = {app.schema for app in apps}
    if len(schemas) > 1:
        names = ", ".join(f"'{app.name}' in {app.schema or 'no schema'}" for app in apps)
        raise BadDeclaration(f"Apps that are opened together must name one schema: {names}.")
    return schemas.pop() if schemas else None


def every_migration(registry: Registry) -> list[Migration]:
    """Every step that the kernel and these apps need."""
    steps: list[Migration] = [*KERNEL]
    for app in registry.apps:
        steps += [step for step in app.migrations if step not in steps]
    return steps


CallThrough = Callable[[Provider, Callable[[], Awaitable[Any]], str | None], Coroutine[Any, Any, Any]]
"""The provider, what calls it, and the key of the effect that the call brings about, if it does."""


async def call_directly(provider: Provider, run: Callable[[], Awaitable[Any]], effect: str | None) -> Any:
    """How production reaches a provider: by calling it. Tests and the simulator put their own way in between."""
    return await run()


@dataclass(slots=True)
class Kernel:
    """What the verbs of `kernel/` need. All state is in the store; the fields after `callbacks` are only what is on its
    way there."""

    store: Store
    registry: Registry
    transport: Transport | None = None
    dice: Dice = field(default_factory=SystemDice)
    tuning: Tuning = field(default_factory=Tuning)
    failpoint: Failpoint = no_failpoint
    call_through: CallThrough = call_directly
    watch: Watch = field(default_factory=LogWatch)
    auto_migrate: bool = True
    makes_files: bool = True
    aside: Aside = field(default_factory=Pools)
    callbacks: CallbackSigner = field(default_factory=CallbackSigner)
    sealer: Sealer = field(default_factory=Sealer)
    gathers: dict[Any, Gather[Any, Any]] = field(default_factory=dict, init=False, repr=False)
    duties: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    """What this process does for the apps, by name: `running`, or what it waits for."""
    unwritten: dict[RunId, asyncio.Task[None]] = field(default_factory=dict, init=False, repr=False)
    """Answers that were paid for, on their way to the store."""
    writing: set[asyncio.Task[None]] = field(default_factory=set, init=False, repr=False)
    unrecorded: list[Any] = field(default_factory=list, init=False, repr=False)
    """Records of calls that the store was away for."""
    asked: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    """When providers asked this process to be called again."""
    awaited: Awaited = field(default_factory=Awaited, init=False, repr=False)
    """The jobs whose end somebody waits for."""
    turn_after: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict, init=False, repr=False)
    """Whose turn was the last that this process gave, and what is left of it, by queue and priority."""
    hungry: dict[tuple[str, int], frozenset[str]] = field(default_factory=dict, init=False, repr=False)
    """Keys that used all of their share in the last turn, by queue and priority: a hint of who has more."""
    key_counts: Counts = field(default_factory=dict, init=False, repr=False)
    """What keys with a limit had begun when this process counted it last, under the lock of their queue."""
    waiting_lanes: dict[tuple[str, ...], Sequence[WaitingLane]] = field(default_factory=dict, init=False, repr=False)
    """Where the last turn over these queues came upon jobs that wait for their keys' turns: a hint."""
    gates: dict[str, Gate] = field(default_factory=dict, init=False, repr=False)
    """How this process saw providers' breakers last, for its log."""
    floors: FloorBook = field(default_factory=FloorBook, init=False, repr=False)
    """From where its scans begin."""
    aggregates: Aggregates = field(default_factory=Aggregates, init=False, repr=False)
    """How far messages of busy aggregates are published."""
    tick_at: int | None = field(default=None, init=False, repr=False)
    """When the next schedule was due at the last look: a hint of when to look again."""
    is_broker_away: bool = field(default=False, init=False, repr=False)
    """Whether the broker did not take what this process published last."""
    looking: set[asyncio.Task[None]] = field(default_factory=set, init=False, repr=False)
    queues_left: set[str] = field(default_factory=set, init=False, repr=False)
    """Queues of the loaded apps in which jobs stand and that their code does not name, as far as was looked."""
    is_away: bool = field(default=False, init=False, repr=False)
    """Whether its database gave no answer lately, in a process that serves several."""
    queues_looked_at: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        for app in self.registry.apps:
            app.sealer.keys = app.sealer.keys or self.sealer.keys

    def now(self) -> int:
        return self.store.now()

    def new_id(self) -> str:
        """An id that sorts by time."""
        return uuid7(self.store.now(), self.dice)

    def new_uuid4(self) -> str:
        return uuid4(self.dice)

    @property
    def queues(self) -> list[str]:
        """Every queue in which jobs of the loaded apps are known to stand; workers serve those that the code names."""
        return sorted({*self.registry.queues, *self.queues_left})

    @property
    def migrations(self) -> list[Migration]:
        """Every step that the kernel and the loaded apps need."""
        return every_migration(self.registry)

    async def migrate(self, report: Callable[[str], None] | None = None) -> list[str]:
        """Bring the database forward to what the kernel and every loaded app need. `report` hears, in a sentence, for
        whom it waits; without it a log line does."""
        tell = report or (lambda sentence: self.watch.log("migrate.waiting", detail=sentence))
        patience = Patience(self.tuning.migrate_lock_s, self.tuning.migrate_wait_s, tell)
        return await self.store.migrate(self.migrations, patience)
