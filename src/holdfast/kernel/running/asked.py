"""What a handler asks of its context, checked before anything is done: a mistake here is one that no retry fixes."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Coroutine, Mapping
from functools import partial, wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar

from holdfast.core.failure import Category, Failure, failure
from holdfast.core.given import WrongCall, call_problem, function_problem, nearest, seconds_problem, text_problem
from holdfast.errors import BadDeclaration, InvalidInput
from holdfast.kernel.declare import declaring
from holdfast.kernel.declare.size import check_size

if TYPE_CHECKING:
    from holdfast.core.provider import Provider
    from holdfast.kernel.context import Context

T = TypeVar("T")
C = TypeVar("C")
P = ParamSpec("P")
PROMISED_MAX = 100
WAYS_OUT = (
    (
        ("enqueue", "submit", "defer", "delay", "apply_async", "start", "run", "child"),
        "start a job with ctx.spawn(Job, input), or many with ctx.gather(Job, inputs).",
    ),
    (("sleep", "retry", "snooze", "defer_until"), "return Snooze(seconds), and no worker is held meanwhile."),
    (("cancel", "fail", "discard", "abort", "reject"), "return Discard('why'), or raise an exception."),
    (("done", "complete", "finish", "succeed"), "return the value; Done(value) leaves out the stages that follow."),
    (("log", "logger", "logging", "info", "print"), "log with logging.getLogger(__name__)."),
    (("publish", "message", "produce"), "send a message with ctx.emit(destination, body)."),
    (
        ("heartbeat", "extend_lease", "keepalive", "touch"),
        "a lease is renewed by itself; tell of work by ctx.progress.",
    ),
    (
        ("send", "recv", "signal", "event"),
        "wait with ctx.wait_for(key, timeout_s=...), and answer with client.answer(key, value).",
    ),
    (("input", "payload", "args", "kwargs"), "the input is the parameter after ctx."),
    (("owner", "key", "user", "tenant", "headers"), "what a stage needs to know is in its input."),
    (
        ("result", "results", "previous", "state", "data"),
        "what an earlier stage returned is a parameter of that stage's name: (self, ctx, input, charge).",
    ),
    (("id", "task_id", "request", "workflow_id"), "the job's id is ctx.job_id."),
    (("deadline", "timeout", "time_left", "eta"), "how long is left is ctx.budget_s()."),
    (("attempts", "retries", "retry_count", "tries"), "how often this stage has failed before is ctx.failures."),
    (
        ("step", "activity", "cache", "memo", "set", "get", "meta", "metadata", "storage"),
        "keep what was found out with ctx.checkpoint(name, function).",
    ),
    (("http", "client", "requests"), "call with a client of your own: ctx.call(lambda: ...)."),
    (
        ("db", "session", "connection", "commit", "engine", "execute"),
        "write your rows with ctx.transaction(session).",
    ),
)
"""What those who come from elsewhere look for, and what it is called here."""
TEXT_LENGTH_MAX = 500  # an exchange and a routing key, each as long as AMQP carries


def must_await(
    method: Callable[Concatenate[Context, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Context, P], Coroutine[Any, Any, T]]:
    """A method whose forgotten `await` fails the attempt: it would have done nothing, and nobody would know."""

    @wraps(method)
    def begin(self: Context, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        if self.inside is not None and method.__name__ != "note_progress":
            refuse_inside(self, f"ctx.{method.__name__}(...)")
        try:
            coroutine = method(self, *args, **kwargs)
        except TypeError as error:
            _refuse(method, error, kwargs)
        if len(self.promised) == PROMISED_MAX:  # a handler that goes on for hours awaits most of them
            self.promised = [promise for promise in self.promised if _is_not_begun(promise[1])]
        self.promised.append((method.__name__, coroutine))
        return coroutine

    return begin


def refuse_wrong_calls(context: type[C]) -> type[C]:
    """A class whose public methods refuse arguments that they do not take with `WrongCall`."""
    for name, method in list(vars(context).items()):
        if isinstance(method, FunctionType) and not name.startswith("_") and not hasattr(method, "__wrapped__"):
            setattr(context, name, _refusing(method))
    return context


def _refusing(method: FunctionType) -> Callable[..., Any]:
    @wraps(method)
    def begin(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except TypeError as error:
            _refuse(method, error, kwargs)

    return begin


def _refuse(method: Callable[..., Any], error: TypeError, given: dict[str, Any]) -> NoReturn:
    problem = call_problem(method, f"ctx.{method.__name__}", error, given)
    if problem is None:
        raise error
    raise WrongCall(problem) from None


def check_awaited(ctx: Context) -> None:
    """Raise if the handler has ended without awaiting something it asked for, or in spite of a wait."""
    forgotten = []
    for name, coroutine in ctx.promised:
        if _is_not_begun(coroutine):
            coroutine.close()
            forgotten.append(name)
    if forgotten:
        raise BadDeclaration(
            f"The stage '{ctx.stage}' of '{ctx.kind.name}' called ctx.{forgotten[0]}(...) without "
            "awaiting it, so that it did nothing; write `await` before it."
        )
    if ctx.parking is not None:
        raise BadDeclaration(
            f"The stage '{ctx.stage}' of '{ctx.kind.name}' caught what leaves it at ctx.wait_for or ctx.gather, "
            "and went on as if nothing were to come; catch Exception there, not BaseException."
        )


def _is_not_begun(coroutine: Coroutine[Any, Any, Any]) -> bool:
    return inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED


def refuse_inside(ctx: Context, what: str) -> None:
    """What writes by itself would wait forever for the transaction that it is called in."""
    if ctx.inside is asyncio.current_task():
        raise BadDeclaration(
            f"The stage '{ctx.stage}' of '{ctx.kind.name}' calls {what} inside of its ctx.transaction(), "
            "where it would wait for the transaction to end: do it before or after."
        )


def check_function(run: object, write: str, *, takes: int) -> None:
    """Refuse what is no function of so many arguments."""
    if not callable(run):
        if inspect.iscoroutine(run):
            run.close()
        raise BadDeclaration(f"A function to call is needed here, not a {type(run).__name__}: write {write}.")
    if isinstance(run, FunctionType):
        is_wrong = not _fits(run, takes)
    else:
        is_wrong = isinstance(run, type | partial) and function_problem(run, takes) is not None
    if is_wrong:
        wanted = "no argument" if takes == 0 else "one argument"
        name = getattr(run, "__name__", repr(run))
        raise BadDeclaration(f"The function '{name}' is called with {wanted}, which it does not take: write {write}.")


def _fits(function: FunctionType, takes: int) -> bool:
    """By its code alone, which is quicker than its signature."""
    code = function.__code__
    least = code.co_argcount - len(function.__defaults__ or ())
    is_open = bool(code.co_flags & inspect.CO_VARARGS)
    named = code.co_kwonlyargcount - len(function.__kwdefaults__ or {})
    return least <= takes and (is_open or takes <= code.co_argcount) and named == 0


def check_call(provider: object, timeout_s: object, cost: object, name: object = "") -> None:
    """Refuse a provider by its name, a timeout that is no time, a price that is no function of the answer, and a name
    that is no text."""
    if name != "" and (problem := text_problem(name, TEXT_LENGTH_MAX)):
        raise BadDeclaration(f"The name of a paid call is {name!r}; it {problem}.")
    if provider is not None:
        declaring.check_provider("This call", provider)
    if timeout_s is not None and (problem := seconds_problem(timeout_s, above_zero=True)):
        raise BadDeclaration(f"The timeout_s of {timeout_s!r} of a call {problem}.")
    if cost is not None and not callable(cost):
        raise BadDeclaration(f"The cost of a call is {cost!r}: write cost=lambda answer: Cost(...).")


def check_lookup(provider: Provider, lookup: object) -> None:
    """A provider that is to be asked after a doubt needs the question; without it every doubt would be a person's."""
    if provider.effects == "lookup" and lookup is None and provider.lookup is None and provider.has_id is None:
        raise BadDeclaration(
            f"The provider '{provider.name}' has effects='lookup' and no lookup: give it one, as Provider(..., "
            "lookup=find_by_token), or say effects='neither'."
        )


def check_message(destination: object, texts: dict[str, object], headers: object) -> None:
    """Refuse a message that no broker could carry."""
    given = {name: value for name, value in texts.items() if value is not None and value != ""}
    for name, value in {"destination": destination, **given}.items():
        if problem := text_problem(value, TEXT_LENGTH_MAX):
            raise InvalidInput(f"The {name} of a message is {value!r}; it {problem}.")
    pairs = headers.items() if isinstance(headers, Mapping) else () if headers is None else [(headers, headers)]
    if not all(isinstance(name, str) and isinstance(value, str) for name, value in pairs):
        raise InvalidInput(f"The headers of a message are {headers!r}; they must be texts: {{'name': 'value'}}.")


def check_expiry(expires_s: object) -> None:
    if problem := seconds_problem(expires_s, above_zero=True):
        raise InvalidInput(f"The expires_s of {expires_s!r} of a callback URL {problem}.")


def json_text(what: str, value: object) -> str:
    """The value as compact JSON; refused, with what it is of, if JSON cannot hold it."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} cannot be written as JSON: {error}.") from None
    check_size(what, text)
    return text


class MissingName(AttributeError):
    """A name that a context does not have: a mistake that no retry mends."""

    @property
    def failure(self) -> Failure:
        return failure(Category.BUG, "USAGE_ERROR", str(self))


def missing(context: object, name: str) -> MissingName:
    """The answer to a misspelt name of a context."""
    names = [each for each in dir(type(context)) if not each.startswith("_")]
    meant = next((way_out for words, way_out in WAYS_OUT if name in words), None)
    if meant is None and not name.startswith("_") and (near := nearest(name, names)):
        meant = f"did you mean 'ctx.{near}'?"
    return MissingName(f"A {type(context).__name__} has no '{name}'{f'; {meant}' if meant else '.'}")
