"""What settings there are, by name: for the reference page, and for names that nobody reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any


def unknown_names(groups: Iterable[type[Any]], env: Mapping[str, str]) -> list[str]:
    """A sentence for each HOLDFAST_ name in an environment that nobody reads: most are misspelt."""
    known = {name for group in groups for name, _, _ in describe(group)} | {"HOLDFAST_APP"}
    unknown = sorted(name for name in env if name.startswith("HOLDFAST_") and name not in known)
    return [f"{name} is set, but there is no such setting{_meant(name, known)}." for name in unknown]


def _meant(name: str, known: set[str]) -> str:
    by_plain = {each.removeprefix("HOLDFAST_"): each for each in known}
    near = get_close_matches(name.removeprefix("HOLDFAST_"), by_plain, n=1, cutoff=0.75)
    return f"; you may mean {by_plain[near[0]]}" if near else ""


def describe(group: type[Any]) -> list[tuple[str, str, str]]:
    """Name, default and meaning of each setting, for `--help` and the reference page."""
    rows = []
    for one in fields(group):
        if "env" in one.metadata:
            default = "unset" if one.default is None else str(one.default)
            rows.append((one.metadata["env"], default, one.metadata["doc"]))
    return rows
