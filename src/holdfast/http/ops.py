"""The operator's API: look at jobs, breakers, outbox, effects, costs, workers and the audit, and act on them.

Several systems are several databases: every item names its `system`, ids are looked up in all of them, and
`?system=` narrows. Every act is audited under the token's `sub`. What each route answers is the desk's
(`holdfast.operator`). Dead letters have a module of their own.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, Field

from holdfast.core.control import Action
from holdfast.core.job import State
from holdfast.http.answers.acts import AnswerGiven, BreakerForced, EffectAnswered, JobEnded, JobsActed, MessageRequeued
from holdfast.http.answers.documented import documented
from holdfast.http.answers.jobs import JobCounts, JobPage, JobStory
from holdfast.http.answers.service import (
    ActPage,
    BreakerList,
    CostsAnswer,
    EffectPage,
    GateChanges,
    MessagePage,
    OverviewAnswer,
    ScheduleList,
    WorkerList,
)
from holdfast.http.ops_asked import AtDesk, Filter, HumanText, JobId, Limit, OnPage, Operator, Reason, operator_routes
from holdfast.http.ops_cases import router as cases_router
from holdfast.http.ops_control import router as control_router
from holdfast.http.ops_incidents import router as incidents_router
from holdfast.http.ops_replays import router as replays_router
from holdfast.operator import deliveries, fleet, job_bulk, jobs, overview, providers, story
from holdfast.operator.page import PAGE_MAX, ListPage

router = operator_routes()
for part in (cases_router, incidents_router, control_router, replays_router):
    router.routes.extend(part.routes)

MESSAGE_STATUS = Literal["pending", "published", "failed"]
EFFECT_STATUS = Literal["planned", "sending", "unknown", "sent", "failed", "review"]
Days = Annotated[int, Query(ge=1, le=3660)]


class EffectAnswer(BaseModel):
    """A person's word about an effect that nobody else can know of."""

    key: HumanText = Field(min_length=1)
    sent: bool
    provider_id: HumanText | None = None


class JobsAct(BaseModel):
    """Which jobs, by a query or by their ids, and what to do with one page of them."""

    action: Action
    q: HumanText = ""
    ids: list[HumanText] | None = Field(default=None, max_length=PAGE_MAX)
    evidence: HumanText | None = None
    priority: int | None = Field(default=None, ge=0, le=3)
    limit: int = Field(default=50, ge=1, le=PAGE_MAX)
    next: str | None = Field(default=None, max_length=4_000)
    dry_run: bool = False


class JobAnswer(BaseModel):
    """What a waiting job is told: any JSON."""

    value: Any


@router.get("/overview", response_model=documented(OverviewAnswer))
async def show_overview(desk: AtDesk) -> dict[str, Any]:
    """Each system at a glance: its light, what asks for a person, depth, age, lag, dead letters, breakers."""
    return await overview.show_overview(desk)


@router.get("/jobs", response_model=documented(JobPage))
async def list_jobs(
    desk: AtDesk,
    page: OnPage,
    state: State | None = None,
    kind: Filter = None,
    queue: Filter = None,
    stage: Filter = None,
    provider: Filter = None,
    owner: Filter = None,
    q: Filter = None,
) -> dict[str, Any]:
    """Jobs, the newest first. `q` is a query: `state:held provider:llm owner:carla age:>10m error:422
    input.order_id:7 "some text" sort:oldest` (or `newest`, `deadline`, `failures`); a single word is any id: of a job
    (or its beginning), its key, its callback, its trace, its dead letter."""
    if q:
        return await jobs.query_jobs(desk, page, q)
    which = jobs.JobFilter(state=state, kind=kind, queue=queue, stage=stage, provider=provider, owner=owner)
    return await jobs.list_jobs(desk, page, which)


@router.get("/jobs/counts", response_model=documented(JobCounts))
async def count_jobs(desk: AtDesk, q: Filter = None) -> dict[str, Any]:
    """How many jobs fit a query, by state; of a great many the newest are counted."""
    return await job_bulk.count_jobs(desk, q or "")


@router.post("/jobs/bulk", response_model=documented(JobsActed))
async def act_on_jobs(desk: AtDesk, body: JobsAct, who: Operator) -> dict[str, Any]:
    """Cancel, replay, run now, delete or give another priority to one page of the jobs that fit a query; `next` is
    where the page after it begins."""
    return await job_bulk.act_on_jobs(
        desk,
        body.q,
        body.action,
        actor=who.sub,
        page=ListPage(body.limit, body.next),
        ids=None if body.ids is None else frozenset(body.ids),
        evidence=body.evidence,
        priority=body.priority,
        dry_run=body.dry_run,
    )


@router.get("/jobs/{job_id}", response_model=documented(JobStory))
async def show_job(desk: AtDesk, job_id: JobId) -> dict[str, Any]:
    """One job with its whole story, and in words why it is where it is."""
    return await story.show_job(desk, job_id)


@router.post("/jobs/{job_id}/answer", response_model=documented(AnswerGiven))
async def answer_job(desk: AtDesk, job_id: JobId, body: JobAnswer, who: Operator) -> dict[str, Any]:
    """Give a job that waits the answer that it waits for; the first answer stands."""
    return await story.answer_job(desk, job_id, body.value, who.sub)


@router.post("/jobs/{job_id}/cancel", response_model=documented(JobEnded))
async def cancel_job(desk: AtDesk, job_id: JobId, who: Operator) -> dict[str, Any]:
    """End a job that has not ended."""
    return await jobs.cancel_job(desk, job_id, who.sub)


@router.get("/breakers", response_model=documented(BreakerList))
async def list_breakers(desk: AtDesk) -> dict[str, Any]:
    """Every provider's breaker: its gate, why, until when, and how many jobs wait for it."""
    return await providers.list_breakers(desk)


@router.get("/breakers/{name}/history", response_model=documented(GateChanges))
async def breaker_history(desk: AtDesk, name: HumanText, limit: Limit = 50) -> dict[str, Any]:
    """When its gate changed, and why; the newest first."""
    return await providers.list_gate_changes(desk, name, limit)


@router.post("/breakers/{name}/open", response_model=documented(BreakerForced))
async def open_breaker(desk: AtDesk, name: HumanText, who: Operator, body: Reason | None = None) -> dict[str, Any]:
    """Stop all calls to a provider until a person closes it. Its jobs wait and spend nothing."""
    reason = (body or Reason()).reason
    return await providers.force_breaker(desk, name, open=True, actor=who.sub, reason=reason)


@router.post("/breakers/{name}/close", response_model=documented(BreakerForced))
async def close_breaker(desk: AtDesk, name: HumanText, who: Operator, body: Reason | None = None) -> dict[str, Any]:
    """Let calls through again; what was held drains a few at a time."""
    reason = (body or Reason()).reason
    return await providers.force_breaker(desk, name, open=False, actor=who.sub, reason=reason)


@router.get("/outbox", response_model=documented(MessagePage))
async def list_outbox(desk: AtDesk, page: OnPage, status: MESSAGE_STATUS | None = None) -> dict[str, Any]:
    """Messages, the newest first; `failed` ones were set aside after their last try."""
    return await deliveries.list_messages(desk, page, status)


@router.post("/outbox/{message_id}/requeue", response_model=documented(MessageRequeued))
async def requeue_message(desk: AtDesk, message_id: UUID, who: Operator) -> dict[str, Any]:
    """Publish a message again that was set aside."""
    return await deliveries.requeue_message(desk, str(message_id), who.sub)


@router.get("/effects", response_model=documented(EffectPage))
async def list_effects(
    desk: AtDesk, page: OnPage, status: EFFECT_STATUS | None = None, provider: Filter = None
) -> dict[str, Any]:
    """External effects; those in `review` wait for a person's answer."""
    return await deliveries.list_effects(desk, page, status, provider)


@router.post("/effects/answer", response_model=documented(EffectAnswered))
async def answer_effect(desk: AtDesk, body: EffectAnswer, who: Operator) -> dict[str, Any]:
    """Say whether a doubtful effect happened. Its job may then be replayed."""
    return await deliveries.answer_effect(desk, body.key, sent=body.sent, provider_id=body.provider_id, actor=who.sub)


@router.get("/audit", response_model=documented(ActPage))
async def list_audit(
    desk: AtDesk, page: OnPage, actor: Filter = None, subject: Filter = None, people: bool = False
) -> dict[str, Any]:
    """Who did what, the newest first; with `people`, without the kernel's own lines."""
    return await fleet.list_actions(desk, page, actor, subject, people)


@router.get("/costs", response_model=documented(CostsAnswer))
async def costs(desk: AtDesk, days: Days = 7) -> dict[str, Any]:
    """What the calls to providers cost in the last days, today included: by day, provider and kind of job, in
    millionths of a currency unit."""
    return await fleet.sum_costs(desk, days)


@router.get("/workers", response_model=documented(WorkerList))
async def list_workers(desk: AtDesk) -> dict[str, Any]:
    """Workers by their last report; one that was silent for long is not `alive`."""
    return await fleet.list_workers(desk)


@router.get("/schedules", response_model=documented(ScheduleList))
async def list_schedules(desk: AtDesk) -> dict[str, Any]:
    """Cron schedules and when each runs next."""
    return await fleet.list_schedules(desk)
