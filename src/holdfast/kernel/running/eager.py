"""Runs coroutines that seldom wait without paying for the waiting.

A task, a timer and their callbacks cost more than a short handler does. So a coroutine's first step is simply taken,
and most end there. Only one that really waits needs a task of its own and a time limit, and gets them then.

    ended, got = first_step(coroutine)
    value = got if ended else await resume(coroutine, got)

Everything happens in the caller's task, as with a plain `await`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import coroutine as awaitable
from typing import Any

Run = Callable[..., Any]
"""Calls a function with its arguments: inline, or in a context of its own (`contextvars.Context.run`)."""


def run_inline(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def first_step(coroutine: Coroutine[Any, Any, Any], run: Run = run_inline) -> tuple[bool, Any]:
    """Run up to the first wait: (True, the result) if it ended, else (False, what it waits for)."""
    try:
        return False, run(coroutine.send, None)
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
