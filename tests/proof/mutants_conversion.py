"""Planted bugs of the conversion system: what must catch each, and within how many seeds. Production holds none."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.tables import jobs as kernel_jobs
from holdfast_systems.conversion import accept, documents, expiry, results
from tests.proof import mutants_effects, mutants_jobs, mutants_world
from tests.proof.plant import Mutant, respelled, swapped


@contextmanager
def cancel_overwritten_by_a_result() -> Iterator[None]:
    """Whoever finishes last has the last word."""
    with mutants_jobs.unfenced_completion():
        yield


@contextmanager
def retry_keeps_spent_attempts() -> Iterator[None]:
    """A retry by hand goes on where the budget ended."""
    with respelled(kernel_jobs.sql, "revive", ("failures = 0, ", "")):
        yield


@contextmanager
def marked_before_it_is_written() -> Iterator[None]:
    """The document is complete a moment before its file is."""
    intact = results.save

    async def save(folder: Path, job_id: str, xml: bytes) -> results.StoredResult:
        async def later() -> None:
            await asyncio.sleep(3)
            await intact(folder, job_id, xml)

        writing = asyncio.ensure_future(later())
        writing.add_done_callback(lambda done: done.cancelled() or done.exception())
        sha256 = hashlib.sha256(xml).hexdigest()
        return results.StoredResult(results.path_of(folder, job_id, sha256), len(xml), sha256)

    with swapped(results, "save", save):
        yield


@contextmanager
def dispatch_while_held() -> Iterator[None]:
    """Nobody asks the breaker."""
    with mutants_world.open_breaker_ignored():
        yield


@contextmanager
def late_worker_overwrites() -> Iterator[None]:
    """A job has one file, which whoever comes last has written. It was so, until a seed showed it."""

    def path_of(folder: Path, job_id: str, sha256: str) -> Path:
        return folder / f"{job_id}.xml"

    async def needed(tx: Any, job_ids: Any) -> Any:
        return dict.fromkeys(await documents_needed(tx, job_ids))

    documents_needed = documents.needed_results
    with swapped(results, "path_of", path_of), swapped(documents, "needed_results", needed):
        yield


@contextmanager
def webhook_token_per_attempt() -> Iterator[None]:
    """The receiver cannot tell a repetition from another event."""
    with mutants_effects.attempt_in_token():
        yield


@contextmanager
def limits_not_checked() -> Iterator[None]:
    """A user may upload as much as he likes."""

    async def never(*known: Any) -> None:
        pass

    with swapped(accept, "hold_to", never), swapped(accept, "check", lambda *known: None):
        yield


@contextmanager
def half_written_files_stay() -> Iterator[None]:
    """Nobody removes what a process left when it died in the middle of a write."""
    with swapped(expiry, "sweep_partials", lambda *known: 0):
        yield


@contextmanager
def sweep_takes_what_is_needed() -> Iterator[None]:
    """The sweep of orphans does not know that a result is there to be fetched."""
    with respelled(documents.sql, "needed_results", ("WHERE (d.outcome = 'complete' OR ", "WHERE (1 = 0 OR ")):
        yield


MUTANTS = (
    Mutant(cancel_overwritten_by_a_result, ("C8", "S2", "S3", "S4"), 100),
    Mutant(retry_keeps_spent_attempts, ("C7", "S12"), 40),
    Mutant(marked_before_it_is_written, ("C5", "C8"), 40),
    Mutant(dispatch_while_held, ("C4", "S14"), 100),
    Mutant(late_worker_overwrites, ("C5",), 150),
    Mutant(webhook_token_per_attempt, ("C12", "S9"), 40),
    Mutant(limits_not_checked, ("C12",), 100),
    Mutant(half_written_files_stay, ("C1", "C5"), 60),
    Mutant(sweep_takes_what_is_needed, ("C5",), 40),
)
