"""What Python itself says of a handler that can never work on a worker, as a sentence with the way out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast.core.provider import Provider
from holdfast.core.retry import Retry

if TYPE_CHECKING:
    from holdfast.kernel.kinds import Stage

MIXED_UP = re.compile(
    r"does not support the (asynchronous )?context manager protocol|(?P<awaited>can't be (used in 'await'|awaited))"
)
"""How Python words it, in every version; so below."""
MISTAKEN = re.compile(
    r"'(?P<name>coroutine|async_generator|Success|Answered|Failure|Context|SyncContext|\w*Tx)'"
    r"|'async for' requires .* got (?P<got>\w+)"
)
OTHER_LOOP = ("different event loop", "different loop")
WAYS_OUT = {
    "coroutine": "an `await` is missing before it",
    "async_generator": "it is read with `async for`",
    "Success": "what came of a child is its .value, where it is a Success and no Failure",
    "Failure": "a child that failed has an error_class and a message, and no value",
    "Answered": "what was answered is its .value",
    "Context": "it keeps nothing: what was found out is kept with ctx.checkpoint(name, function)",
    "SyncContext": "it keeps nothing: what was found out is kept with ctx.checkpoint(name, function)",
    "Tx": "ctx.transaction() is Holdfast's own; write your rows with ctx.transaction(session)",
}
SET = re.compile(
    r"'(?:Sync)?Context' object (?:has no attribute|attribute) '(\w+)'"
    r"|property '(\w+)' of '(?:Sync)?Context' object has no setter"
)


def mistake_in(error: Exception, stage: Stage) -> str | None:
    """The mistake that an exception of Python's own tells of; None for all else."""
    words = str(error)
    match error:
        case TypeError() if words == "exceptions must derive from BaseException":
            return f"The stage '{stage.name}' raised what is no exception; a Snooze, Discard, Done or Wait is returned."
        case TypeError() if written := MIXED_UP.search(words):
            way_out = "write `async with` for what is async, and plain `with` for what is not"
            if written.lastgroup == "awaited":
                way_out = "take the `await` away, or give it a coroutine"
            return f"The stage '{stage.name}' mixes what is awaited with what is not ({words.rstrip('.')}): {way_out}."
        case RuntimeError() if "running event loop" in words or "loop is already running" in words:
            return (
                f"The stage '{stage.name}' starts an event loop inside of the worker's ({words.rstrip('.')}); "
                "await it, or make the stage a plain def."
            )
        case AttributeError() if (wording := SET.fullmatch(words.partition(" and no __dict__")[0])) and _has_ctx(error):
            name = wording[1] or wording[2]
            return (
                f"The stage '{stage.name}' sets ctx.{name}, but a context keeps nothing: return what a later stage "
                "needs, or keep it with ctx.checkpoint(name, function)."
            )
        case RuntimeError() if any(each in words for each in OTHER_LOOP):
            return (
                f"The stage '{stage.name}' uses what belongs to another event loop than the worker's "
                f"({words.rstrip('.')[:200]}): make it in the stage, or on the loop that runs here."
            )
        case AttributeError() | TypeError() if (wording := MISTAKEN.search(words)) and _is_ours(error, wording):
            name = wording["name"] or ""
            way_out = WAYS_OUT["Tx" if name.endswith("Tx") else name] if name else "write a plain `for`"
            return f"The stage '{stage.name}' takes something for what it is not ({words.rstrip('.')}): {way_out}."
    return None


def _is_ours(error: Exception, wording: re.Match[str]) -> bool:
    """Whether what the words name is Python's, or a class of ours and not one of the same name."""
    name = wording["name"]
    if name is None or name in ("coroutine", "async_generator"):
        return True
    subject = getattr(error, "obj", None)
    there = [subject] if subject is not None else [*_locals_at(error).values()]
    each = [part for value in there for part in (value if isinstance(value, list | tuple) else (value,))]
    return any(type(part).__name__ == name and type(part).__module__.startswith("holdfast.") for part in each)


def _has_ctx(error: Exception) -> bool:
    """Whether a context of ours was at hand where it was raised, and not a class of the same name."""
    return any(type(value).__module__.startswith("holdfast.kernel.") for value in _locals_at(error).values())


def _locals_at(error: Exception) -> Mapping[str, object]:
    """The variables where an exception was raised."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return {} if traceback is None else traceback.tb_frame.f_locals


def exit_of(stage: Stage, error: SystemExit) -> str:
    code = error.args[0] if error.args else None
    return f"The stage '{stage.name}' called sys.exit({code!r}), which would end the worker; raise an exception."


def no_result(stage: Stage, answer: object) -> str | None:
    """What is wrong with returning what is no value, although it could be stored as one."""
    match answer:
        case Retry():
            why = "a policy is no result: give it to @stage(retry=...), and raise, or return Snooze(seconds)"
        case Provider():
            why = "a declaration is no result: give it to @stage(provider=...)"
        case BaseException():
            why = "an exception is raised, and not returned"
        case _:
            return None
    return f"The stage '{stage.name}' returned a {type(answer).__name__}; {why}."
