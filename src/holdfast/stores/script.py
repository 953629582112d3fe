"""The SQL of a migration as a script, for people who apply schema changes by means of their own."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.stores.migration import SCHEMA_TABLE, Applied, Patience, pending
from holdfast.stores.seam import Dialect
from holdfast.stores.statement import Migration, index_name

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
    parts = [f"{text};" for text in prepare_statements(applied)]
    return "\n\n".join([*parts, *[_step(step, dialect, patience) for step in steps]]) + "\n"


def prepare_statements(applied: Sequence[Applied]) -> list[str]:
    """What has to be there before the first step can be recorded."""
    if applied and all(one.oldest is None for one in applied):
        return [SCHEMA_TABLE, "ALTER TABLE holdfast_schema ADD COLUMN oldest INTEGER"]
    return [SCHEMA_TABLE]


def record_statement(step: Migration, dialect: Dialect) -> str:
    """Says in the database that it has had the step."""
    return (
        f"INSERT INTO holdfast_schema (namespace, version, applied_at, oldest)\n"
        f"VALUES ('{step.namespace}', {step.version}, {NOW_MS[dialect]}, {step.oldest})"
    )


def repeatable_statements(step: Migration, dialect: Dialect) -> list[str]:
    """The step's statements for a tool that may be killed and does not ask what it left: an index that is made outside
    a transaction is dropped first, because a half-made one has its name already and is of no use."""
    texts = step.statements(dialect)
    if not step.runs_outside(dialect):
        return texts
    drops = {text: f"DROP INDEX CONCURRENTLY IF EXISTS {index_name(text)}" for text in texts}
    return [each for text in texts for each in dict.fromkeys((drops[text], text))]


def _step(step: Migration, dialect: Dialect, patience: Patience) -> str:
    statements = [f"{text};" for text in repeatable_statements(step, dialect)]
    record = f"{record_statement(step, dialect)};"
    lines = [f"-- {step.name}"]
    if step.runs_outside(dialect):
        return "\n".join([*lines, "-- Outside a transaction: writers go on meanwhile.", *statements, record])
    lines.append("BEGIN;")
    if dialect == "postgres":
        lines.append(f"SET LOCAL lock_timeout = '{int(1_000 * patience.lock_s)}ms';")
    return "\n".join([*lines, *statements, record, "COMMIT;"])
