"""The SQL of a migration as a script, for people who apply schema changes by means of their own."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.stores.migration import SCHEMA_TABLE, Applied, Patience, pending
from holdfast.stores.seam import Dialect
from holdfast.stores.statement import Migration

NOW_MS = {
    "postgres": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
    "sqlite": "1000 * CAST(strftime('%s', 'now') AS INTEGER)",
}


def script(migrations: Sequence[Migration], applied: Sequence[Applied], dialect: Dialect, patience: Patience) -> str:
    """What `migrate` would do, for psql or sqlite3: each step with its record in a transaction of its own. Empty when
    nothing is pending. Tell the program to stop at the first error: what was not applied can be printed again."""
    steps = pending(migrations, applied)
    if not steps:
        return ""
    parts = [f"{SCHEMA_TABLE};"]
    if applied and all(one.oldest is None for one in applied):
        parts.append("ALTER TABLE holdfast_schema ADD COLUMN oldest INTEGER;")
    return "\n\n".join([*parts, *[_step(step, dialect, patience) for step in steps]]) + "\n"


def _step(step: Migration, dialect: Dialect, patience: Patience) -> str:
    statements = [f"{text};" for text in step.statements(dialect)]
    record = (
        f"INSERT INTO holdfast_schema (namespace, version, applied_at, oldest)\n"
        f"VALUES ('{step.namespace}', {step.version}, {NOW_MS[dialect]}, {step.oldest});"
    )
    lines = [f"-- {step.name}"]
    if dialect == "postgres" and step.is_concurrent:
        return "\n".join([*lines, "-- Outside a transaction: writers go on meanwhile.", *statements, record])
    lines.append("BEGIN;")
    if dialect == "postgres":
        lines.append(f"SET LOCAL lock_timeout = '{int(1_000 * patience.lock_s)}ms';")
    return "\n".join([*lines, *statements, record, "COMMIT;"])
