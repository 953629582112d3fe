"""The operator's API: look at jobs, breakers, outbox, effects, costs, workers and the audit, and act on them.

Several systems are several databases: every item names its `system`, ids are looked up in all of them, and
`?system=` narrows. Every act is audited under the token's `sub`. Dead letters have a module of their own.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from holdfast.core.job import State
from holdfast.errors import NotAllowed, NotFound
from holdfast.http.auth import Principal
from holdfast.http.ops_cases import router as cases_router
from holdfast.http.ops_reach import (
    BY_ID,
    BY_KEY,
    OPERATOR,
    Filter,
    Limit,
    Paging,
    SystemName,
    Words,
    by_sequence,
    every,
    holder,
    provider_holder,
    shaped,
    systems_of,
)
from holdfast.http.ops_report import router as report_router
from holdfast.http.snapshot import BreakerView, snapshot
from holdfast.kernel import operate
from holdfast.kernel.effects import answer
from holdfast.kernel.explain import explain, iso
from holdfast.kernel.hold import force
from holdfast.kernel.horizon import held_back
from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Row, Tx
from holdfast.system import OpenSystem
from holdfast.tables import audit, breakers, calls, cases, depth, effects, events, jobs, ops, outbox, results

router = APIRouter(prefix="/api/ops", tags=["operations"], dependencies=[OPERATOR])
router.include_router(cases_router)
router.include_router(report_router)

Operator = Annotated[Principal, OPERATOR]
MESSAGE_STATUS = Literal["pending", "published", "failed"]
EFFECT_STATUS = Literal["planned", "sending", "unknown", "sent", "failed", "review"]


class Reason(BaseModel):
    reason: Words = Field(default="by hand", min_length=1)


class EffectAnswer(BaseModel):
    """A person's word about an effect that nobody else can know of."""

    key: Words = Field(min_length=1)
    sent: bool
    provider_id: Words | None = None


@router.get("/overview")
async def overview(request: Request, system: SystemName = None) -> dict[str, Any]:
    """Each system at a glance: depth, age, lag, dead letters, breakers, workers."""
    return {"items": [await _glance(one) for one in systems_of(request, system)]}


async def _glance(one: OpenSystem) -> dict[str, Any]:
    view = await snapshot(one.kernel)
    due = [lane.oldest_age_s for lane in view.lanes if lane.state == "queued"]
    async with one.kernel.store.reading() as tx:
        ended = await depth.finished_since(tx, view.now - 3_600_000)
    return {
        "system": one.name,
        "title": one.system.title,
        "runs_jobs": bool(one.kernel.registry.kinds),
        "lanes": [{"queue": lane.queue, "state": lane.state, "jobs": lane.jobs} for lane in view.lanes],
        "oldest_age_s": max(due, default=0.0),
        "finished_last_hour": [shaped(row) for row in ended],
        "outbox_pending": view.outbox_pending,
        "outbox_lag_s": view.outbox_lag_s,
        "dead_letters": view.dead_letters,
        "dead_letters_open": view.dead_letters_open,
        "breakers_not_closed": [b.name for b in view.breakers if b.state.gate != "closed"],
        "workers": view.workers_alive,
        "undeclared": [each._asdict() for each in view.undeclared],
        "held_back": held_back(view.horizon),
    }


@router.get("/jobs")
async def list_jobs(
    asked: Paging,
    state: State | None = None,
    kind: Filter = None,
    queue: Filter = None,
    stage: Filter = None,
    provider: Filter = None,
    owner: Filter = None,
    q: Filter = None,
) -> dict[str, Any]:
    """Jobs, the newest first. `q` finds by any id: of a job, its key, its callback, its trace, its dead letter."""
    if q:
        return await asked.page(BY_ID, ops.jobs_found, wanted=q)
    filters = {"state": state, "kind": kind, "queue": queue, "stage": stage, "provider": provider, "owner": owner}
    return await asked.page(BY_ID, ops.jobs_page, **filters)


@router.get("/jobs/{job_id}")
async def show_job(request: Request, job_id: UUID, system: SystemName = None) -> dict[str, Any]:
    """One job with its whole story, and in words why it is where it is."""
    one, row = await holder(systems_of(request, system), jobs.show, job_id, "job")
    why = await explain(one.kernel, str(job_id))
    story = await _story(one.kernel, str(job_id), row)
    return {"system": one.name, **shaped(row), "why": why.sentence, "why_facts": why.facts, **story}


def _aggregates(job: Row) -> list[str]:
    """What the messages of a job are filed under: its id, or the key that its sender knows it by."""
    return list(dict.fromkeys(filter(None, (job["id"], job["job_key"]))))


async def _story(kernel: Kernel, job_id: str, job: Row) -> dict[str, Any]:
    async with kernel.store.reading() as tx:
        paid = [shaped(row) for row in await calls.of_job(tx, job_id)]
        known = await ops.case_of_job(tx, job_id)
        letter = await cases.show(tx, known["id"]) if known is not None else None
        return {
            "events": [shaped(row) for row in await events.of_job(tx, job_id)],
            "results": [shaped(row) for row in await results.of_job(tx, job_id)],
            "calls": paid,
            "cost_micros": sum(one["cost_micros"] for one in paid),
            "effects": [shaped(row) for row in await effects.of_job(tx, job_id)],
            "outbox": [shaped(row) for name in _aggregates(job) for row in await outbox.of_aggregate(tx, name)],
            "dead_letter": shaped(letter) if letter is not None else None,
            "audit": [shaped(row) for row in await audit.of_subject(tx, f"job:{job_id}")],
        }


@router.post("/jobs/{job_id}/cancel")
async def cancel_job(request: Request, job_id: UUID, who: Operator, system: SystemName = None) -> dict[str, Any]:
    """End a job that has not ended."""
    one, _ = await holder(systems_of(request, system), jobs.show, job_id, "job")
    await operate.cancel(one.kernel, str(job_id), who.sub)
    return {"system": one.name, "id": str(job_id), "state": State.CANCELLED}


@router.get("/breakers")
async def list_breakers(request: Request, system: SystemName = None) -> dict[str, Any]:
    """Every provider's breaker: its gate, why, until when, and how many jobs wait for it."""
    items: list[dict[str, Any]] = []
    for one in systems_of(request, system):
        view = await snapshot(one.kernel)
        items += [_breaker(one, breaker, view.now) for breaker in view.breakers]
    return {"items": items}


def _breaker(one: OpenSystem, view: BreakerView, now: int) -> dict[str, Any]:
    policy = one.kernel.registry.provider(view.name).breaker
    state = view.state
    return {
        "system": one.name,
        "name": view.name,
        "gate": state.gate,
        "reason": state.reason,
        "forced": state.forced,
        "opened_at": iso(state.opened_at) if state.opened_at else None,
        "open_until": iso(state.open_until) if state.open_until else None,
        "open_s": view.open_s(now),
        "calls_in_window": len(state.window),
        "failures_in_window": state.window.count("1"),
        "mode": policy.mode if policy else None,
        "parked": view.parked,
        "not_before": iso(view.not_before) if view.not_before else None,
    }


@router.get("/breakers/{name}/history")
async def breaker_history(
    request: Request, name: Words, limit: Limit = 50, system: SystemName = None
) -> dict[str, Any]:
    """When its gate changed, and why; the newest first."""

    async def read(tx: Tx) -> Any:
        return await breakers.history(tx, name, limit)

    return {"items": await every([provider_holder(systems_of(request, system), name)], read)}


@router.post("/breakers/{name}/open")
async def open_breaker(
    request: Request, name: Words, who: Operator, body: Reason | None = None, system: SystemName = None
) -> dict[str, Any]:
    """Stop all calls to a provider until a person closes it. Its jobs wait and spend nothing."""
    return await _force(request, name, who, body, system, open=True)


@router.post("/breakers/{name}/close")
async def close_breaker(
    request: Request, name: Words, who: Operator, body: Reason | None = None, system: SystemName = None
) -> dict[str, Any]:
    """Let calls through again; what was held drains a few at a time."""
    return await _force(request, name, who, body, system, open=False)


async def _force(
    request: Request, name: str, who: Principal, body: Reason | None, system: str | None, *, open: bool
) -> dict[str, Any]:
    one = provider_holder(systems_of(request, system), name)
    reason = (body or Reason()).reason
    await force(one.kernel, name, open=open, actor=who.sub, reason=reason)
    return {"system": one.name, "name": name, "gate": "open" if open else "closed", "reason": reason}


@router.get("/outbox")
async def list_outbox(asked: Paging, status: MESSAGE_STATUS | None = None) -> dict[str, Any]:
    """Messages, the newest first; `failed` ones were set aside after their last try."""
    return await asked.page(by_sequence("created_at"), ops.outbox_page, status=status)


@router.post("/outbox/{message_id}/requeue")
async def requeue_message(
    request: Request, message_id: UUID, who: Operator, system: SystemName = None
) -> dict[str, Any]:
    """Publish a message again that was set aside."""
    for one in systems_of(request, system):
        if await operate.requeue(one.kernel, str(message_id), who.sub):
            return {"system": one.name, "id": str(message_id), "status": "pending"}
    raise NotFound(f"There is no message {message_id} that was set aside.")


@router.get("/effects")
async def list_effects(asked: Paging, status: EFFECT_STATUS | None = None, provider: Filter = None) -> dict[str, Any]:
    """External effects; those in `review` wait for a person's answer."""
    return await asked.page(BY_KEY, ops.effects_page, status=status, provider=provider)


@router.post("/effects/answer")
async def answer_effect(
    request: Request, body: EffectAnswer, who: Operator, system: SystemName = None
) -> dict[str, Any]:
    """Say whether a doubtful effect happened. Its job may then be replayed."""
    known = False
    for one in systems_of(request, system):
        async with one.kernel.store.reading() as tx:
            known = known or await effects.lock(tx, body.key) is not None
        if await answer(one.kernel, body.key, sent=body.sent, provider_id=body.provider_id, actor=who.sub):
            return {"system": one.name, "key": body.key, "status": "sent" if body.sent else "planned"}
    if known:
        raise NotAllowed(f"The effect '{body.key}' is not in doubt; there is nothing to answer.")
    raise NotFound(f"There is no effect with the key '{body.key}'.")


@router.get("/audit")
async def list_audit(asked: Paging, actor: Filter = None, subject: Filter = None) -> dict[str, Any]:
    """Who did what, the newest first."""
    return await asked.page(by_sequence("at"), ops.audit_page, actor=actor, subject=subject)
