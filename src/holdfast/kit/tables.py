"""The kernel's tables, for a system that writes its own beside them: statements, migrations, transactions, and a module
for each family of rows."""

from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_migrations, load_statements
from holdfast.tables import audit, batch, cases, effects, events, idempotency, inbox, jobs, outbox, providers, secrets

__all__ = [
    "Row",
    "Tx",
    "audit",
    "batch",
    "cases",
    "effects",
    "events",
    "idempotency",
    "inbox",
    "jobs",
    "load_migrations",
    "load_statements",
    "outbox",
    "providers",
    "secrets",
]
