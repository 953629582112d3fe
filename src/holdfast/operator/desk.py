"""The open systems of a deployment, and how one thing is found among them.

Several systems are several databases: an id is looked up in all of them, and a name may be narrowed to one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from holdfast.errors import NotFound, StoreUnavailable, SystemAmbiguous
from holdfast.operator.shape import shape_row
from holdfast.stores.seam import Tx
from holdfast.system import OpenSystem

ReadRows = Callable[[Tx], Awaitable[Sequence[NamedTuple]]]
R = TypeVar("R")
ReadOne = Callable[[Tx, str], Awaitable[R | None]]


@dataclass(frozen=True, slots=True)
class Desk:
    """What an operator works at. Cheap to make: it holds the systems and nothing else. Those that are `awaited` have a
    database that does not answer: they are named, and not asked."""

    systems: Sequence[OpenSystem]
    awaited: Sequence[OpenSystem] = ()

    def answering(self) -> Desk:
        """With the systems that are still awaited set aside."""
        return Desk(
            [system for system in self.systems if not system.is_awaited],
            [system for system in self.systems if system.is_awaited],
        )

    def narrow(self, name: str | None) -> Desk:
        """The desk of one system only; None leaves it as it is."""
        if name is None:
            return self
        if any(system.name == name for system in self.awaited):
            raise StoreUnavailable(f"The database of '{name}' does not answer.")
        chosen = [system for system in self.systems if system.name == name]
        if not chosen:
            known = ", ".join(system.name for system in self.systems)
            raise NotFound(f"No system named '{name}' runs here; known: {known}.")
        return Desk(chosen)

    async def read_all(self, read: ReadRows) -> list[dict[str, Any]]:
        """A short list that needs no pages: the rows of every system, each with its name."""
        items: list[dict[str, Any]] = []
        for system in self.systems:
            async with system.kernel.store.reading() as tx:
                items += [{"system": system.name, **shape_row(row)} for row in await read(tx)]
        return items

    async def find(self, read: ReadOne[R], id: str, noun: str) -> tuple[OpenSystem, R]:
        """The system whose database has this id, and the row. What cannot be an id is not there either."""
        if _is_id(id):
            for system in self.systems:
                async with system.kernel.store.reading() as tx:
                    row = await read(tx, id)
                if row is not None:
                    return system, row
        raise self.missing(f"There is no {noun} {id}")

    def missing(self, sentence: str) -> NotFound | StoreUnavailable:
        """What is not there, or may be where nobody answers."""
        if not self.awaited:
            return NotFound(f"{sentence}.")
        away = ", ".join(f"'{system.name}'" for system in self.awaited)
        return StoreUnavailable(f"{sentence} in what answers; the database of {away} does not.")

    def find_provider(self, name: str) -> OpenSystem:
        """The system that declares a provider; where two do, the caller must say which."""
        declaring = [system for system in self.systems if name in system.kernel.registry.providers]
        if not declaring:
            raise NotFound(f"No system here declares a provider named '{name}'.")
        if len(declaring) > 1:
            raise SystemAmbiguous(f"a provider named '{name}'", [system.name for system in declaring])
        return declaring[0]


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
