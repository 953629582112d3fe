"""Holdfast's tables in your Alembic migrations, so that one command brings the whole database forward.

    # versions/17_holdfast.py                       # env.py
    from holdfast.contrib.alembic import upgrade_holdfast   from holdfast.contrib.alembic import include_name

    def upgrade() -> None:                          context.configure(..., include_name=include_name)
        upgrade_holdfast(op, app)

Write a revision like this after each upgrade of Holdfast that has new steps; what the database has had is not repeated.
It works online, and with `--sql`: then it prints all steps, because nobody can ask the database what it has had.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from sqlalchemy import inspect, text

from holdfast.contrib.steps import INSTALLED, apply_pending, dialect_of, schema_in, steps_in
from holdfast.kernel.app import App
from holdfast.kernel.kernel import Registry
from holdfast.stores.migration import Applied


def upgrade_holdfast(op: Any, *apps: App) -> list[str]:
    """Bring the tables forward to what this version of Holdfast and these apps need; return the names of the steps that
    were applied. `op` is Alembic's, in a revision. Tables go into the apps' schema, if they name one."""
    context, registry = op.get_context(), Registry(apps)
    dialect = dialect_of(context.dialect.name)
    schema = schema_in(registry, dialect)
    execute = partial(_execute, op)
    with _looking_in(op, schema):
        applied = [] if context.as_sql else _installed(op.get_bind(), schema)
        return apply_pending(registry, dialect, applied, execute, context.autocommit_block)


def include_name(name: str | None, kind: str, parents: Any) -> bool:
    """For `context.configure`: keeps `--autogenerate` and `alembic check` from dropping Holdfast's own tables."""
    return not (kind == "table" and name is not None and name.startswith("holdfast_"))


@contextmanager
def _looking_in(op: Any, schema: str | None) -> Iterator[None]:
    """Make the schema and let what is named without one be in it, for a while."""
    if schema is None:
        yield
        return
    _execute(op, f"CREATE SCHEMA IF NOT EXISTS {schema}")
    is_printed = op.get_context().as_sql
    before = None if is_printed else op.get_bind().execute(text("SHOW search_path")).scalar()
    _execute(op, f"SET search_path TO {schema}")
    yield
    _execute(op, "RESET search_path" if before is None else f"SET search_path TO {before}")


def _installed(connection: Any, schema: str | None) -> list[Applied]:
    if not inspect(connection).has_table("holdfast_schema", schema=schema):
        return []
    return steps_in(connection.execute(text(INSTALLED)).mappings().all())


def _execute(op: Any, statement: str) -> None:
    """As it stands: a colon in it is no parameter."""
    op.execute(text(statement.replace(":", "\\:")))
