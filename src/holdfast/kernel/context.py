"""What a handler may do besides computing: call providers, perform effects, emit messages, report progress.

Everything here that writes is guarded by the attempt's lease: a worker that lost it can write nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from holdfast.core.failure import Failure
from holdfast.core.family import Answered, Success
from holdfast.core.job import Claimed, State, budget_ms
from holdfast.core.provider import Lookup, Provider
from holdfast.errors import BadDeclaration, LeaseLost
from holdfast.kernel.app import Job, kind_of
from holdfast.kernel.call import call
from holdfast.kernel.compose.checkpoint import checkpoint
from holdfast.kernel.compose.children import gather, spawn
from holdfast.kernel.compose.foreign import ForeignTx
from holdfast.kernel.compose.own_rows import StageCommit, committing
from holdfast.kernel.compose.parking import Parking
from holdfast.kernel.compose.waiting import check_key, wait_for
from holdfast.kernel.declare.options import Options
from holdfast.kernel.effects import perform
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.kinds import JobKind, Stage
from holdfast.kernel.ledger.paid import Paid
from holdfast.kernel.observe.provider_status import Listening
from holdfast.kernel.observe.trace import trace_headers
from holdfast.kernel.record import Cost
from holdfast.kernel.running.asked import (
    check_call,
    check_expiry,
    check_function,
    check_lookup,
    check_message,
    json_text,
    missing,
    must_await,
    refuse_inside,
    refuse_wrong_calls,
)
from holdfast.stores.seam import Tx
from holdfast.tables import batch, events, jobs
from holdfast.tables.answers import KeptAnswer
from holdfast.tables.events import NewEvent
from holdfast.tables.outbox import NewMessage

T = TypeVar("T")
In = TypeVar("In")
C = TypeVar("C")
P = ParamSpec("P")
RECORDING_S = 1.0


@refuse_wrong_calls
class Context:
    """Handed to every handler: one attempt of one stage of one job."""

    __slots__ = (
        "_stage",
        "began",
        "events",
        "inside",
        "job",
        "kept",
        "kernel",
        "kind",
        "left_behind",
        "limit",
        "messages",
        "numbers",
        "paid",
        "parking",
        "promised",
        "provider_status",
        "written",
    )

    def __init__(self, kernel: Kernel, kind: JobKind, stage: Stage, job: Claimed, began: int) -> None:
        self.kernel = kernel
        self.kind = kind
        self.job = job
        self._stage = stage
        self.began = began
        self.messages: list[NewMessage] = []
        self.events: list[NewEvent] = []
        self.paid: Paid | None = None
        self.limit: asyncio.Timeout | None = None
        self.left_behind = False
        self.parking: Parking | None = None
        self.kept: dict[str, KeptAnswer] | None = None
        self.numbers: dict[str, int] = {}
        self.written: ForeignTx | None = None
        self.provider_status: int | None = None
        self.inside: asyncio.Task[Any] | None = None
        self.promised: list[tuple[str, Coroutine[Any, Any, Any]]] = []

    @property
    def job_id(self) -> str:
        return self.job.id

    @property
    def stage(self) -> str:
        return self.job.stage

    @property
    def attempt(self) -> int:
        """The attempt's number: rises with every claim. Never put it into an idempotency token."""
        return self.job.attempt

    @property
    def failures(self) -> int:
        """How many attempts of this stage have failed before this one."""
        return self.job.failures

    def now(self) -> int:
        """Milliseconds since the epoch, by the store's clock."""
        return self.kernel.now()

    def budget_s(self) -> float | None:
        """Seconds left until the job's deadline; None if it has none."""
        left = budget_ms(self.job.deadline_at, self.now())
        return None if left is None else left / 1_000

    @must_await
    async def call(
        self,
        run: Callable[[], Awaitable[T]],
        *,
        provider: Provider | None = None,
        timeout_s: float | None = None,
        cost: Callable[[T], Cost] | None = None,
    ) -> T:
        """Call a provider (the stage's own unless another is named).

        Behind its breaker and limits, within its timeout and the deadline; recorded with outcome, latency and cost. A
        held provider costs nothing: the job goes back to the queue."""
        check_function(run, "ctx.call(lambda: ...)", takes=0)
        check_call(provider, timeout_s, cost)
        target = self._provider(provider)
        limit_s = self._time_for(target, timeout_s)
        with Listening(self, target):
            return await call(self.kernel, target, run, job=self.job, timeout_s=limit_s, cost=cost)

    @must_await
    async def paid_call(
        self,
        run: Callable[[str], Awaitable[T]],
        *,
        answer: type[T],
        name: str = "",
        provider: Provider | None = None,
        timeout_s: float | None = None,
        cost: Callable[[T], Cost] | None = None,
    ) -> T:
        """Call a provider that charges for it, as `call` does, and pay for the answer once.

        `run` is given an idempotency key to put on the wire, the same for every attempt of this stage. The answer, of
        the type `answer`, is stored before it is returned; later attempts of the stage read it and call nobody. It is
        erased with the stage's result, and kept with a dead job. Calls are told apart by their order; give each a
        `name` if that may change."""
        check_function(run, "ctx.paid_call(lambda key: ...)", takes=1)
        check_call(provider, timeout_s, cost, name)
        target = self._provider(provider)
        if self.paid is None:
            self.paid = Paid(self.kernel, self.job)
        with Listening(self, target):
            return await self.paid.call(run, answer, name, target, self._time_for(target, timeout_s), cost)

    @must_await
    async def effect(
        self,
        key: str | tuple[object, ...],
        *,
        send: Callable[[str], Awaitable[str]],
        lookup: Lookup | None = None,
        provider: Provider | None = None,
    ) -> str:
        """Perform an external effect at most once for `key`, across attempts, crashes, workers, replays and jobs.

        The key is a name within the app: two jobs of an app that give the same key share one effect. `send` is given a
        token that is the same every time and returns the provider's id of what it did. Returns that id, also when an
        earlier attempt or another job did it."""
        check_function(send, "ctx.effect(key, send=lambda token: ...)", takes=1)
        if lookup is not None:
            check_function(lookup, "ctx.effect(key, send=..., lookup=lambda token: ...)", takes=1)
        check_call(provider, None, None)
        target = self._provider(provider)
        check_lookup(target, lookup)
        with Listening(self, target):
            limit_s = self._time_for(target, None)
            return await perform(self.kernel, self.job, target, key, send, lookup, timeout_s=limit_s)

    def emit(
        self,
        destination: str,
        body: object,
        *,
        type: str = "",
        aggregate_id: str | None = None,
        message_id: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> str:
        """Publish a message if and only if this attempt's result is accepted. Returns the message's id."""
        check_message(destination, {"type": type, "aggregate_id": aggregate_id, "message_id": message_id}, headers)
        identity = message_id or self.kernel.new_uuid4()
        text = json_text(f"The message to '{destination}'", body)
        sent = batch.text({**trace_headers(), **(headers or {})})
        self.messages.append((identity, aggregate_id or self.job.id, destination, type, text, sent))
        return identity

    @must_await
    async def progress(self, /, **data: object) -> None:
        """Tell listeners how far the work is, at once."""
        json_text("The progress", data)
        async with self.fenced() as tx:
            await events.append(tx, [(self.job.id, self.job.attempt, "progress", batch.text(data))], self.now())
            await tx.notify("events")

    @must_await
    async def note_progress(self, /, tx: Tx, **data: object) -> bool:
        """Note progress inside an open `transaction`, once in a stage and epoch; False if an earlier attempt has."""
        text = batch.text({"stage": self.stage, "epoch": self.job.epoch, **data})
        return await events.append_once(tx, self.job.id, self.job.attempt, "progress", text, self.now())

    @asynccontextmanager
    async def fenced(self) -> AsyncIterator[Tx]:
        """A transaction that holds the job's row and proves the lease: raises `LeaseLost` if it is gone."""
        async with self.kernel.store.transaction() as tx:
            locked = await jobs.lock_one(tx, self.job.id)
            if locked is None or (locked[0].attempt, locked[0].state) != (self.job.attempt, State.PROCESSING):
                raise LeaseLost(f"Job {self.job.id} is no longer held by attempt {self.job.attempt}.")
            yield tx

    @overload
    async def checkpoint(self, /, name: str, find: Callable[[], Awaitable[T]], *, returns: object = Any) -> T: ...
    @overload
    async def checkpoint(self, /, name: str, find: Callable[[], T], *, returns: object = Any) -> T: ...
    @must_await
    async def checkpoint(self, name: str, find: Callable[[], object], *, returns: object = Any) -> object:
        """What `find` returned (a plain or an async function), stored before it is returned: later attempts of this
        stage read it, and `find` is not called again. Names are told apart within the stage; what is stored is JSON,
        and erased when the stage is done. What JSON alone cannot give back (a dataclass, a tuple) needs its type in
        `returns`."""
        check_function(find, "ctx.checkpoint(name, lambda: ...)", takes=0)
        return await checkpoint(self, name, find, returns)

    @must_await
    async def wait_for(self, key: str, *, timeout_s: float) -> Answered | None:
        """Wait until somebody answers under `key`, without a worker; None if nobody does in time.

        The handler is left here and the stage runs again from its beginning when the answer is there: what must not be
        done twice before this line belongs into a `checkpoint`, an `effect` or an earlier stage. An answer that came
        first is kept, and taken at once."""
        return await wait_for(self, key, timeout_s)

    @must_await
    async def spawn(self, job: type[Job[In]], input: In, **options: Unpack[Options]) -> str:
        """Start a child, once for this place in the stage, whatever is retried; returns its id. Nobody waits for it.
        It is cancelled with this job, and has no later deadline."""
        return await spawn(self, kind_of(job), input, options)

    @must_await
    async def gather(
        self, job: type[Job[In, T]], inputs: Iterable[In], **options: Unpack[Options]
    ) -> list[Success[T] | Failure]:
        """Start a child for each input and wait for all of them, without a worker. Returns what came of each, in order.

        As with `wait_for`, the stage runs again from its beginning when the last child has ended; the children are not
        started again. `inputs` must be the same, in the same order, until all are started."""
        return await gather(self, kind_of(job), inputs, options)

    def callback_url(self, key: str, *, expires_s: float = 7 * 86_400.0) -> str:
        """An address where whoever has it can answer `wait_for(key)`, by a POST of JSON, until it expires."""
        check_key(key)
        check_expiry(expires_s)
        return self.kernel.callbacks.url(self.job.queue, key, self.now() + int(expires_s * 1_000))

    def numbered(self, name: str) -> str:
        """The calls of one kind in an attempt are told apart by their order."""
        number = self.numbers[name] = self.numbers.get(name, 0) + 1
        return f"{name}#{number}"

    @contextmanager
    def unlimited(self) -> Iterator[None]:
        """Stop the stage's time while it has to wait for a place to run in."""
        if self.limit is None:
            yield
            return
        loop, ends_at = asyncio.get_running_loop(), self.limit.when()
        left_s = None if ends_at is None else ends_at - loop.time()
        self.limit.reschedule(None)
        yield
        self.limit.reschedule(None if left_s is None else loop.time() + left_s)

    @overload
    def transaction(self) -> AbstractAsyncContextManager[Tx]: ...
    @overload
    def transaction(self, session: C) -> AbstractAsyncContextManager[StageCommit[C]]: ...
    def transaction(self, session: Any = None) -> Any:
        """With a connection or session of yours: your rows, further enqueues and the stage's result in one commit.

            async with ctx.transaction(session) as commit:
                session.add(Invoice(...))
                commit.returns(total)

        Nothing may be begun on it before. Committed at the end of the block: then the stage is done, and is not run
        again. If the lease was lost meanwhile, all is rolled back and `LeaseLost` is raised.

        Without one: a transaction of Holdfast's own store that proves the lease; what is written there stays, whatever
        the attempt comes to."""
        return self._own_transaction() if session is None else committing(self, session)

    @asynccontextmanager
    async def _own_transaction(self) -> AsyncIterator[Tx]:
        if self.inside is not None:
            refuse_inside(self, "ctx.transaction()")
        async with self.fenced() as tx:
            self.inside = asyncio.current_task()
            try:
                yield tx
            finally:
                self.inside = None

    def __getattr__(self, name: str) -> Any:
        raise missing(self, name)

    @property
    def declared_stage(self) -> Stage:
        return self._stage

    def _time_for(self, provider: Provider, given_s: float | None) -> float:
        """A call ends a little before its stage does: then its outcome is recorded, and the breaker hears of it."""
        left_s = self._stage.timeout_s - (self.now() - self.began) / 1_000
        return min(given_s or provider.timeout_s, max(0.001, left_s - min(RECORDING_S, left_s / 4)))

    def _provider(self, given: Provider | None) -> Provider:
        provider = given or self._stage.provider
        if provider is None:
            raise BadDeclaration(
                f"The stage '{self.stage}' of '{self.kind.name}' names no provider to call; write "
                "@stage(provider=...), or provider= in the call."
            )
        return provider
