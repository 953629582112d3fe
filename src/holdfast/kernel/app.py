"""Declaring work: an `App` is a dictionary with manners. Importing one opens no socket, reads no environment and needs
no kernel; what is wrong with a declaration is said when it is made, in one sentence.

    app = App("digest")

    @app.job(deadline_s=900)
    class SendDigest(Job[Order]):
        @stage(retry=Retry(attempts=5), timeout_s=20)
        async def fetch(self, ctx: Context, order: Order) -> Page: ...

        @stage(provider=mail)
        async def notify(self, ctx: Context, order: Order, page: Page) -> None: ...

A stage's first argument after `ctx` is the job's input. Each further one is the result of an earlier stage: the one
of that name, or else the only one that returns that type.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from typing_extensions import TypeVar as TypeVarWithDefault

from holdfast.core.classify import Rules
from holdfast.core.failure import Failure, PublicFailure
from holdfast.core.job import Priority
from holdfast.core.provider import Provider
from holdfast.core.retry import Retry
from holdfast.core.turns import Limit
from holdfast.errors import BadDeclaration, InvalidInput
from holdfast.kernel.declare import declaring
from holdfast.kernel.declare.arguments import checks_types
from holdfast.kernel.declare.shared import SharedInstance
from holdfast.kernel.declare.unknown import PointsAtNames
from holdfast.kernel.kinds import JobKind, StageMark, Upgrade, job_kind
from holdfast.kernel.sealing import Sealer
from holdfast.stores.statement import Migration
from holdfast.transports.seam import Delivery, Queue

if TYPE_CHECKING:
    from holdfast.kernel.compose.job_tx import JobTx, Settled
    from holdfast.kernel.kernel import Kernel
    from holdfast.stores.seam import Tx

In = TypeVar("In")
Out = TypeVarWithDefault("Out", default=Any)
J = TypeVar("J", bound="type[Job[Any]]")
F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
S = TypeVar("S", bound=Callable[..., Any])

NAME = re.compile(r"^[a-z][a-z0-9_.-]{0,62}$")
NAME_RULE = "a small letter and up to 62 of a-z, 0-9, '_', '-' and '.'"
SCHEMA = re.compile(r"^[a-z][a-z0-9_]{0,62}$")


class Job(SharedInstance, Generic[In, Out]):
    """The base of every declared job: `Job[Order]`, or `Job[Order, Receipt]` where callers want its result typed. The
    first is the type of its input, the second of what its last stage returns."""

    __holdfast__: JobKind

    async def on_settled(self, tx: JobTx, change: Settled) -> None:
        """Write what belongs to a change of the job (it advances, is retried, ends) in the transaction of the change.
        If it raises, the change is undone and the job ends as a defect (`SETTLE_FAILED`); only SQL belongs here."""

    async def corrected(self, kernel: Kernel, tx: Tx, correction: Corrected[In]) -> None:
        """Follow a correction of a dead job's input in the app's own tables, or refuse it by raising `InvalidInput` or
        `NotAllowed`. Called in the transaction that writes the correction; also for a preview, which is rolled back."""

    async def taken_back(self, kernel: Kernel, tx: Tx, lost: TakenBack) -> bool:
        """An effect of a job that has ended was marked as sent, and its provider does not know it: its marks are
        cleared. True: this app sees to it that it happens. False, the default: a job that had succeeded becomes a dead
        letter, for a person to replay. Called in the transaction that clears the marks."""
        return False

    def public_failure(self, why: Failure, stage: str) -> PublicFailure:
        """What this kind's users are told of a stage's failure: the code of its log lines and metrics."""
        return PublicFailure(why.error_class)

    def log_fields(self, fields: dict[str, object]) -> dict[str, object]:
        """The fields of the log line about an attempt's end, by the names that this kind's readers know."""
        return fields


def kind_of(job: type[Job[Any]]) -> JobKind:
    """What is declared of a job class. A class that only inherits from a declared one is not declared itself."""
    kind = vars(job).get("__holdfast__") if isinstance(job, type) else None
    if isinstance(kind, JobKind):
        return kind
    raise BadDeclaration(_undeclared(job))


def _undeclared(job: object) -> str:
    if isinstance(job, Job):
        name = type(job).__name__
        return f"A job is enqueued by its class, not by an instance: write {name} instead of {name}()."
    if isinstance(job, type) and issubclass(job, Job):
        return f"The job class '{job.__name__}' is not declared; write @app.job() above it."
    thing = repr(job) if isinstance(job, str | type) else f"An instance of {type(job).__name__}"
    return f"{thing} is no job class; declare one with @app.job() above class YourJob(Job[YourInput])."


@dataclass(frozen=True, slots=True)
class Corrected(Generic[In]):
    """A correction of a dead job's input. `before` is None where the old input does not fit its type."""

    job_id: str
    before: In | None
    after: In
    now: int


@dataclass(frozen=True, slots=True)
class TakenBack:
    """An effect that did not happen although it was marked as sent, by its key, and the stage that planned it."""

    job_id: str
    effect: str
    stage: str


@dataclass(frozen=True, slots=True)
class Consumer:
    """Messages of a foreign queue, handed to a function that commits before it returns."""

    queue: Queue
    handle: Callable[[Kernel, Delivery], Awaitable[None]]
    prefetch: int = 20
    unsigned: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """Something to repeat: a function that says how much it did."""

    name: str
    run: Callable[[Kernel], Awaitable[int]]
    every_s: float
    channel: str | None = None
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Schedule:
    """A job to enqueue by the clock."""

    name: str
    cron: str
    job: type[Job[Any]]
    input: object
    timezone: str = "UTC"
    jitter_s: float = 0.0
    overlap: Literal["allow", "skip"] = "allow"


def stage(
    bare: None = None,
    /,
    *,
    retry: Retry | None = None,
    provider: Provider | None = None,
    timeout_s: float = 60.0,
    reads: Sequence[str] | None = None,
    retry_on: tuple[type[BaseException], ...] = (),
    never: tuple[type[BaseException], ...] = (),
    formerly: Sequence[str] = (),
    upgrade: Upgrade | None = None,
    cpu: bool = False,
) -> Callable[[S], S]:
    """Mark a method as a stage. Stages run in the order they are written, each with its own budget.

    `reads` names the fields of the input that the stage depends on, so that a correction of others does not make a
    replay run it again; unset, it may depend on any. Exceptions in `retry_on` are retried and those in `never` are not,
    whatever Holdfast would make of them; the class nearest to the exception's own decides. `never=(Exception,)` speaks
    of exceptions that nothing recognises.

    `formerly`: names it had; jobs that stand there run it, and results stored under them are its own. `upgrade` turns
    a stored result that no longer fits into one that does.

    An `async def` runs on the worker's event loop and must not block it. A plain `def` runs in a thread of the worker;
    with `cpu` in a process of its own, so that it may compute. Its `ctx` is a `SyncContext`."""
    declaring.refuse_bare("stage", bare)

    def mark(function: S) -> S:
        declaring.check_markable(function)
        declaring.refuse_second(function)
        named = None if reads is None else declaring.check_reads(reads)
        rules = Rules(retry_on, never)
        policy = Retry() if retry is None else retry
        names, bring = declaring.check_formerly(formerly), declaring.check_upgrade(upgrade)
        left = StageMark(policy, provider, timeout_s, named, rules, names, bring, cpu)
        function.__holdfast_stage__ = left  # type: ignore[attr-defined]
        return function

    return mark


def queue_name(app: str, queue: str) -> str:
    """A further queue of an app, as the database knows it."""
    if not NAME.match(queue):
        raise BadDeclaration(f"The queue '{queue}' of '{app}' must be {NAME_RULE}.")
    return f"{app}.{queue}"


@dataclass
class App(PointsAtNames):
    """A named set of jobs and the things they need. Its name is also the queue its jobs wait in.

    `never` is what every stage never retries, unless its own `retry_on` says otherwise. `schema` is the schema of
    PostgreSQL that Holdfast's tables are in; without it they are where the connection's search path says. `sealer`
    keeps the credentials of addresses; a kernel that was given keys lends them to it."""

    name: str
    migrations: Sequence[Migration] = ()
    queues: Sequence[Queue] = ()
    never: tuple[type[BaseException], ...] = ()
    schema: str | None = None
    sealer: Sealer = field(default_factory=Sealer)
    kinds: dict[str, JobKind] = field(default_factory=dict, init=False)
    consumers: list[Consumer] = field(default_factory=list, init=False)
    steps: list[Step] = field(default_factory=list, init=False)
    schedules: list[Schedule] = field(default_factory=list, init=False)
    providers: dict[str, Provider] = field(default_factory=dict, init=False)
    closers: list[Callable[[], Awaitable[None]]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.match(self.name):
            raise BadDeclaration(f"The app name '{self.name}' must be {NAME_RULE}.")
        if self.schema is not None and (not isinstance(self.schema, str) or not SCHEMA.match(self.schema)):
            raise BadDeclaration(f"The schema '{self.schema}' must be a small letter and up to 62 of a-z, 0-9 and '_'.")

    @checks_types
    def job(
        self,
        bare: None = None,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        deadline_s: float | None = None,
        priority: int = Priority.NORMAL,
        announce: bool = False,
        retries: int | None = None,
        version: int = 1,
        upgrade: Mapping[int, Upgrade] | None = None,
        fair_by: str | None = None,
        weights: Mapping[str, int] | None = None,
        limit: Limit | None = None,
        seals: Sequence[str] = (),
        search: Sequence[str] = (),
    ) -> Callable[[J], J]:
        """Declare a job class. `announce`: its events wake listeners (such as server-sent events) at once. `retries`:
        how many failures all its stages together may have before the next one ends it; each stage's own attempts
        still bound that stage. `queue`: jobs of this kind wait in a queue of that name beside the app's own, for
        workers that serve it.

        `version` counts the shapes its input has had; `upgrade[n]` turns the stored JSON of version n into that of the
        next. A worker claims only jobs whose version it can read: the others wait for one that can.

        `fair_by`: new jobs are started in turns between the values of this field of the input, or between owners
        (`"owner"`), so that nobody waits behind another's backlog; `weights` gives a value more than one job a turn.
        `limit`: how many jobs of this kind each value may have begun, over all processes; the others wait, parked.

        `seals` names fields of the input, by their paths, that hold addresses of users: their user info and query
        strings are kept apart from the job, sealed, and erased when it ends. The handler gets them whole.

        `search` names fields of the input, by their paths, that a person finds the job by, however many jobs there
        are: `input.order_id:7`."""
        declaring.refuse_bare("app.job", bare)

        def declare(cls: J) -> J:
            declaring.check_class(cls)
            turns = declaring.declared_turns(cls.__name__, fair_by, weights, limit)
            given = (deadline_s, priority, announce, retries, self.never, version, upgrade, seals, self.sealer, turns)
            kind = job_kind(self.name, cls, name, *given, search)
            if queue is not None:
                kind = replace(kind, queue=queue_name(self.name, queue))
            declaring.refuse_again(cls, kind.name, self.kinds)
            for declared in kind.stages:
                if declared.provider is not None:
                    self.provider(declared.provider)
            self.kinds[kind.name] = cls.__holdfast__ = replace(kind, schema=self.schema)
            return cls

        return declare

    def provider(self, provider: Provider) -> Provider:
        """Make a provider known to the app. Stages do this for the provider they name."""
        declaring.check_provider(f"The app '{self.name}'", provider)
        known = self.providers.setdefault(provider.name, provider)
        if known != provider:
            raise BadDeclaration(f"Two different providers are named '{provider.name}'.")
        return provider

    def consume(self, queue: Queue, *, prefetch: int = 20, unsigned: bool = False) -> Callable[[F], F]:
        """Hand every message of `queue` to the function. It must commit before it returns: then the ack goes out. Where
        keys are set, what nobody signed is logged and dropped; with `unsigned` it comes too, with `genuine` False."""

        def declare(function: F) -> F:
            declaring.check_consumer(queue, function)
            self.consumers.append(Consumer(queue, function, prefetch, unsigned))
            return function

        return declare

    def step(self, *, every_s: float, channel: str | None = None, everywhere: bool = False) -> Callable[[F], F]:
        """Repeat the function while a worker runs, at once when `channel` is hinted. One process does it for all, or
        each for itself if `everywhere`, as for files on its own disk."""
        declaring.check_every(every_s)

        def declare(function: F) -> F:
            declaring.check_repeated(f"A step of '{self.name}'", function, 1)
            self.steps.append(Step(f"{self.name}.{function.__name__}", function, every_s, channel, everywhere))
            return function

        return declare

    @checks_types
    def schedule(
        self,
        cron: str,
        job: type[Job[In]],
        input: In,
        *,
        name: str | None = None,
        timezone: str = "UTC",
        jitter_s: float = 0.0,
        overlap: Literal["allow", "skip"] = "allow",
    ) -> None:
        """Enqueue `job` by the clock: five cron fields, read in the time zone. Each tick is enqueued once, however many
        workers run, and is due up to `jitter_s` later. With `overlap="skip"` a tick is left out while the job of the
        one before has not ended."""
        from holdfast.kernel.upkeep.schedule import check_cron

        check_cron(cron, timezone, jitter_s, overlap)
        kind = kind_of(job)
        if kind.name not in self.kinds:
            raise BadDeclaration(f"'{kind.name}' is not a job of the app '{self.name}'; schedule it in its own app.")
        declaring.check_schedule_name(kind.name, name)
        schedule = Schedule(name or f"{self.name}.{job.__name__}", cron, job, input, timezone, float(jitter_s), overlap)
        if any(known.name == schedule.name for known in self.schedules):
            raise BadDeclaration(f"The schedule '{schedule.name}' is declared twice; give one of them another name=.")
        try:
            kind.dump_input(input)
        except InvalidInput as error:
            raise BadDeclaration(f"The schedule '{schedule.name}' cannot run: {error}") from None
        self.schedules.append(schedule)
