"""Looks whether the database fits this code. Only `bring_forward` changes it by itself, before work starts, and only
where it may; to look never does."""

from __future__ import annotations

from holdfast.errors import SchemaMismatch
from holdfast.kernel.kernel import Kernel
from holdfast.stores.migration import Applied, describe_missing, describe_newer


async def bring_forward(kernel: Kernel) -> list[str]:
    """Before work starts: migrate if `auto_migrate` lets this process do it, else refuse what does not fit with a
    `SchemaMismatch`. A new SQLite file has no schema that anybody could wait for: whoever works first makes it whole.
    A newer schema that this code may run beside is logged. Returns the steps applied."""
    applied: list[str] = []
    present = list(await kernel.store.installed())
    is_new_file = kernel.store.has_one_writer and not present
    if kernel.auto_migrate or (is_new_file and kernel.makes_files):
        applied = await kernel.migrate()
    else:
        require_schema(kernel, present)
    for sentence in describe_newer(kernel.migrations, present):
        kernel.watch.log("schema.newer", detail=sentence)
    return applied


async def check_schema(kernel: Kernel) -> None:
    """Refuse a database that does not fit this code with a `SchemaMismatch` that says what to do. Only reads."""
    require_schema(kernel, list(await kernel.store.installed()))


def require_schema(kernel: Kernel, installed: list[Applied]) -> None:
    missing = describe_missing(kernel.migrations, installed, owner(kernel))
    if missing is not None:
        raise SchemaMismatch(missing)


def owner(kernel: Kernel) -> str:
    """Whose database it is, as a person knows it."""
    return (
        ", ".join(f"'{app.name}'" for app in kernel.registry.apps if app.kinds or app.migrations) or "this deployment"
    )
