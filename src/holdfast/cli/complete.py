"""What the shell offers when you press Tab: the names that this installation knows. It never fails and never prints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.kernel.app import App

Offer = Callable[[str], list[str]]


def _offering(names: Callable[[], Iterable[str]]) -> Offer:
    def offer(incomplete: str) -> list[str]:
        try:
            return sorted(name for name in set(names()) if name.startswith(incomplete))
        except Exception:  # a broken setting or system must not break the terminal it is typed at
            return []

    return offer


def typed(env: Mapping[str, str]) -> list[str]:
    """The words before the one that is being typed, as bash tells them, or zsh and fish."""
    line = env.get("COMP_WORDS") or env.get("_TYPER_COMPLETE_ARGS", "")
    return line.split()[1 : None if line[-1:].isspace() else -1]


def _systems() -> Iterable[str]:
    from holdfast.main import SYSTEMS

    return (point.name for point in entry_points(group=SYSTEMS))  # found, not imported: this is at every key press


def _apps() -> list[App]:
    from holdfast.main import load_systems

    return [system.build(os.environ) for system in load_systems()]


def _providers() -> Iterable[str]:
    from holdfast.kernel.kernel import Registry

    return Registry(_apps()).providers


def _kinds() -> Iterable[str]:
    from holdfast.kernel.kernel import Registry

    return Registry(_apps()).kinds


def _roles() -> Iterable[str]:
    from holdfast.http.auth import known_roles
    from holdfast.main import load_systems

    return known_roles(load_systems())


systems, providers, kinds, roles = map(_offering, (_systems, _providers, _kinds, _roles))
