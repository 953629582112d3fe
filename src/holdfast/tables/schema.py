"""The kernel's schema, as steps that only go forward."""

from __future__ import annotations

from pathlib import Path

from holdfast.stores.statement import Migration, load_migrations

KERNEL: list[Migration] = load_migrations("holdfast", Path(__file__).parent / "migrations")
