"""Holdfast's tables in your Django migrations, so that `manage.py migrate` brings the whole database forward.

    from django.db import migrations
    from holdfast.contrib.django_tables import holdfast_tables
    from shop.jobs import app

    class Migration(migrations.Migration):
        atomic = False
        dependencies = [("shop", "0016_orders")]
        operations = [holdfast_tables(app)]

Write a migration like this after each upgrade of Holdfast that has new steps; no step is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib import import_module
from typing import Any

from holdfast.contrib.steps import INSTALLED, apply_pending, dialect_of, schema_in, steps_in
from holdfast.errors import StoreError
from holdfast.kernel.app import App
from holdfast.kernel.kernel import Registry
from holdfast.stores.migration import Applied


def holdfast_tables(*apps: App) -> Any:
    """An operation that brings the tables forward to what this version of Holdfast and these apps need, each step in a
    transaction of its own. Going back leaves them: they are empty of meaning to older code, and harmless."""
    run_python = import_module("django.db.migrations").RunPython
    return run_python(partial(_forward, Registry(apps)), run_python.noop, atomic=False)


def _forward(registry: Registry, _: Any, editor: Any) -> None:
    connection = editor.connection
    if connection.in_atomic_block:
        raise StoreError("Some steps build indexes while writers go on: set atomic = False in this Migration class.")
    dialect = dialect_of(connection.vendor)
    schema = schema_in(registry, dialect)
    atomic = partial(import_module("django.db.transaction").atomic, using=connection.alias)
    with connection.cursor() as cursor, _looking_in(cursor, schema):
        applied = _installed(cursor, schema, connection.introspection.table_names(cursor))
        apply_pending(registry, dialect, applied, cursor.execute, nullcontext, inside=atomic)


@contextmanager
def _looking_in(cursor: Any, schema: str | None) -> Iterator[None]:
    """Make the schema and let what is named without one be in it, for a while."""
    if schema is None:
        yield
        return
    cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    cursor.execute("SHOW search_path")
    (before,) = cursor.fetchone()
    cursor.execute(f"SET search_path TO {schema}")
    try:
        yield
    finally:
        cursor.execute(f"SET search_path TO {before}")


def _installed(cursor: Any, schema: str | None, tables: list[str]) -> list[Applied]:
    if schema is not None:
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [f"{schema}.holdfast_schema"])
        has_any = cursor.fetchone()[0]
    else:
        has_any = "holdfast_schema" in tables
    if not has_any:
        return []
    cursor.execute(INSTALLED)
    names = [column[0] for column in cursor.description]
    return steps_in([dict(zip(names, row, strict=True)) for row in cursor.fetchall()])
