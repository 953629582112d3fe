"""What a deploy leaves behind: jobs that the loaded code could not run, and those that no running worker declares.

Why so: docs/decisions/0009-a-worker-claims-what-it-declares.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.kernel.kernel import Kernel
from holdfast.kernel.kinds import declared_key
from holdfast.kernel.upkeep.relocate import find_queues
from holdfast.stores.seam import Tx
from holdfast.tables import depth, workers
from holdfast.tables.depth import LaneHead, LaterHead


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
        await find_queues(kernel, tx, again=True)
        rows = await depth.standing(tx, kernel.queues)
    unfit = [row for row in rows if declared_key(row.kind, row.stage, row.version) not in declared]
    return [Stranded(*row, _reason(kernel, row.kind, row.stage, row.version)) for row in unfit]


class Undeclared(NamedTuple):
    """Due jobs of one kind and stage that no running worker declares, as far as they stand in front."""

    kind: str
    stage: str
    jobs: int


async def undeclared(kernel: Kernel, tx: Tx, due: Mapping[str, Sequence[LaneHead | LaterHead]]) -> list[Undeclared]:
    """What waits for code that nobody runs, of the `due` jobs in front of each queue: what nobody claims comes to stand
    there, however long the queue is. Empty without any worker: then nothing is declared, and all of it waits."""
    now = kernel.now()
    counts: Counter[tuple[str, str]] = Counter()
    for queue in kernel.queues:
        sets = await workers.declaring(tx, queue, now - workers.FRESH_MS)
        if not sets or not all(sets):  # a worker of older code does not say what it declares
            continue
        declared = frozenset().union(*sets)
        for row in due.get(queue, ()):
            if declared_key(row.kind, row.stage, row.version) not in declared:
                counts[row.kind, row.stage] += row.jobs
    return [Undeclared(kind, stage, number) for (kind, stage), number in sorted(counts.items())]


def _reason(kernel: Kernel, kind: str, stage: str, version: int) -> str:
    known = kernel.registry.kinds.get(kind)
    if known is None:
        return f"no loaded app declares the kind '{kind}'"
    if stage not in known.by_name:
        return f"'{kind}' has no stage '{stage}', and none says that it was formerly that"
    if version > known.version:
        return f"their input has version {version}, and the loaded code knows up to {known.version}"
    return f"'{kind}' has no upgrade from version {version} of its input"
