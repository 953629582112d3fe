"""Jobs at the desk: find them, end one, bring one back."""

from __future__ import annotations

from typing import Any, TypedDict

from holdfast.core.case import CaseState, Cause
from holdfast.core.job import JobOrder, State
from holdfast.core.text_filter import TextFilter
from holdfast.errors import InvalidInput, NotFound
from holdfast.kernel import operate
from holdfast.kernel.declare.search_terms import Term, term_value
from holdfast.kernel.hands import place
from holdfast.operator.desk import Desk
from holdfast.operator.page import BY_ID, ListPage, Ordering, fetch_page, is_number_and_uuid, is_uuid
from holdfast.operator.query import TEXTS, Query, as_patterns, is_id_part, parse_query
from holdfast.tables import jobs, ops, search


class JobFilter(TypedDict, total=False):
    """Which jobs: all fields that are given must fit."""

    state: State | None
    kind: str | None
    queue: str | None
    stage: str | None
    provider: str | None
    owner: str | None


async def list_jobs(desk: Desk, page: ListPage, which: JobFilter) -> dict[str, Any]:
    """Jobs, the newest first."""
    texts = {name: TextFilter(str(value)) for name, value in which.items() if name != "state" and value is not None}
    return await _match(desk, page, Query(state=which.get("state"), **texts))  # type: ignore[arg-type]


async def query_jobs(desk: Desk, page: ListPage, text: str) -> dict[str, Any]:
    """Jobs by a query (`holdfast.operator.query`), the newest first unless it says otherwise. Text without a field, and
    what is no query, is taken for an id first: of a job, its key, its callback, its trace, its dead letter, an effect,
    a message."""
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


async def _look_up(desk: Desk, page: ListPage, text: str) -> dict[str, Any]:
    return await fetch_page(desk, page, BY_ID, ops.jobs_found, wanted=text.strip())


async def _match(desk: Desk, page: ListPage, query: Query) -> dict[str, Any]:
    term, is_declared = _choose_term(desk, query)
    return await fetch_page(
        desk,
        page,
        _ordering(query.sort),
        search.jobs_matching,
        order=query.sort,
        texts={name: text for name in TEXTS if (text := getattr(query, name)) is not None},
        state=query.state,
        held=query.held,
        from_id=query.from_id,
        to_id=query.to_id,
        created_from=query.created_from,
        created_to=query.created_to,
        inputs=(*query.inputs, *(as_patterns(text) for text in query.texts)),
        term=term,
        is_declared=is_declared,
    )


def _ordering(order: JobOrder) -> Ordering:
    columns = search.SORTED_BY[order]
    is_valid = is_uuid if len(columns) == 1 else is_number_and_uuid
    return Ordering(columns, columns[0], is_valid, order in search.DESCENDING)


def _choose_term(desk: Desk, query: Query) -> tuple[Term | None, bool]:
    """The first term that some kind declares as a search field, and whether all kinds that the query asks for do."""
    kinds = [kind for system in desk.systems for kind in system.kernel.registry.kinds.values()]
    asked = [kind for kind in kinds if query.kind in (None, TextFilter(kind.name))]
    for path, value in query.terms:
        if any(path in kind.search for kind in kinds):
            is_declared = query.kind is not None and all(path in kind.search for kind in asked)
            return (path, term_value(value)), bool(asked) and is_declared
    return None, False


async def cancel_job(desk: Desk, job_id: str, actor: str) -> dict[str, Any]:
    """End a job that has not ended."""
    system, _ = await desk.find(jobs.show, job_id, "job")
    await operate.cancel(system.kernel, job_id, actor)
    return {"system": system.name, "id": job_id, "state": State.CANCELLED}


async def set_priority(desk: Desk, job_id: str, *, priority: int, actor: str) -> dict[str, Any]:
    """Give a job that has not ended another priority: 0 is urgent, 3 low."""
    system, _ = await desk.find(jobs.show, job_id, "job")
    await place.set_priority(system.kernel, job_id, priority, actor=actor)
    return {"system": system.name, "id": job_id, "priority": priority}


async def run_job_now(desk: Desk, job_id: str, *, actor: str) -> dict[str, Any]:
    """Make a job due that is queued for later."""
    system, _ = await desk.find(jobs.show, job_id, "job")
    await place.run_now(system.kernel, job_id, actor=actor)
    return {"system": system.name, "id": job_id, "state": State.QUEUED}


async def delete_job(desk: Desk, job_id: str, *, actor: str) -> dict[str, Any]:
    """Delete a job that has ended, with its history."""
    system, _ = await desk.find(jobs.show, job_id, "job")
    await place.delete(system.kernel, job_id, actor=actor)
    return {"system": system.name, "id": job_id}


async def retry_job(desk: Desk, job_id: str, *, cause: Cause, evidence: str, actor: str) -> dict[str, Any]:
    """Take a dead job through triage, remediation and replay; steps that were taken before are not taken again."""
    system, _ = await desk.find(jobs.show, job_id, "job")
    kernel = system.kernel
    async with kernel.store.reading() as tx:
        case = await ops.case_of_job(tx, job_id)
    if case is None:
        raise NotFound(f"Job {job_id} has no dead letter; only a dead job can be retried by hand.")
    if case.state != CaseState.REMEDIATED:
        await operate.triage(kernel, case.id, cause=cause, actor=actor)
    await operate.remediate(kernel, case.id, evidence=evidence, actor=actor)
    await operate.replay(kernel, case.id, actor=actor)
    return {"system": system.name, "id": job_id, "state": State.QUEUED}
