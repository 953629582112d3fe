"""Runs stages that block aside: a plain `def` in a thread of the worker, a `cpu=True` one in a process of its own.

    loop:  run_attempt -- converse ----Ended, Raised----> the attempt's outcome
                            ^  |
                   Ask, Ran |  | Ended, Raised, Run
                            |  v
    aside: the handler, with a `SyncContext`

Lease, timeout, cancellation and grace are those of every attempt, because the loop only waits. What the handler asks
of its context is done on the loop, by the very methods that an `async def` uses; a function that such a method calls
(`Run`) runs in the handler's own thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from holdfast.errors import BadDeclaration

if TYPE_CHECKING:
    from holdfast.core.provider import Lookup, Provider
    from holdfast.kernel.context import Context
    from holdfast.kernel.record import Cost

T = TypeVar("T")


class StageStopped(BaseException):
    """Raised inside a handler that runs aside, when its attempt is over: its time, its lease, or the worker's grace."""


class ProcessLost(Exception):
    """The process of a `cpu=True` stage died under it: the attempt is lost, as with a worker."""


@dataclass(frozen=True, slots=True)
class Ended:
    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    error: BaseException


@dataclass(frozen=True, slots=True)
class Ask:
    """The handler asks its context for something."""

    what: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """The context asks the handler's thread to run a function of the handler's."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()


Message = Ended | Raised | Ask | Run


class Link(Protocol):
    """The loop's end of the conversation with a handler that runs aside."""

    async def receive(self) -> Message: ...

    async def send(self, message: Message) -> None: ...


class Port(Protocol):
    """The handler's end of it."""

    def ask(self, message: Ask) -> Any: ...


class Facts(NamedTuple):
    """What a handler may know of its attempt without asking."""

    job_id: str
    stage: str
    attempt: int
    failures: int
    deadline_at: int | None
    in_process: bool


class Where(NamedTuple):
    """A stage as another process finds it: by import."""

    module: str
    job: str
    stage: str


class Aside(Protocol):
    """Where stages that block are run."""

    async def in_thread(
        self, ctx: Context, method: Callable[..., Any], instance: object, arguments: tuple[Any, ...]
    ) -> Any: ...

    async def in_process(
        self, ctx: Context, where: Where, method: Callable[..., Any], instance: object, arguments: tuple[Any, ...]
    ) -> Any: ...

    def allow(self, threads: int) -> None:
        """How many threads there may be: as many as attempts at once."""
        ...

    async def close(self) -> None:
        """End the processes that are at rest."""
        ...


Handler = Callable[..., Coroutine[Any, Any, Any]]


def run_in_thread(method: Callable[..., Any]) -> Handler:
    """A blocking method as the coroutine function that the kernel calls."""

    async def run(instance: object, ctx: Context, *arguments: Any) -> Any:
        return await ctx.kernel.aside.in_thread(ctx, method, instance, arguments)

    return run


def run_in_process(method: Callable[..., Any], where: Where) -> Handler:
    async def run(instance: object, ctx: Context, *arguments: Any) -> Any:
        return await ctx.kernel.aside.in_process(ctx, where, method, instance, arguments)

    return run


def facts_of(ctx: Context, *, in_process: bool) -> Facts:
    job = ctx.job
    return Facts(job.id, job.stage, job.attempt, job.failures, job.deadline_at, in_process)


async def converse(ctx: Context, link: Link) -> Ended | Raised:
    """Do what the handler asks of its context until it has ended."""
    while True:
        message = await link.receive()
        if isinstance(message, Ended | Raised):
            return message
        assert isinstance(message, Ask), "the handler's thread speaks first"
        await link.send(await _answer(ctx, link, message))


async def _answer(ctx: Context, link: Link, asked: Ask) -> Ended | Raised:
    try:
        return Ended(await OPERATIONS[asked.what](ctx, link, *asked.args, **asked.kwargs))
    except Exception as error:
        return Raised(error)


def come_of(last: Ended | Raised) -> Any:
    if isinstance(last, Raised):
        raise last.error
    return last.value


def _there(link: Link, function: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """A function of the handler's, to be awaited on the loop and run in the handler's thread."""

    async def run(*args: Any) -> Any:
        await link.send(Run(function, args))
        message = await link.receive()
        assert isinstance(message, Ended | Raised), "a function that is being run asks for nothing"
        return come_of(message)

    return run


async def _progress(ctx: Context, link: Link, data: dict[str, Any]) -> None:
    await ctx.progress(**data)


async def _emit(ctx: Context, link: Link, destination: str, body: Any, **options: Any) -> str:
    return ctx.emit(destination, body, **options)


async def _call(ctx: Context, link: Link, run: Callable[[], Any], **options: Any) -> Any:
    return await ctx.call(_there(link, run), **options)


async def _effect(
    ctx: Context, link: Link, key: Any, send: Callable[[str], str], lookup: Any, provider: Provider | None
) -> str:
    look = None if lookup is None else _there(link, lookup)
    return await ctx.effect(key, send=_there(link, send), lookup=look, provider=provider)


OPERATIONS: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {
    "progress": _progress,
    "emit": _emit,
    "call": _call,
    "effect": _effect,
}
"""What a handler that runs aside may ask for."""


class SyncContext:
    """The context of a stage that is a plain `def`: the same attempt, seen from a thread or a process of its own.

    Its methods block until the worker has answered, and raise what the awaited ones would."""

    __slots__ = ("_facts", "_now", "_port")

    def __init__(self, facts: Facts, port: Port, now: Callable[[], int]) -> None:
        self._facts = facts
        self._port = port
        self._now = now

    @property
    def job_id(self) -> str:
        return self._facts.job_id

    @property
    def stage(self) -> str:
        return self._facts.stage

    @property
    def attempt(self) -> int:
        """The attempt's number: rises with every claim. Never put it into an idempotency token."""
        return self._facts.attempt

    @property
    def failures(self) -> int:
        """How many attempts of this stage have failed before this one."""
        return self._facts.failures

    def now(self) -> int:
        """Milliseconds since the epoch, by the store's clock."""
        return self._now()

    def budget_s(self) -> float | None:
        """Seconds left until the job's deadline; None if it has none."""
        deadline = self._facts.deadline_at
        return None if deadline is None else max(0, deadline - self.now()) / 1_000

    def progress(self, /, **data: Any) -> None:
        """Tell listeners how far the work is, at once."""
        self._ask("progress", data)

    def emit(
        self,
        destination: str,
        body: Any,
        *,
        type: str = "",
        aggregate_id: str | None = None,
        message_id: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> str:
        """Publish a message if and only if this attempt's result is accepted. Returns the message's id."""
        json.dumps(body)  # refused here, where the handler's line is in the traceback
        answer: str = self._ask(
            "emit", destination, body, type=type, aggregate_id=aggregate_id, message_id=message_id, headers=headers
        )
        return answer

    def call(
        self,
        run: Callable[[], T],
        *,
        provider: Provider | None = None,
        timeout_s: float | None = None,
        cost: Callable[[T], Cost] | None = None,
    ) -> T:
        """Call a provider (the stage's own unless another is named), as `Context.call` does; `run` is a plain function
        and runs in this thread."""
        self._refuse_in_process("call")
        answer: T = self._ask("call", run, provider=provider, timeout_s=timeout_s, cost=cost)
        return answer

    def effect(
        self,
        key: str | tuple[object, ...],
        *,
        send: Callable[[str], str],
        lookup: Lookup | None = None,
        provider: Provider | None = None,
    ) -> str:
        """Perform an external effect at most once for `key`, as `Context.effect` does; `send` is a plain function and
        runs in this thread."""
        self._refuse_in_process("effect")
        answer: str = self._ask("effect", key, send, lookup, provider)
        return answer

    def _refuse_in_process(self, method: str) -> None:
        if self._facts.in_process:
            raise BadDeclaration(
                f"ctx.{method} is not to be had in the process of a cpu=True stage, because it runs a function of "
                "yours in the worker: do it in a stage before or after this one."
            )

    def _ask(self, what: str, /, *args: Any, **kwargs: Any) -> Any:
        return self._port.ask(Ask(what, args, kwargs))
