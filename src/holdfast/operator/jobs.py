"""Jobs at the desk: find them, see one with its whole story, end it, bring it back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypedDict

from holdfast.core.case import CaseState, Cause
from holdfast.core.job import State
from holdfast.errors import InvalidInput, NotFound
from holdfast.kernel import operate
from holdfast.kernel.explain import explain
from holdfast.kernel.kernel import Kernel
from holdfast.operator.desk import Desk
from holdfast.operator.page import BY_ID, Page, fetch_page
from holdfast.operator.query import Query, as_patterns, is_id_part, parse_query
from holdfast.operator.shape import shape_row
from holdfast.stores.seam import Row
from holdfast.tables import audit, calls, cases, effects, events, jobs, ops, outbox, results, search


class JobFilter(TypedDict, total=False):
    """Which jobs: all fields that are given must fit."""

    state: State | None
    kind: str | None
    queue: str | None
    stage: str | None
    provider: str | None
    owner: str | None


async def list_jobs(desk: Desk, page: Page, which: JobFilter) -> dict[str, Any]:
    """Jobs, the newest first."""
    return await fetch_page(desk, page, BY_ID, ops.jobs_page, **which)


async def query_jobs(desk: Desk, page: Page, text: str) -> dict[str, Any]:
    """Jobs by a query (`holdfast.operator.query`), the newest first. Text without a field, and what is no query, is
    taken for an id first: of a job, its key, its callback, its trace, its dead letter, an effect, a message."""
    now = desk.systems[0].kernel.now() if desk.systems else 0
    try:
        query = parse_query(text, now)
    except InvalidInput:  # an id may hold anything, colons and quotes too
        found = await _look_up(desk, page, text)
        if found["items"]:
            return found
        raise
    if not query.has_only_texts():
        return await _match(desk, page, query)
    found = await _look_up(desk, page, text)
    if found["items"]:
        return found
    return await _match(desk, page, parse_query(f"id:{text.strip()}", now) if is_id_part(text.strip()) else query)


async def _look_up(desk: Desk, page: Page, text: str) -> dict[str, Any]:
    return await fetch_page(desk, page, BY_ID, ops.jobs_found, wanted=text.strip())


async def _match(desk: Desk, page: Page, query: Query) -> dict[str, Any]:
    which = {field.name: getattr(query, field.name) for field in fields(query) if field.name != "texts"}
    which["inputs"] = (*query.inputs, *(as_patterns(text) for text in query.texts))
    return await fetch_page(desk, page, BY_ID, search.jobs_matching, **which)


async def show_job(desk: Desk, job_id: str) -> dict[str, Any]:
    """A job with its whole story, and in words why it is where it is."""
    system, row = await desk.find(jobs.show, job_id, "job")
    why = await explain(system.kernel, job_id)
    story = await _read_story(system.kernel, job_id, row)
    return {"system": system.name, **shape_row(row), "why": why.sentence, "why_facts": why.facts, **story}


async def _read_story(kernel: Kernel, job_id: str, job: Row) -> dict[str, Any]:
    async with kernel.store.reading() as tx:
        paid = [shape_row(row) for row in await calls.of_job(tx, job_id)]
        known = await ops.case_of_job(tx, job_id)
        letter = await cases.show(tx, known["id"]) if known is not None else None
        return {
            "events": [shape_row(row) for row in await events.of_job(tx, job_id)],
            "results": [shape_row(row) for row in await results.of_job(tx, job_id)],
            "calls": paid,
            "cost_micros": sum(call["cost_micros"] for call in paid),
            "effects": [shape_row(row) for row in await effects.of_job(tx, job_id)],
            "outbox": [shape_row(row) for name in _aggregates(job) for row in await outbox.of_aggregate(tx, name)],
            "dead_letter": shape_row(letter) if letter is not None else None,
            "audit": [shape_row(row) for row in await audit.of_subject(tx, f"job:{job_id}")],
        }


def _aggregates(job: Row) -> list[str]:
    """What the messages of a job are filed under: its id, or the key that its sender knows it by."""
    return list(dict.fromkeys(filter(None, (job["id"], job["job_key"]))))


async def cancel_job(desk: Desk, job_id: str, actor: str) -> dict[str, Any]:
    """End a job that has not ended."""
    system, _ = await desk.find(jobs.show, job_id, "job")
    await operate.cancel(system.kernel, job_id, actor)
    return {"system": system.name, "id": job_id, "state": State.CANCELLED}


async def retry_job(desk: Desk, job_id: str, *, cause: Cause, evidence: str, actor: str) -> dict[str, Any]:
    """Take a dead job through triage, remediation and replay; steps that were taken before are not taken again."""
    system, _ = await desk.find(jobs.show, job_id, "job")
    kernel = system.kernel
    async with kernel.store.reading() as tx:
        case = await ops.case_of_job(tx, job_id)
    if case is None:
        raise NotFound(f"Job {job_id} has no dead letter; only a dead job can be retried by hand.")
    if case["state"] != CaseState.REMEDIATED:
        await operate.triage(kernel, case["id"], cause=cause, actor=actor)
    await operate.remediate(kernel, case["id"], evidence=evidence, actor=actor)
    await operate.replay(kernel, case["id"], actor=actor)
    return {"system": system.name, "id": job_id, "state": State.QUEUED}
