"""Who does the sweeps for a deployment. A lease like a job's: taken when nobody has it or its time is over."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements

sql = load_statements(Path(__file__).with_suffix(".sql"))


class Lease(NamedTuple):
    owner: str
    until: int


async def take(tx: Tx, name: str, owner: str, until: int, now: int) -> bool:
    """Take the lease, or renew it. False: it is another's."""
    given = {"name": name, "owner": owner, "lease_until": until}
    return bool(await tx.rows(sql.renew, now=now, **given) or await tx.rows(sql.begin, **given))


async def look(tx: Tx, name: str) -> Lease | None:
    """Who has it, or had it last."""
    rows = await tx.rows(sql.look, name=name)
    return Lease(rows[0]["owner"], rows[0]["lease_until"]) if rows else None


async def release(tx: Tx, name: str, owner: str) -> None:
    """Let the next process have it at once."""
    await tx.rows(sql.release, name=name, owner=owner)


async def owners(tx: Tx) -> list[str]:
    return [row["owner"] for row in await tx.rows(sql.owners)]


async def release_owned(tx: Tx, owner: str) -> None:
    """End the leases of a process that is known to be gone."""
    await tx.rows(sql.release_owned, owner=owner)


async def forget(tx: Tx, before: int) -> None:
    await tx.rows(sql.forget, before=before)
