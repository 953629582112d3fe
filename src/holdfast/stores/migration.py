"""What a database has had of its schema, what is missing, and which code may run beside it.

Schemas go forward by expanding first and contracting later: a step that only adds names the oldest code that may go on
beside it, so that old processes restart, and a rollback starts, on the newer schema. What nobody uses any more is taken
away by a later step, which raises that bound.

Why so: docs/decisions/0012-migrations-expand-then-contract.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from holdfast.errors import SchemaMismatch
from holdfast.stores.statement import Migration

SCHEMA_TABLE = """CREATE TABLE IF NOT EXISTS holdfast_schema (
  namespace TEXT NOT NULL, version INTEGER NOT NULL, applied_at BIGINT NOT NULL, oldest INTEGER,
  PRIMARY KEY (namespace, version))"""


@dataclass(frozen=True, slots=True)
class Applied:
    """One step that a database has had, and the oldest code that may run beside it (None: from before that was
    recorded)."""

    namespace: str
    version: int
    oldest: int | None


def _keep_quiet(sentence: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Patience:
    """How a migration waits for locks: each try holds up others for at most `lock_s`; between tries they go on; after
    `wait_s` of tries it gives up. `report` hears in a sentence who holds the lock."""

    lock_s: float = 1.0
    wait_s: float = 300.0
    report: Callable[[str], None] = _keep_quiet


PATIENCE = Patience()


def pending(migrations: Sequence[Migration], applied: Iterable[Applied]) -> list[Migration]:
    """The steps still to apply, in order. A database that this code may not run beside is a `SchemaMismatch`."""
    found = list(applied)
    refuse_newer(migrations, found)
    had = _versions(found)
    todo = {step.name: step for step in migrations if step.version > had.get(step.namespace, 0)}
    return sorted(todo.values(), key=lambda step: (step.namespace != "holdfast", step.namespace, step.version))


def refuse_newer(migrations: Sequence[Migration], applied: Sequence[Applied]) -> None:
    """Raise `SchemaMismatch` if the database has had a step that this code may not run beside."""
    had = _versions(applied)
    for namespace, known in newest(migrations).items():
        oldest = max((one.oldest or one.version for one in applied if one.namespace == namespace), default=0)
        if had.get(namespace, 0) > known and known < oldest:
            raise SchemaMismatch(
                f"The database's '{namespace}' schema is version {had[namespace]} and takes no code older than version "
                f"{oldest}; it is newer than this code, which knows up to {known}: upgrade Holdfast before using it."
            )


def describe_newer(migrations: Sequence[Migration], applied: Iterable[Applied]) -> list[str]:
    """In sentences, where the database is ahead of this code."""
    had = _versions(applied)
    return [
        f"The database's '{namespace}' schema is version {had[namespace]}, this code knows up to {known}, and may run "
        "beside it."
        for namespace, known in newest(migrations).items()
        if had.get(namespace, 0) > known
    ]


def describe_missing(migrations: Sequence[Migration], applied: Sequence[Applied], owner: str) -> str | None:
    """In a sentence, what the database of `owner` lacks for this code, or None. Raises `SchemaMismatch` as
    `pending` does."""
    todo = pending(migrations, applied)
    if not todo:
        return None
    if not applied:
        return f"The database of {owner} has no Holdfast tables; run holdfast migrate."
    had, step = _versions(applied), todo[-1]
    return (
        f"The database of {owner} has version {had.get(step.namespace, 0)} of the '{step.namespace}' schema, this code "
        f"needs {step.version}; run holdfast migrate."
    )


def newest(migrations: Iterable[Migration]) -> dict[str, int]:
    """The newest step of every namespace."""
    return _versions(migrations)


def _versions(steps: Iterable[Applied | Migration]) -> dict[str, int]:
    found: dict[str, int] = {}
    for step in steps:
        found[step.namespace] = max(step.version, found.get(step.namespace, 0))
    return found
