"""What is wrong with a declaration, said when it is made: one sentence that names the place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.classify import Rules
from holdfast.errors import BadDeclaration


def checked_rules(rules: Rules, never: tuple[type[BaseException], ...], place: str) -> Rules:
    """The stage's word on exceptions, refused unless it is made of exception classes that do not contradict; the
    app's `never` stands behind it."""
    for option, classes in (("retry_on", rules.retry_on), ("never", rules.never)):
        if not isinstance(classes, tuple) or not all(map(_is_exception, classes)):
            raise BadDeclaration(f"The stage '{place}' has a {option} that is not a tuple of exception classes.")
    both = sorted(each.__name__ for each in {*rules.retry_on} & {*rules.never})
    if both:
        raise BadDeclaration(f"The stage '{place}' names {', '.join(both)} in retry_on and in never.")
    if not isinstance(never, tuple) or not all(map(_is_exception, never)):
        raise BadDeclaration(f"The app of '{place}' has a never that is not a tuple of exception classes.")
    return Rules(rules.retry_on, (*rules.never, *(each for each in never if each not in rules.retry_on)))


def _is_exception(candidate: object) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, BaseException)


def check_versions(place: str, version: int, upgrades: Mapping[int, Any]) -> None:
    if version < 1:
        raise BadDeclaration(f"'{place}' has version {version}; versions count from 1.")
    missing = [step for step in range(min(upgrades, default=version), version) if step not in upgrades]
    if missing:
        raise BadDeclaration(f"'{place}' has version {version} but no upgrade from version {missing[0]}.")
    beyond = [step for step in upgrades if not 1 <= step < version]
    if beyond:
        raise BadDeclaration(f"'{place}' has version {version}; an upgrade from version {beyond[0]} leads nowhere.")
