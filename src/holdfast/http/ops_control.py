"""Hands on what runs, over HTTP: pauses, priorities, workers that are drained, schedules."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from holdfast.core.control import Sort
from holdfast.http.answers.acts import (
    JobDeleted,
    JobEnded,
    PauseSet,
    PrioritySet,
    ScheduleRun,
    ScheduleSet,
    WorkerAsked,
)
from holdfast.http.answers.documented import documented
from holdfast.http.answers.service import PauseList, ScheduledJobs
from holdfast.http.ops_asked import AtDesk, HumanText, JobId, Limit, Operator, Reason, operator_routes
from holdfast.operator import fleet, jobs, pauses, schedules

router = operator_routes()


class NewPriority(BaseModel):
    """0 is urgent, 1 high, 2 normal, 3 low."""

    priority: int = Field(ge=0, le=3)


@router.get("/pauses", response_model=documented(PauseList))
async def list_pauses(desk: AtDesk) -> dict[str, Any]:
    """Every kind and queue, the paused ones with who, why, since when, and how many jobs wait."""
    return await pauses.list_pauses(desk)


@router.post("/pauses/{sort}/{name}/pause", response_model=documented(PauseSet))
async def pause(desk: AtDesk, sort: Sort, name: HumanText, who: Operator, body: Reason | None = None) -> dict[str, Any]:
    """Begin no job of a kind or a queue until it is resumed. What runs is finished; what waits spends nothing."""
    reason = (body or Reason()).reason
    return await pauses.set_pause(desk, sort, name, paused=True, actor=who.sub, reason=reason)


@router.post("/pauses/{sort}/{name}/resume", response_model=documented(PauseSet))
async def resume(
    desk: AtDesk, sort: Sort, name: HumanText, who: Operator, body: Reason | None = None
) -> dict[str, Any]:
    """Let a kind or a queue go on."""
    reason = (body or Reason()).reason
    return await pauses.set_pause(desk, sort, name, paused=False, actor=who.sub, reason=reason)


@router.post("/jobs/{job_id}/priority", response_model=documented(PrioritySet))
async def set_priority(desk: AtDesk, job_id: JobId, body: NewPriority, who: Operator) -> dict[str, Any]:
    """Give a job that has not ended another priority."""
    return await jobs.set_priority(desk, job_id, priority=body.priority, actor=who.sub)


@router.post("/jobs/{job_id}/run-now", response_model=documented(JobEnded))
async def run_job_now(desk: AtDesk, job_id: JobId, who: Operator) -> dict[str, Any]:
    """Make a job due that is queued for later; a wait that its provider asked for is kept."""
    return await jobs.run_job_now(desk, job_id, actor=who.sub)


@router.post("/jobs/{job_id}/delete", response_model=documented(JobDeleted))
async def delete_job(desk: AtDesk, job_id: JobId, who: Operator) -> dict[str, Any]:
    """Delete a job that has ended, with its history."""
    return await jobs.delete_job(desk, job_id, actor=who.sub)


@router.post("/workers/{name}/drain", response_model=documented(WorkerAsked))
async def drain(desk: AtDesk, name: HumanText, who: Operator) -> dict[str, Any]:
    """Have a worker end what it has and take nothing more."""
    return await fleet.drain_worker(desk, name, drain=True, actor=who.sub)


@router.post("/workers/{name}/undrain", response_model=documented(WorkerAsked))
async def undrain(desk: AtDesk, name: HumanText, who: Operator) -> dict[str, Any]:
    """Have a drained worker take jobs again."""
    return await fleet.drain_worker(desk, name, drain=False, actor=who.sub)


@router.get("/schedules/{name}/runs", response_model=documented(ScheduledJobs))
async def list_runs(desk: AtDesk, name: HumanText, limit: Limit = 50) -> dict[str, Any]:
    """The jobs that a schedule has enqueued, the newest first."""
    return await schedules.list_runs(desk, name, limit)


@router.post("/schedules/{name}/run", response_model=documented(ScheduleRun))
async def run_schedule(desk: AtDesk, name: HumanText, who: Operator) -> dict[str, Any]:
    """Enqueue what a schedule would, now; its ticks stay."""
    return await schedules.run_schedule_now(desk, name, actor=who.sub)


@router.post("/schedules/{name}/pause", response_model=documented(ScheduleSet))
async def pause_schedule(desk: AtDesk, name: HumanText, who: Operator) -> dict[str, Any]:
    """Enqueue nothing more by a schedule until it is resumed."""
    return await schedules.set_paused(desk, name, paused=True, actor=who.sub)


@router.post("/schedules/{name}/resume", response_model=documented(ScheduleSet))
async def resume_schedule(desk: AtDesk, name: HumanText, who: Operator) -> dict[str, Any]:
    """Let a schedule go on with its next tick."""
    return await schedules.set_paused(desk, name, paused=False, actor=who.sub)
