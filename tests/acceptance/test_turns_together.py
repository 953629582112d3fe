"""Limits per key over processes that start at the same moment, and after one of them was killed: exact all the same."""

from __future__ import annotations

import signal

import pytest

from holdfast.core.turns import MINUTE_MS
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import submit_many
from tests.acceptance.apps.limited import AT_ONCE, PER_MINUTE, Piece, limited
from tests.acceptance.deployment import Deployment, kind, rows
from tests.acceptance.grading_site import PATIENCE_S
from tests.acceptance.process import until

pytestmark = pytest.mark.slow

OWNERS = ("ann", "bob", "cleo")
CRAWLS, PINGS = 20, 12
WORKERS = 4
# Each worker would take as much as it can, and looks all the time.
EAGER = {"WORKER_CONCURRENCY": "16", "HOLDFAST_POLL_SEC": "0.05", "WORKER_LEASE_TTL_SEC": "2"}
LIVE = "SELECT COUNT(*) AS n FROM holdfast_jobs WHERE kind = 'limited.crawl' AND finished_at IS NULL"
STARTS = "SELECT owner, turn_at FROM holdfast_jobs WHERE kind = 'limited.ping' AND turn_at IS NOT NULL ORDER BY turn_at"


@pytest.mark.spec("K25")
async def test_workers_that_start_together_keep_every_limit(either_site: Deployment) -> None:
    site = either_site
    async with site.kernel(limited) as kernel:
        for owner in OWNERS:
            crawls = [Piece(owner, number) for number in range(CRAWLS)]
            await submit_many(kernel, kind(kernel, "crawl"), crawls, owner=owner)
            pings = [Piece(owner, number) for number in range(PINGS)]
            await submit_many(kernel, kind(kernel, "ping"), pings, owner=owner)
        workers = [site.worker("limited", **EAGER) for _ in range(WORKERS)]

        async def several_work() -> bool:
            return len(pids(site)) >= 2

        await until(several_work, "several workers to have begun something", PATIENCE_S, process=workers[0])
        workers[0].send(signal.SIGKILL)  # its places come free with its leases, and not before

        async def crawled() -> bool:
            return (await rows(kernel, LIVE))[0]["n"] == 0

        await until(crawled, "everything without a limit a minute to end", PATIENCE_S, process=workers[1])
        await no_minute_is_too_full(kernel)
        for worker in workers:
            worker.send(signal.SIGTERM)
        for worker in workers[1:]:
            assert await worker.until_ended() == 0, worker.tail()
        ended = await rows(kernel, "SELECT DISTINCT state FROM holdfast_jobs WHERE kind = 'limited.crawl'")
        assert ended == [{"state": "succeeded"}]
    notes = [note.split() for note in site.ledger.notes()]
    assert most_at_once(notes) <= AT_ONCE


def pids(site: Deployment) -> set[str]:
    return {note.split()[-1] for note in site.ledger.notes()}


def most_at_once(notes: list[list[str]]) -> int:
    """The most crawls that one owner had begun at a moment. One whose worker was killed is begun until it ends."""
    begun: dict[str, set[str]] = {owner: set() for owner in OWNERS}
    most = 0
    for word, job, owner, number, _ in notes:
        if job != "crawl":
            continue
        (begun[owner].add if word == "began" else begun[owner].discard)(number)
        most = max(most, len(begun[owner]))
    return most


async def no_minute_is_too_full(kernel: Kernel) -> None:
    """Each owner's minute is used up, and the rest waits, parked."""

    async def starts() -> dict[str, list[int]] | None:
        by_owner: dict[str, list[int]] = {owner: [] for owner in OWNERS}
        for row in await rows(kernel, STARTS):
            by_owner[row["owner"]].append(row["turn_at"])
        return by_owner if all(len(times) >= PER_MINUTE for times in by_owner.values()) else None

    for owner, times in (await until(starts, "the minute of every owner to be used", PATIENCE_S) or {}).items():
        spans = [later - sooner for sooner, later in zip(times, times[PER_MINUTE:], strict=False)]
        assert all(span >= MINUTE_MS for span in spans), f"{owner}: {spans}"
