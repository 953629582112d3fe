"""Runs stages that block aside: a plain `def` in a thread of the worker, a `cpu=True` one in a process of its own.

    loop:  run_attempt -- converse ----Ended, Raised----> the attempt's outcome
                            ^  |
                   Ask, Ran |  | Ended, Raised, Run
                            |  v
    aside: the handler, with a `SyncContext`

Lease, timeout, cancellation and grace are those of every attempt, because the loop only waits. What the handler asks
of its context is done on the loop, by the very methods that an `async def` uses; a function that such a method calls
(`Run`) runs in the handler's own thread, and may ask again. Threads that the handler starts ask in turn (`Speaking`).

Why so: docs/decisions/0019-blocking-stages-run-aside.md
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from holdfast.core.family import Answered
from holdfast.errors import BadDeclaration
from holdfast.kernel.compose.parking import Parking

if TYPE_CHECKING:
    from holdfast.core.provider import Provider
    from holdfast.kernel.context import Context


class StageStopped(BaseException):
    """Raised inside a handler that runs aside, when its attempt is over: its time, its lease, or the worker's grace."""


class ProcessLost(Exception):
    """The process of a `cpu=True` stage died under it: the attempt is lost, as with a worker."""


@dataclass(frozen=True, slots=True)
class StageReturned:
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


Message = StageReturned | Raised | Ask | Run


class StageLink(Protocol):
    """The loop's end of the conversation with a handler that runs aside."""

    async def receive(self) -> Message: ...

    async def send(self, message: Message) -> None: ...


class Port(Protocol):
    """The handler's end of it."""

    def ask(self, message: Ask) -> Any: ...


class Speaking(AbstractContextManager[None]):
    """Whose turn it is to speak for a handler: its threads one after the other, and nobody once it has ended."""

    def __init__(self) -> None:
        self._turn = Lock()
        self._is_over = False

    def __enter__(self) -> None:
        self._turn.acquire()
        if self._is_over:
            self._turn.release()
            raise BadDeclaration(
                "A thread that a stage started has used ctx after the stage had ended; join it before that."
            )

    def __exit__(self, *_: object) -> None:
        self._turn.release()

    def end(self) -> None:
        with self._turn:
            self._is_over = True


class Facts(NamedTuple):
    """What a handler may know of its attempt without asking."""

    job_id: str
    stage: str
    attempt: int
    failures: int
    deadline_at: int | None
    in_process: bool


class StageAddress(NamedTuple):
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
        self,
        ctx: Context,
        where: StageAddress,
        method: Callable[..., Any],
        instance: object,
        arguments: tuple[Any, ...],
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


def run_in_process(method: Callable[..., Any], where: StageAddress) -> Handler:
    async def run(instance: object, ctx: Context, *arguments: Any) -> Any:
        return await ctx.kernel.aside.in_process(ctx, where, method, instance, arguments)

    return run


def facts_of(ctx: Context, *, in_process: bool) -> Facts:
    job = ctx.job
    return Facts(job.id, job.stage, job.attempt, job.failures, job.deadline_at, in_process)


async def converse(ctx: Context, link: StageLink) -> StageReturned | Raised:
    """Do what the handler, or a function of its that is being run, asks of its context until it has ended."""
    while True:
        message = await link.receive()
        if isinstance(message, StageReturned | Raised):
            return message
        assert isinstance(message, Ask), "the handler's thread speaks first"
        await link.send(await _answer(ctx, link, message))


async def _answer(ctx: Context, link: StageLink, asked: Ask) -> StageReturned | Raised:
    try:
        return StageReturned(await OPERATIONS[asked.what](ctx, link, *asked.args, **asked.kwargs))
    except (Exception, Parking) as error:
        return Raised(error)


def interrupted(error: KeyboardInterrupt) -> Raised:
    """A handler that raises this means nobody's Ctrl-C; raised on the loop it would end the worker."""
    return Raised(
        BadDeclaration(f"The stage raised KeyboardInterrupt({error}), which would end the worker; raise another.")
    )


def come_of(last: StageReturned | Raised) -> Any:
    if isinstance(last, Raised):
        raise last.error
    return last.value


def _there(ctx: Context, link: StageLink, function: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """A function of the handler's, to be awaited on the loop and run in the handler's thread."""

    async def run(*args: Any) -> Any:
        await link.send(Run(function, args))
        return come_of(await converse(ctx, link))

    return run


async def _progress(ctx: Context, link: StageLink, data: dict[str, Any]) -> None:
    await ctx.progress(**data)


async def _emit(ctx: Context, link: StageLink, destination: str, body: Any, **options: Any) -> str:
    return ctx.emit(destination, body, **options)


async def _call(ctx: Context, link: StageLink, run: Callable[[], Any], **options: Any) -> Any:
    return await ctx.call(_there(ctx, link, run), **options)


async def _effect(
    ctx: Context, link: StageLink, key: Any, send: Callable[[str], str], lookup: Any, provider: Provider | None
) -> str:
    look = None if lookup is None else _there(ctx, link, lookup)
    return await ctx.effect(key, send=_there(ctx, link, send), lookup=look, provider=provider)


async def _paid_call(ctx: Context, link: StageLink, run: Callable[[str], Any], **options: Any) -> Any:
    return await ctx.paid_call(_there(ctx, link, run), **options)


async def _recall(ctx: Context, link: StageLink, name: str, returns: Any) -> tuple[bool, Any]:
    from holdfast.kernel.compose.checkpoint import recall

    return await recall(ctx, name, returns)


async def _keep(ctx: Context, link: StageLink, name: str, value: object, returns: Any) -> Any:
    from holdfast.kernel.compose.checkpoint import keep

    return await keep(ctx, name, value, returns)


async def _wait_for(ctx: Context, link: StageLink, key: str, timeout_s: float) -> Answered | None:
    return await ctx.wait_for(key, timeout_s=timeout_s)


async def _spawn(ctx: Context, link: StageLink, job: Any, input: Any, **options: Any) -> str:
    return await ctx.spawn(job, input, **options)


async def _gather(ctx: Context, link: StageLink, job: Any, inputs: Any, **options: Any) -> Any:
    return await ctx.gather(job, inputs, **options)


async def _callback_url(ctx: Context, link: StageLink, key: str, expires_s: float) -> str:
    return ctx.callback_url(key, expires_s=expires_s)


OPERATIONS: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {
    "progress": _progress,
    "emit": _emit,
    "call": _call,
    "effect": _effect,
    "paid_call": _paid_call,
    "recall": _recall,
    "keep": _keep,
    "wait_for": _wait_for,
    "spawn": _spawn,
    "gather": _gather,
    "callback_url": _callback_url,
}
"""What a handler that runs aside may ask for."""
