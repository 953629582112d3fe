"""Holdfast's schema under the migrations of somebody else: what their tool runs, statement by statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from holdfast.errors import StoreError
from holdfast.kernel.kernel import Registry, every_migration
from holdfast.stores.migration import Applied, pending
from holdfast.stores.script import prepare_statements, record_statement, repeatable_statements
from holdfast.stores.seam import DIALECTS, Dialect, schema_on

INSTALLED = "SELECT * FROM holdfast_schema"


def dialect_of(name: str) -> Dialect:
    """The dialect behind the name that SQLAlchemy and Django have for a database."""
    if name not in DIALECTS:
        raise StoreError(f"Holdfast works on SQLite and PostgreSQL; this migration is on {name}.")
    return DIALECTS[name]


def schema_in(registry: Registry, dialect: Dialect) -> str | None:
    """The schema that the apps name, where the database has schemas."""
    return schema_on(dialect, registry.schema)


def steps_in(rows: Sequence[Mapping[str, Any]]) -> list[Applied]:
    """The steps that a database has had, from the rows of `INSTALLED`."""
    return [Applied(row["namespace"], row["version"], row.get("oldest")) for row in rows]


def apply_pending(
    registry: Registry,
    dialect: Dialect,
    applied: Sequence[Applied],
    execute: Callable[[str], object],
    outside: Callable[[], AbstractContextManager[Any]],
    inside: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> list[str]:
    """Execute what is pending, each step with its record; return the names of the steps. `outside` leaves the tool's
    transaction, for steps that build their indexes while writers go on; `inside` begins one where the tool has none."""
    steps = pending(every_migration(registry), applied)
    for statement in prepare_statements(applied) if steps else ():
        execute(statement)
    for step in steps:
        if step.runs_outside(dialect):
            with outside():
                _execute_all(repeatable_statements(step, dialect), execute)
            execute(record_statement(step, dialect))
        else:
            with inside():
                _execute_all([*step.statements(dialect), record_statement(step, dialect)], execute)
    return [step.name for step in steps]


def _execute_all(statements: Sequence[str], execute: Callable[[str], object]) -> None:
    for statement in statements:
        execute(statement)
