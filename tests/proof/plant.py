"""How a bug is planted: by replacing one function, or the words of one statement, for a while."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from holdfast.core.decide import Decision
from holdfast.kernel import settle
from holdfast.stores.statement import Statements, _render


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug, the promises that catch it, and the seeds that must suffice. `elsewhere`: the test that catches it on
    PostgreSQL, where it is in a statement's text and no seed of a reasonable hunt shows it."""

    plant: Callable[[], AbstractContextManager[None]]
    caught_by: tuple[str, ...]
    seeds: int
    elsewhere: str | None = None

    @property
    def name(self) -> str:
        return self.plant.__name__

    @property
    def path(self) -> str:
        return f"{self.plant.__module__}:{self.plant.__name__}"


@contextmanager
def swapped(owner: Any, name: str, new: Any) -> Iterator[None]:
    old = getattr(owner, name)
    if inspect.isroutine(old):
        _check_called_alike(old, new)
    setattr(owner, name, new)
    try:
        yield
    finally:
        setattr(owner, name, old)


def _check_called_alike(old: Callable[..., Any], new: Callable[..., Any]) -> None:
    """A planted function that the code calls in another way by now would fail, and show nothing of the bug."""
    parameters = inspect.signature(old).parameters.values()
    by_place = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    inspect.signature(new).bind(*by_place, **{one.name: one for one in parameters if one.kind is one.KEYWORD_ONLY})


@contextmanager
def respelled(statements: Statements, name: str, *pairs: tuple[str, str]) -> Iterator[None]:
    """Other words in a statement, in the text of each database that it has."""
    old = statements.named[name]
    sqlite, postgres = old.sqlite, old.postgres
    for before, after in pairs:
        if sqlite:
            sqlite = _with_other_words(name, sqlite, _render(before, "sqlite"), _render(after, "sqlite"))
        if postgres:
            postgres = _with_other_words(name, postgres, _placed(before, old.order), _placed(after, old.order))
    statements.named[name] = replace(old, sqlite=sqlite, postgres=postgres)
    try:
        yield
    finally:
        statements.named[name] = old


def _with_other_words(name: str, text: str, before: str, after: str) -> str:
    assert before in text, f"'{name}' does not say '{before}' any more"
    return text.replace(before, after)


def _placed(words: str, order: tuple[str, ...]) -> str:
    """The words as PostgreSQL's text has them, with its places for the parameters."""
    text = _render(words, "postgres")
    return re.sub(r":([a-z_]+)", lambda match: f"${order.index(match.group(1)) + 1}", text)


def decided(change: Callable[..., Decision]) -> Any:
    return swapped(settle, "decide", change)
