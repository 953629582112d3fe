"""Whether a stage runs on the loop, in a thread or in a process, read from how it is declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import BadDeclaration
from holdfast.kernel.running.aside import Handler, StageAddress, run_in_process, run_in_thread
from holdfast.kernel.running.sync_context import SyncContext


def handler_of(name: str, method: Callable[..., Any], cpu: bool, cls: type[Any], hints: Mapping[str, Any]) -> Handler:
    """The stage as a coroutine function. Refuses what could only go wrong in a worker."""
    place = f"{cls.__name__}.{name}"
    waits = inspect.iscoroutinefunction(method)
    if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
        raise BadDeclaration(f"The stage '{place}' yields; a stage must return its result.")
    _check_context(method, waits, hints, place)
    if waits and cpu:
        raise BadDeclaration(f"The stage '{place}' is an async function; with cpu=True it must be a plain def.")
    if waits:
        return method
    if not cpu:
        return run_in_thread(method)
    if "<locals>" in cls.__qualname__:
        raise BadDeclaration(
            f"The stage '{place}' has cpu=True, but its class is declared inside of a function, where no other process "
            "finds it: declare it at the top of a module."
        )
    return run_in_process(method, StageAddress(cls.__module__, cls.__qualname__, name))


def _check_context(method: Callable[..., Any], waits: bool, hints: Mapping[str, Any], place: str) -> None:
    """A plain function is given a `SyncContext`, an async one a `Context`."""
    names = list(inspect.signature(method).parameters)
    given = hints.get(names[1]) if len(names) > 1 else None
    if not isinstance(given, type) or given in (object, Any) or getattr(given, "_is_protocol", False):
        return
    if not (issubclass(given, SyncContext) or given.__module__ == "holdfast.kernel.context"):
        right = "Context" if waits else "SyncContext"
        raise BadDeclaration(
            f"The stage '{place}' takes its context, '{names[1]}', as {given.__name__}: "
            f"a stage takes (self, ctx: {right}, input), and then earlier results."
        )
    if waits and issubclass(given, SyncContext):
        raise BadDeclaration(f"The stage '{place}' is an async function: its ctx is a Context, not a SyncContext.")
    if not waits and given.__module__ == "holdfast.kernel.context":
        raise BadDeclaration(
            f"The stage '{place}' is a plain def: its ctx is a SyncContext, whose methods are not awaited; write "
            f"'{names[1]}: SyncContext', or make it an async def."
        )
