"""What must hold on a deployment after its faults, whatever they were. Read from its tables and its provider."""

from __future__ import annotations

import importlib.util
from collections import Counter
from typing import Any

from holdfast.kernel.kernel import Kernel
from tests.acceptance.deployment import Deployment, rows

ENDS = ("succeeded", "buried", "expired", "cancelled")
BACK = ("advanced", "retried", "lost", "held", "released", "snoozed", "rewound")
# What may follow in a job's history; `stale` is news about an attempt that no longer counts, and changes nothing.
AFTER = {
    None: ("claimed", "parked", "expired", "cancelled"),
    "claimed": (*BACK, *ENDS, "waiting"),
    "parked": ("claimed", "parked", "expired", "cancelled"),
    "waiting": ("advanced", "succeeded", "expired", "cancelled"),
    "replayed": ("claimed", "parked", "expired", "cancelled"),
    **dict.fromkeys(BACK, ("claimed", "parked", "expired", "cancelled")),
    "buried": ("replayed",),
    "expired": ("replayed",),
    "succeeded": (),
    "cancelled": (),
}


async def verify(site: Deployment, kernel: Kernel, *, zombies: bool = False) -> dict[str, Any]:
    """Check everything; return the counts. `zombies`: a stopped process may have sent after it lost its lease, which
    no lookup can prevent (docs/reliability.md), so that a second effect of the class `lookup` is not a defect."""
    jobs = await rows(kernel, "SELECT CAST(id AS TEXT) AS id, kind, state, attempt, epoch FROM holdfast_jobs")
    assert jobs, "nothing ran"
    assert {job["state"] for job in jobs} <= {"succeeded", "dead", "cancelled"}
    await histories(kernel, {job["id"]: job for job in jobs})
    await _effects(site, kernel, zombies)
    await _messages(kernel)
    await _audited(kernel)
    return dict(Counter((job["kind"], job["state"]) for job in jobs))


async def histories(kernel: Kernel, jobs: dict[str, dict[str, Any]]) -> None:
    """Only legal steps; every claim raises the attempt by one; one end per epoch, and the row says the same."""
    text = "SELECT CAST(job_id AS TEXT) AS id, attempt, type FROM holdfast_every_event ORDER BY seq, part"
    told = await rows(kernel, text)
    last: dict[str, str | None] = dict.fromkeys(jobs)
    attempts: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    for one in told:
        if one["type"] in ("stale", "progress"):
            continue
        before = last[one["id"]]
        assert one["type"] in AFTER[before], f"job {one['id']}: {one['type']} came after {before}"
        last[one["id"]] = one["type"]
        attempts[one["id"]] += one["type"] == "claimed"
        assert one["attempt"] == attempts[one["id"]], f"job {one['id']}: {one} is of another attempt"
        ends[one["id"]] += one["type"] in ENDS
    for job_id, job in jobs.items():
        assert last[job_id] in ENDS, f"job {job_id} is {job['state']} after {last[job_id]}"
        assert (last[job_id] == "succeeded") == (job["state"] == "succeeded")
        assert (ends[job_id], attempts[job_id]) == (job["epoch"] + 1, job["attempt"])


async def _effects(site: Deployment, kernel: Kernel, zombies: bool) -> None:
    ledger = site.ledger
    found = ledger.effects()
    ledger.close()
    twice = {name for name, count in found.items() if count > 1}
    assert {name for name in twice if not (zombies and name[0] == "mail")} == set(), "an effect happened twice"
    planned = await rows(kernel, "SELECT key, token, provider, status, provider_id FROM holdfast_effects")
    for effect in planned:
        happened = found[effect["provider"], effect["token"]]
        assert effect["status"] in ("sent", "review", "planned", "failed"), f"in doubt for ever: {effect}"
        if effect["status"] == "sent":
            assert happened >= 1 and effect["provider_id"], f"marked without an effect: {effect}"
        elif effect["status"] != "review":
            assert happened == 0, f"an effect that nobody knows of: {effect}"
    assert set(found) <= {(effect["provider"], effect["token"]) for effect in planned}


async def _messages(kernel: Kernel) -> None:
    """Every order that succeeded has one message out, one booking by its consumer and one receipt."""
    stuck = await rows(kernel, "SELECT id FROM holdfast_outbox WHERE status <> 'published'")
    assert stuck == []
    done = "FROM holdfast_jobs WHERE state = 'succeeded' AND kind ="
    asked = {
        "orders": f"SELECT COUNT(*) AS n {done} 'orders.order'",
        "messages": "SELECT COUNT(*) AS n FROM holdfast_outbox",
        "aggregates": "SELECT COUNT(DISTINCT aggregate_id) AS n FROM holdfast_outbox",
        "inbox": "SELECT COUNT(*) AS n FROM holdfast_inbox",
        "bookings": "SELECT COUNT(*) AS n FROM holdfast_jobs WHERE kind = 'orders.booking'",
    }
    counts = {name: (await rows(kernel, text))[0]["n"] for name, text in asked.items()}
    assert len(set(counts.values())) == 1, counts
    receipts = (await rows(kernel, "SELECT COUNT(*) AS n FROM holdfast_jobs WHERE kind = 'orders.receipt'"))[0]["n"]
    assert receipts >= counts["orders"]


async def _audited(kernel: Kernel) -> None:
    if importlib.util.find_spec("holdfast.operator.audit") is None:
        return
    from holdfast.operator.audit import audit

    assert [str(finding) for finding in await audit(kernel)] == []


STILL = {
    "jobs": "SELECT * FROM holdfast_jobs ORDER BY id",
    "effects": "SELECT * FROM holdfast_effects ORDER BY key",
    "outbox": "SELECT * FROM holdfast_outbox ORDER BY seq",
    "inbox": "SELECT * FROM holdfast_inbox ORDER BY consumer, message_id",
    "events": "SELECT * FROM holdfast_job_events WHERE type <> 'stale' ORDER BY seq",
    "results": "SELECT * FROM holdfast_results WHERE is_late = 0 ORDER BY job_id, stage",
    "dead letters": "SELECT * FROM holdfast_dead_letters ORDER BY id",
}


async def snapshot(kernel: Kernel) -> dict[str, list[dict[str, Any]]]:
    """Everything that a worker without a lease must not change. News of a stale attempt is not part of it."""
    return {name: await rows(kernel, text) for name, text in STILL.items()}


def assert_untouched(before: dict[str, list[dict[str, Any]]], after: dict[str, list[dict[str, Any]]]) -> None:
    """Nothing has changed, but that evidence may have come for an effect that a person was asked about."""
    asked = {effect["key"] for effect in before["effects"] if effect["status"] == "review"}
    for effect in after["effects"]:
        if effect["key"] in asked and effect["status"] != "review":
            assert effect["status"] == "sent" and effect["provider_id"], effect
    for name, was in before.items():
        now = {str(row) for row in after[name] if row.get("key") not in asked}
        then = {str(row) for row in was if row.get("key") not in asked}
        assert now ^ then == set(), f"a process without its lease has written {name}"
