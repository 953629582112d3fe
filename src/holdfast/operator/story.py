"""One job at the desk: its whole story, in words and on a time axis; and the answer that it waits for."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from holdfast.core.family import JOIN_KEY
from holdfast.core.job import State
from holdfast.core.redact import redact
from holdfast.errors import NotAllowed, NotFound
from holdfast.kernel.compose.waiting import answer
from holdfast.kernel.questions.explain import explain, iso
from holdfast.operator.desk import Desk
from holdfast.operator.shape import shape_row
from holdfast.operator.waterfall import Bar, Call, EffectBar, JobEvent, draw_waterfall
from holdfast.stores.seam import Tx
from holdfast.tables import answers, audit, calls, cases, effects, events, jobs, joins, logs, ops, outbox, results
from holdfast.tables.job_rows import JobDetails

CHILDREN_SHOWN = 100


async def show_job(desk: Desk, job_id: str) -> dict[str, Any]:
    """A job with its whole story, and in words why it is where it is."""
    system, row = await desk.find(jobs.show, job_id, "job")
    why = await explain(system.kernel, job_id)
    async with system.kernel.store.reading() as tx:
        story = await _read_story(tx, job_id, row)
    about = {"system": system.name, **shape_row(row), "now": iso(system.kernel.now())}
    return {**about, "why": why.sentence, "why_facts": why.facts, **story}


async def _read_story(tx: Tx, job_id: str, job: JobDetails) -> dict[str, Any]:
    known = await ops.case_of_job(tx, job_id)
    letter = await cases.show(tx, known.id) if known is not None else None
    happened = await events.of_job(tx, job_id)
    made = await calls.of_job(tx, job_id)
    sent = await effects.of_job(tx, job_id)
    done = await results.of_job(tx, job_id)
    stages = {int(row.attempt): str(row.stage) for row in done}
    bars = draw_waterfall(
        [JobEvent(row.seq, row.attempt, row.type, row.at, row.data) for row in happened],
        [Call._make(row) for row in made],
        [EffectBar._make(row) for row in sent],
        stages,
        str(job.stage),
    )
    paid = [shape_row(row) for row in made]
    return {
        "waterfall": [shape_bar(bar) for bar in bars],
        "parent": await joins.parent_of(tx, job_id),
        "children": [shape_row(row) for row in await joins.children_of(tx, job_id, CHILDREN_SHOWN)],
        "joins": [shape_row(row) for row in await joins.of_parent(tx, job_id)],
        "logs": [{"attempt": row.attempt, **json.loads(row.lines)} for row in await logs.of_job(tx, job_id)],
        "events": [shape_row(row) for row in happened],
        "results": [shape_row(row) for row in done],
        "calls": paid,
        "cost_micros": sum(call["cost_micros"] for call in paid),
        "answers": [shape_row(row) for row in await answers.of_job(tx, job_id)],
        "effects": [shape_row(row) for row in sent],
        "outbox": [shape_row(row) for name in _aggregates(job) for row in await outbox.of_aggregate(tx, name)],
        "dead_letter": shape_row(letter) if letter is not None else None,
        "audit": [shape_row(row) for row in await audit.of_subject(tx, f"job:{job_id}")],
    }


def shape_bar(bar: Bar) -> dict[str, Any]:
    """A bar as JSON, redacted as the rows are."""
    until = None if bar.until is None else iso(bar.until)
    return asdict(bar) | {"since": iso(bar.since), "until": until, "reason": str(redact(bar.reason))}


def _aggregates(job: JobDetails) -> list[str]:
    """What the messages of a job are filed under: its id, or the key that its sender knows it by."""
    return list(dict.fromkeys(filter(None, (job.id, job.job_key))))


async def find_letter(desk: Desk, job_id: str) -> str:
    """The id of a job's dead letter."""
    system, _ = await desk.find(jobs.show, job_id, "job")
    async with system.kernel.store.reading() as tx:
        case = await ops.case_of_job(tx, job_id)
    if case is None:
        raise NotFound(f"Job {job_id} has no dead letter.")
    return str(case.id)


async def answer_job(desk: Desk, job_id: str, value: Any, actor: str) -> dict[str, Any]:
    """Give a waiting job the answer that it waits for. The first answer of a key stands."""
    system, job = await desk.find(jobs.show, job_id, "job")
    key = job.wait_key
    if job.state != State.WAITING or key is None:
        raise NotAllowed(f"Job {job_id} is {job.state}; only a job that waits for an answer can be given one.")
    if key.startswith(JOIN_KEY):
        raise NotAllowed(f"Job {job_id} waits for its children; it goes on when the last of them has ended.")
    delivered = await answer(system.kernel, key, json.dumps(value, ensure_ascii=False, allow_nan=False))
    async with system.kernel.store.transaction() as tx:
        await audit.write(tx, actor, "job.answered", f"job:{job_id}", {"key": key}, system.kernel.now())
    return {"system": system.name, "id": job_id, "key": key, "delivered": delivered}
