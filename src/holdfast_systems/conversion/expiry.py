"""Removes what has had its time: results past retention, sources nobody needs, and files that belong to nobody.

A row says that a file is gone before the file goes; so no answer ever promises a file that a sweep has taken. A sweep
that dies half-way leaves files without a row that needs them, and the next one finds those.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from holdfast import JobTx
from holdfast.kit import Kernel
from holdfast.kit.tables import Tx, events, jobs
from holdfast_systems.conversion import documents, results
from holdfast_systems.conversion.results import checked_uuid, in_thread
from holdfast_systems.conversion.settings import ConversionSettings
from holdfast_systems.conversion.uploads import sweep_partials
from holdfast_systems.conversion.webhook import announce

BATCH = 200
# Not the kernel's own 'expired', which ends a job at its deadline: this job has long succeeded.
RESULT_EXPIRED = "result_expired"
PARTIAL_GRACE_S = 3_600.0

Needs = Callable[[Tx, list[str]], Awaitable[documents.Needed]]


def expiry_step(settings: ConversionSettings, wall_s: Callable[[], float]) -> Callable[[Kernel], Awaitable[int]]:
    async def expire(kernel: Kernel) -> int:
        return await expire_once(kernel, settings, wall_s)

    return expire


async def expire_once(kernel: Kernel, settings: ConversionSettings, wall_s: Callable[[], float] = time.time) -> int:
    """One round of every sweep; returns how many rows changed. Any number of processes may run it."""
    changed = await _expire_results(kernel, settings)
    changed += await _retire_sources(kernel, settings)
    async with kernel.store.transaction() as tx:
        changed += await documents.forget(tx, kernel.now() - int(kernel.tuning.retention_s * 1_000), BATCH)
    if not changed:
        await _sweep_orphans(kernel, settings, settings.uploads, documents.needed_sources, wall_s())
        await _sweep_orphans(kernel, settings, settings.results, documents.needed_results, wall_s())
    return changed


async def _expire_results(kernel: Kernel, settings: ConversionSettings) -> int:
    async with kernel.store.reading() as tx:
        due = await documents.expiring(tx, kernel.now(), BATCH)
    expired = 0
    for job_id, sha256 in due:
        async with kernel.store.transaction() as tx:
            mine = await _expire(kernel, tx, job_id)
        if mine:
            await results.remove(settings.results, job_id, sha256)
        expired += mine
    return expired


async def _expire(kernel: Kernel, tx: Tx, job_id: str) -> int:
    now = kernel.now()
    job = await jobs.lock_one(tx, job_id)  # first, as everywhere: the job, then its document
    if not await documents.expire(tx, job_id, now):
        return 0
    if job is not None:
        await events.append(tx, [(job_id, job[0].attempt, RESULT_EXPIRED, None)], now)
        await tx.notify("events")
    await announce(JobTx(kernel, tx), job_id, now)
    return 1


async def _retire_sources(kernel: Kernel, settings: ConversionSettings) -> int:
    async with kernel.store.transaction() as tx:
        gone = await documents.retire_sources(tx, kernel.now(), BATCH)
    for name in gone:
        await in_thread(partial((settings.uploads / name).unlink, missing_ok=True))
    return len(gone)


async def _sweep_orphans(
    kernel: Kernel, settings: ConversionSettings, folder: Path, needs: Needs, now_s: float
) -> None:
    """Files have the file system's clock, so their age is told by the machine's and not by the store's."""
    await in_thread(sweep_partials, folder, PARTIAL_GRACE_S, now_s)
    old = await in_thread(_old_files, folder, now_s - settings.orphan_grace_s)
    for start in range(0, len(old), BATCH):
        part = old[start : start + BATCH]
        async with kernel.store.reading() as tx:
            keep = await needs(tx, sorted({job_id for job_id, _ in part}))
        for job_id, path in part:
            if job_id not in keep or (keep[job_id] or "") not in path.name:
                await in_thread(partial(path.unlink, missing_ok=True))


def _old_files(folder: Path, before_s: float) -> list[tuple[str, Path]]:
    """Our files in the folder that are older, with the id in their name. What is not ours is left alone."""
    found = []
    for path in sorted(folder.iterdir()):
        with suppress(ValueError, FileNotFoundError):
            if path.suffix in (".pdf", ".xml") and path.stat().st_mtime < before_s:
                found.append((checked_uuid(path.name.split(".")[0]), path))
    return found
