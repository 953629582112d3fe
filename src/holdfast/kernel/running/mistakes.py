"""What Python itself says of a handler that can never work on a worker, as a sentence with the way out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.core.provider import Provider
from holdfast.core.retry import Retry

if TYPE_CHECKING:
    from holdfast.kernel.kinds import Stage

MIXED_UP = re.compile(
    r"does not support the (asynchronous )?context manager protocol|(?P<awaited>can't be (used in 'await'|awaited))"
)
"""How Python words it, in every version; so below."""
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
    return None


def _has_ctx(error: Exception) -> bool:
    """Whether a context of ours was at hand where it was raised, and not a class of the same name."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    there = {} if traceback is None else traceback.tb_frame.f_locals
    return any(type(value).__module__.startswith("holdfast.kernel.") for value in there.values())


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
