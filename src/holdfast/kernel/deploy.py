"""What a deploy would leave behind: jobs of a database that the loaded code could not run."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.kernel.kernel import Kernel
from holdfast.kernel.kinds import declared_key
from holdfast.tables import jobs


class Stranded(NamedTuple):
    """Live jobs of one kind, stage and version of input that no stage of the loaded code takes."""

    kind: str
    stage: str
    version: int
    jobs: int
    oldest: int
    reason: str


async def stranded(kernel: Kernel) -> list[Stranded]:
    """Compare the loaded code with the jobs that have not ended; empty if it could run all of them."""
    declared = {key for kind in kernel.registry.kinds.values() for key in kind.declares()}
    async with kernel.store.reading() as tx:
        rows = await jobs.standing(tx, kernel.registry.queues)
    found = [row for row in rows if declared_key(row["kind"], row["stage"], row["version"]) not in declared]
    return [
        Stranded(row["kind"], row["stage"], row["version"], row["jobs"], row["oldest"], _reason(kernel, *list(row)[:3]))
        for row in found
    ]


def _reason(kernel: Kernel, kind: str, stage: str, version: int) -> str:
    known = kernel.registry.kinds.get(kind)
    if known is None:
        return f"no loaded app declares the kind '{kind}'"
    if stage not in known.by_name:
        return f"'{kind}' has no stage '{stage}', and none says that it was formerly that"
    if version > known.version:
        return f"their input has version {version}, and the loaded code knows up to {known.version}"
    return f"'{kind}' has no upgrade from version {version} of its input"
