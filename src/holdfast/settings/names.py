"""Settings by name. Each has one that begins with HOLDFAST_. A plain one of before is understood too; where both are
set the prefixed one counts, so that a guest in somebody else's environment collides with nobody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from holdfast.core.given import nearest

PREFIX = "HOLDFAST_"


def prefixed(name: str) -> str:
    return name if name.startswith(PREFIX) else PREFIX + name


def name_in(env: Mapping[str, str], name: str) -> str | None:
    """The name under which a setting is set in this environment; None if under none."""
    return next((each for each in (prefixed(name), name) if each in env), None)


def value_in(env: Mapping[str, str], name: str) -> str | None:
    """What is set; None if nothing is, or nothing but an empty text."""
    return next((env[each] for each in (prefixed(name), name) if env.get(each)), None)


OF_COMMANDS = ("HOLDFAST_APP", "HOLDFAST_TOKEN", "HOLDFAST_URL")
"""What options of the command line may be given by."""


def unknown_names(groups: Iterable[type[Any]], env: Mapping[str, str]) -> list[str]:
    """A sentence for each HOLDFAST_ name in an environment that nobody reads: most are misspelt."""
    known = {prefixed(name) for group in groups for name, _, _ in describe(group)} | set(OF_COMMANDS)
    unknown = sorted(name for name in env if name.startswith(PREFIX) and name not in known)
    return [f"{name} is set, but there is no such setting{_meant(name, known)}." for name in unknown]


def misspelt_names(groups: Iterable[type[Any]], env: Mapping[str, str]) -> list[str]:
    """Of those, only the ones that are nearly the name of one of these settings: others may be another program's."""
    return [sentence for sentence in unknown_names(groups, env) if "you may mean" in sentence]


def _meant(name: str, known: set[str]) -> str:
    by_plain = {each.removeprefix(PREFIX): each for each in known}
    plain = name.removeprefix(PREFIX)
    near = nearest(plain, by_plain, 0.75) or next((each for each in by_plain if each.endswith(f"_{plain}")), None)
    return f"; you may mean {by_plain[near]}" if near else ""


def describe(group: type[Any]) -> list[tuple[str, str, str]]:
    """Name, default and meaning of each setting, for `--help` and the reference page."""
    rows = []
    for one in fields(group):
        if "env" in one.metadata:
            default = "unset" if one.default is None else str(one.default)
            rows.append((one.metadata["env"], default, one.metadata["doc"]))
    return rows
