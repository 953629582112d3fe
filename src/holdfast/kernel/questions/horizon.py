"""Says who keeps PostgreSQL from removing old row versions: for the console, `explain` and checks."""

from __future__ import annotations

from holdfast.kernel.kernel import Kernel
from holdfast.tables import horizon
from holdfast.tables.horizon import Horizon

HORIZON_LONG_S = 300.0
"""An open transaction is worth a word from here on."""


async def read_held_back(kernel: Kernel) -> str | None:
    """The same as `held_back`, of the kernel's database as it is now."""
    return held_back(await read_horizon(kernel))


async def read_horizon(kernel: Kernel) -> Horizon:
    """Who keeps old row versions now, however short."""
    async with kernel.store.reading() as tx:
        return await horizon.read(tx)


def held_back(view: Horizon) -> str | None:
    """Who keeps old row versions from being removed, in words; None while that is nobody, or not for long."""
    if view.open_s < HORIZON_LONG_S:
        return None
    who = f"{view.what} '{view.name}'" if view.name else f"{view.what} without a name"
    pid = f", pid {view.pid}" if view.pid is not None else ""
    return (
        f"A transaction has been open for {view.open_s / 60:.0f} min ({who}{pid}) and keeps {view.dead_versions:,} old "
        "row versions from being removed: tables and indexes grow until it ends."
    )
