"""What came of a soak, counted from outside; and the long form, as a command.

python -m tests.acceptance.soak_verdict --minutes 10          prints its figures, exits 1 if a promise broke
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from holdfast.stores.postgres import PostgresStore
from holdfast.tables.schema import KERNEL
from holdfast_systems.grading import grading_service, main_app
from tests.acceptance.grading_fixtures import warm
from tests.acceptance.grading_site import GradingSite
from tests.acceptance.model_endpoint import Model
from tests.acceptance.process import Nursery
from tests.acceptance.soak import GONE_S, Plan, Soak
from tests.acceptance.soak_provider import SPOKEN, PaidCall, SoakModel, serving
from tests.services.postgres import PostgresServer
from tests.services.rabbitmq import RabbitMQServer

FINAL = ("grading.completed", "grading.review_required", "grading.failed")
PROGRESS = {"writing": 2, "speaking": 4}
"""How often a grading reports its progress: once when it is accepted, and once a stage."""
BEFORE_S = 20
"""How long before a call it is told what was done to everybody: a process may have been stopped since."""
EXTRA_MAX = 0.005
"""How many answered calls may have been asked for again, of all."""
_LOST = "SELECT COALESCE(SUM(crashes), 0) AS lost, COALESCE(SUM(failures), 0) AS failed, COUNT(*) AS jobs"

_LEFT = (
    "SELECT id, state, stage, attempt, failures, crashes, parked, hold, is_due, provider, lease_owner, lease_until,"
    " run_at, created_at, not_before, tally, LEFT(error, 300) AS error,"
    " (SELECT string_agg(type || ' ' || attempt || ' ' || at, ', ' ORDER BY e.seq) FROM holdfast_job_events AS e"
    " WHERE e.job_id = j.id) AS events FROM holdfast_jobs AS j WHERE state <> 'succeeded' LIMIT 40",
    "SELECT name, gate, updated_at FROM holdfast_breakers",
    "SELECT status, COUNT(*) AS n, MIN(available_at) AS available_at, MAX(retry_count) AS retries,"
    " MAX(error_message) AS error FROM holdfast_outbox GROUP BY status",
    "SELECT CAST(extract(epoch FROM now()) * 1000 AS bigint) AS now",
)
_UNSETTLED = (
    "SELECT id, request_id, status, version FROM submissions WHERE status IN ('PENDING', 'PROCESSING') LIMIT 40"
)


def figures(soak: Soak) -> dict[str, Any]:
    """Everything that was counted."""
    site, model, seen = soak.site, soak.model, soak.figures
    outcomes = Counter(call.outcome for call in model.calls)
    finals = Counter(row["n"] for row in site.in_main(_finals()))
    states = site.in_main("SELECT status, COUNT(*) AS n FROM submissions GROUP BY status ORDER BY status")
    jobs = site.in_service(_LOST + ", COUNT(*) FILTER (WHERE state <> 'succeeded') AS unfinished FROM holdfast_jobs")
    told = site.in_main("SELECT kind, COUNT(*) AS n FROM processed_callbacks GROUP BY kind ORDER BY kind")
    skills = site.in_main("SELECT skill, COUNT(*) AS n FROM submissions GROUP BY skill ORDER BY skill")
    return {
        "faults": seen.faults,
        "posts": dict(seen.posts),
        "accepted": len(seen.accepted),
        "submissions": sum(row["n"] for row in states),
        "skills": {row["skill"]: row["n"] for row in skills},
        "states": {row["status"]: row["n"] for row in states},
        "submissions by number of final events": dict(finals),
        "callbacks": {row["kind"]: row["n"] for row in told},
        "jobs": dict(jobs[0]),
        "calls": Counter(call.provider for call in model.calls),
        "outcomes": dict(outcomes),
        "answered again": model.answered_again(),
        "charged again, keys ignored": model.charged_again(honoured=False),
        "charged again, keys honoured": model.charged_again(honoured=True),
        "calls without a key": sum(not call.key for call in model.calls),
        "waits asked for": len(model.holds),
        "calls inside a wait": model.early(),
        "SIGTERM": {"count": len(seen.terms_s), "longest s": round(max(seen.terms_s, default=0), 1)},
        "healed s": round(seen.healed_s, 1),
        "paid again": [_told(soak, text, calls) for text, calls in model.again().items()],
    }


def _told(soak: Soak, text: str, calls: list[PaidCall]) -> list[str]:
    """How it came that a text was answered twice: its calls, what the service wrote of its job, and what was done to
    everybody meanwhile, in the order of time."""
    began, ended = calls[0].at_s - BEFORE_S, calls[-1].ended_s
    name = text.removeprefix(SPOKEN)
    events = soak.site.in_service(
        "SELECT e.at / 1000.0 AS at, e.type, e.attempt FROM holdfast_every_event AS e"
        f" JOIN grading_jobs AS g ON g.job_id = e.job_id WHERE g.submission_id = '{soak.figures.named[name]}'"
    )
    told = [(call.at_s, f"called for '{text}', {call.key[:6]}") for call in calls]
    told += [(call.ended_s, f"{call.outcome}, {call.key[:6]}") for call in calls]
    told += [(float(event["at"]), f"job: {event['type']}, attempt {event['attempt']}") for event in events]
    told += [(at, what) for at, what in soak.figures.story if began <= at <= ended]
    return [f"{at - began:.2f} {what}" for at, what in sorted(told)]


def _finals() -> str:
    kinds = ", ".join(f"'{kind}'" for kind in FINAL)
    return (
        f"SELECT COUNT(e.event_id) AS n FROM submissions AS s LEFT JOIN submission_events AS e"
        f" ON e.submission_id = s.id AND e.kind IN ({kinds}) GROUP BY s.id"
    )


def broken(soak: Soak, counted: dict[str, Any]) -> list[str]:
    """The promises that did not hold, each in a sentence."""
    accepted, calls = counted["accepted"], max(1, counted["outcomes"].get("answered", 0))
    findings = list(soak.figures.broken)
    if not counted["submissions"] == accepted == len(set(soak.figures.accepted.values())):
        findings.append(f"{accepted} were accepted, and {counted['submissions']} are there")
    if set(counted["submissions by number of final events"]) != {1}:
        findings.append(f"not one final event each: {counted['submissions by number of final events']}")
    if counted["jobs"]["unfinished"] or counted["jobs"]["jobs"] != accepted:
        findings.append(f"jobs of the service: {counted['jobs']}")
        findings += [str(dict(row)) for query in _LEFT for row in soak.site.in_service(query)]
        findings += [str(dict(row)) for row in soak.site.in_main(_UNSETTLED)]
    due = sum(PROGRESS[skill] * number for skill, number in counted["skills"].items())
    if counted["callbacks"].get("progress", 0) > due:
        findings.append(f"progress was reported more than once: {counted['callbacks']}, and {due} are due")
    if counted["answered again"] > calls * EXTRA_MAX:
        findings.append(f"{counted['answered again']} of {calls} answered calls were asked for again")
    if counted["charged again, keys honoured"]:
        findings.append(f"{counted['charged again, keys honoured']} were charged again under another key")
    if counted["calls without a key"]:
        findings.append(f"{counted['calls without a key']} calls had no key")
    if counted["calls inside a wait"]:
        findings.append(f"{counted['calls inside a wait']} calls came before the time that the provider asked for")
    if counted["SIGTERM"]["longest s"] > GONE_S + 1:  # looked at once a second
        findings.append(f"a process lived {counted['SIGTERM']['longest s']} s after SIGTERM")
    return findings


async def _long(minutes: float, rate: float, seed: int, heal_s: float, pause_s: tuple[float, float]) -> int:
    postgres, rabbitmq = PostgresServer(), RabbitMQServer()
    rabbitmq.begin()
    postgres.begin()
    rabbitmq.wait_ready()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-soak-"))
    nursery = Nursery(folder)
    nursery.warm(f"{warm.__module__}:{warm.__name__}")
    count = int(minutes * 60 * rate)
    plan = Plan(minutes * 60, count, 2, 2, has_celery=True, pause_s=pause_s, heal_s=heal_s, lease_s=15, restarts=True)
    try:
        urls = postgres.create_database(), postgres.create_database()
        for url, migrations in zip(urls, (main_app.MIGRATIONS, grading_service.MIGRATIONS), strict=True):
            store = PostgresStore(url)
            await store.migrate([*KERNEL, *migrations])
            await store.close()
        with serving(SoakModel(seed)) as model:
            site = GradingSite(*urls, rabbitmq.create_vhost(), nursery, folder, Model())
            soak = Soak(site, model, plan, seed, (postgres, rabbitmq))
            await soak.run()
            counted = figures(soak)
            findings = broken(soak, counted)
            for system in ("grading-main", "grading-service"):
                code, said = await site.run("audit", "--system", system)
                findings += [said] if code else []
    finally:
        nursery.close()
        rabbitmq.stop()
        postgres.stop()
    print(json.dumps({"seed": seed, **counted, "broken": findings}, indent=2))
    return 1 if findings else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rate", type=float, default=3, help="submissions a second")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    pause = "seconds from one fault to the next, least and most"
    parser.add_argument("--pause", type=float, nargs=2, default=(1, 6), help=pause)
    parser.add_argument("--heal", type=float, default=600, help="seconds in which everything must end after the faults")
    given = parser.parse_args()
    sys.exit(asyncio.run(_long(given.minutes, given.rate, given.seed, given.heal, tuple(given.pause))))


if __name__ == "__main__":
    main()
