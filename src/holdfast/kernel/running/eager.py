"""Runs coroutines that seldom wait without paying for the waiting.

A task, a timer and their callbacks cost more than a short handler does. So a coroutine's first step is simply taken,
and most end there. Only one that really waits needs a task of its own and a time limit, and gets them then.

    ended, got = first_step(coroutine)
    value = got if ended else await resume(coroutine, got)

Everything happens in the caller's task, as with a plain `await`.

Why so: docs/decisions/0005-a-turn-is-one-statement.md
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable, Coroutine, Generator
from types import coroutine as awaitable
from typing import Any

STOP = "the attempt is stopped"
"""With this a worker cancels an attempt whose lease is gone, or whose grace is over."""
CLEAN_UP_S = 1.0
"""For how long a handler that was asked to stop may still wait for something, to clean up."""
Run = Callable[..., Any]
"""Calls a function with its arguments: inline, or in a context of its own (`contextvars.Context.run`)."""


def run_inline(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def first_step(coroutine: Coroutine[Any, Any, Any], run: Run | None = None) -> tuple[bool, Any]:
    """Run up to the first wait: (True, the result) if it ended, else (False, what it waits for)."""
    try:
        return False, coroutine.send(None) if run is None else run(coroutine.send, None)
    except StopIteration as end:
        return True, end.value


@awaitable
def resume(coroutine: Coroutine[Any, Any, Any], waits_for: Any, run: Run = run_inline) -> Generator[Any, Any, Any]:
    """Go on with a coroutine after its first step, as `await` would have."""
    while True:
        go_on, value = coroutine.send, None
        try:
            value = yield waits_for
        except GeneratorExit:
            run(coroutine.close)
            raise
        except BaseException as thrown:
            go_on, value = coroutine.throw, thrown
        try:
            waits_for = run(go_on, value)
        except StopIteration as end:
            return end.value


@awaitable
def resume_handler(
    coroutine: Coroutine[Any, Any, Any], waits_for: Any, limit: asyncio.Timeout, leave: Callable[[], None]
) -> Generator[Any, Any, Any]:
    """As `resume`. A handler whose time is over, or whose attempt is stopped, and which catches that and waits on for
    longer than it takes to clean up, is left where it is: nobody can make it end, and its job must."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None, "an attempt that waits has a task"
    insisting: asyncio.TimerHandle | None = None
    try:
        while True:
            go_on, value = coroutine.send, None
            try:
                value = yield waits_for
            except GeneratorExit:
                coroutine.close()
                raise
            except asyncio.CancelledError as thrown:
                if insisting is not None and loop.time() >= insisting.when():
                    task.uncancel()
                    leave()
                    _keep_for_ever(coroutine)
                    raise
                if insisting is None and (limit.expired() or thrown.args == (STOP,)):
                    insisting = loop.call_later(CLEAN_UP_S, task.cancel)
                go_on, value = coroutine.throw, thrown
            except BaseException as thrown:
                go_on, value = coroutine.throw, thrown
            try:
                waits_for = go_on(value)
            except StopIteration as end:
                return end.value
    finally:
        if insisting is not None:
            insisting.cancel()


def _keep_for_ever(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Never free it: that would close it, which raises once more inside of code that catches everything. Without a loop
    to wait on, such code runs round and round, and the process does not exit."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(coroutine))
