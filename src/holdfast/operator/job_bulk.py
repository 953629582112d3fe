"""One act on many jobs: those that fit a query, a page at a time, or some by their ids.

A page says where the next one begins, so that whoever asked shows how far it is, and pauses or stops between two. Each
job is its own transaction: one that refuses says why and holds up nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from holdfast.core.control import Action
from holdfast.core.job import LIVE, PRIORITIES, State
from holdfast.errors import InvalidInput, NotAllowed, NotFound
from holdfast.kernel.questions.explain import iso
from holdfast.operator.desk import Desk
from holdfast.operator.ids import complete_id
from holdfast.operator.jobs import cancel_job, delete_job, query_jobs, run_job_now, set_priority
from holdfast.operator.mend import mend_and_replay
from holdfast.operator.page import PAGE_MAX, ListPage
from holdfast.operator.shape import shape_row
from holdfast.operator.story import find_letter
from holdfast.tables import jobs

COUNTED_MAX = 2_000


async def count_jobs(desk: Desk, text: str) -> dict[str, Any]:
    """How many jobs fit, by state; of a great many the newest are counted, and `is_all` is false."""
    counts: Counter[str] = Counter()
    page = ListPage(PAGE_MAX)
    while True:
        answer = await query_jobs(desk, page, text)
        counts.update("held" if item["parked"] else str(item["state"]) for item in answer["items"])
        if answer["next"] is None or counts.total() >= COUNTED_MAX:
            return {"counts": dict(counts), "is_all": answer["next"] is None}
        page = ListPage(PAGE_MAX, answer["next"])


async def act_on_jobs(
    desk: Desk,
    text: str,
    action: Action,
    *,
    actor: str,
    page: ListPage,
    ids: frozenset[str] | None = None,
    evidence: str | None = None,
    priority: int | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """The act for one page of the jobs that fit, or for those with these ids; `next` is where the page after it begins.
    `dry_run` only says which would be acted on, and which not."""
    if not text.strip() and ids is None:
        raise InvalidInput("Say which jobs: a query, or their ids.")
    if action == "priority" and priority not in PRIORITIES:
        raise InvalidInput(f"Say which priority: {PRIORITIES[0]} (urgent) to {PRIORITIES[-1]} (low).")
    answer = await query_jobs(desk, page, text) if ids is None else await _by_ids(desk, ids)
    done: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    for item in answer["items"]:
        entry = {"system": item["system"], "id": item["id"], "state": item["state"]}
        problem = _why_not(item, action, desk.narrow(item["system"]).systems[0].kernel.now())
        try:
            if problem is not None:
                raise NotAllowed(problem)
            if not dry_run:
                await _act(desk.narrow(item["system"]), item["id"], action, actor, evidence, priority)
            done.append(entry)
        except (NotAllowed, NotFound, InvalidInput) as error:
            refused.append({**entry, "detail": str(error)})
    return {"dry_run": dry_run, "action": action, "done": done, "refused": refused, "next": answer["next"]}


async def _by_ids(desk: Desk, ids: frozenset[str]) -> dict[str, Any]:
    items = []
    for job_id in sorted(ids):
        system, row = await desk.find(jobs.show, await complete_id(desk, "job", job_id), "job")
        items.append({"system": system.name, **shape_row(row)})
    return {"items": items, "next": None}


def _why_not(item: Mapping[str, Any], action: Action, now: int) -> str | None:
    state = State(item["state"])
    match action:
        case "cancel" | "priority":
            verb = "be cancelled" if action == "cancel" else "have another priority"
            return None if state in LIVE else f"It is {state}: only a job that has not ended can {verb}."
        case "run_now":
            if state is not State.QUEUED:
                return f"It is {state}: only a queued job can run now."
            return None if item["run_at"] > iso(now) else "It is due already."
        case "delete":
            return f"It is {state}: only a job that has ended can be deleted." if state in LIVE else None
        case "replay":
            return None if state is State.DEAD else f"It is {state}: only a dead job can be replayed."


async def _act(desk: Desk, job_id: str, action: Action, actor: str, evidence: str | None, priority: int | None) -> None:
    match action:
        case "cancel":
            await cancel_job(desk, job_id, actor)
        case "replay":
            await mend_and_replay(desk, await find_letter(desk, job_id), actor=actor, evidence=evidence)
        case "priority":
            await set_priority(desk, job_id, priority=-1 if priority is None else priority, actor=actor)
        case "run_now":
            await run_job_now(desk, job_id, actor=actor)
        case "delete":
            await delete_job(desk, job_id, actor=actor)
