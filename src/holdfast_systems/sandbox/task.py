"""What a sandbox runs: a function from an open input to an open output, and what it needs loaded beforehand."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Options = Mapping[str, int | float | str | None]


@dataclass(frozen=True, slots=True)
class Task:
    """`run(source, target, options)` reads and writes open files by their numbers and returns an exit code.

    `warm_up` runs once in the fork server: what it imports or looks up is there in every child, which cannot open a
    file any more. It is never given anything of a stranger's."""

    run: Callable[[int, int, Options], int]
    warm_up: Callable[[], None] = lambda: None


def load_task(name: str) -> Task:
    """The task that `module:NAME` names."""
    module, _, attribute = name.partition(":")
    task = getattr(importlib.import_module(module), attribute)
    if not isinstance(task, Task):
        raise TypeError(f"{name} is no Task.")
    return task
