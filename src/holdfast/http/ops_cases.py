"""Dead letters over HTTP: find them, group them, take them through their steps, one by one or many by a filter.

The bulk forms are the kernel's, as the command line's are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.case import NEXT_STEP, CaseState, Cause
from holdfast.errors import NotFound
from holdfast.http.auth import Principal
from holdfast.http.ops_reach import (
    BY_ID,
    OPERATOR,
    Filter,
    Limit,
    Paging,
    SystemName,
    Words,
    every,
    holder,
    shaped,
    systems_of,
)
from holdfast.kernel import correct, operate
from holdfast.kernel.bulk import Bulk, BulkRemediate, BulkReplay, BulkResolve, BulkTriage, bulk
from holdfast.kernel.explain import iso
from holdfast.stores.seam import Row, Tx
from holdfast.system import OpenSystem
from holdfast.tables import audit, cases

router = APIRouter(prefix="/dead-letters")
Operator = Annotated[Principal, OPERATOR]


class Triage(BaseModel):
    cause: Cause
    notes: Words | None = None


class Remediate(BaseModel):
    """What was mended, and how that is known. A replay refuses without it."""

    evidence: Words = Field(min_length=1)


class Correct(BaseModel):
    """Either `set`, values by their paths (`recipients.0.address`), or `input`, the whole of it. A value that is given
    back as it was shown, masked, stays as it is."""

    model_config = ConfigDict(extra="forbid")

    set: dict[Words, Any] | None = Field(default=None, min_length=1, max_length=200)
    input: Any = None
    reason: Words | None = None
    dry_run: bool = False


class Replay(BaseModel):
    """From the failed stage; `full` runs, and pays for, every stage again."""

    full: bool = False
    delay_s: float = Field(default=0.0, ge=0, le=7 * 86_400)


class Resolve(BaseModel):
    """How it ended; or, where no replay has succeeded, in `without_replay` the reason why none is needed."""

    notes: Words | None = None
    without_replay: Words | None = None


@router.get("")
async def list_cases(
    asked: Paging,
    state: CaseState | None = None,
    kind: Filter = None,
    stage: Filter = None,
    error_class: Filter = None,
    fingerprint: Filter = None,
) -> dict[str, Any]:
    """Dead letters, the newest first."""
    filters = {"state": state, "kind": kind, "stage": stage, "error_class": error_class, "fingerprint": fingerprint}
    return await asked.page(BY_ID, cases.page, **filters)


@router.get("/groups")
async def list_groups(request: Request, limit: Limit = 50, system: SystemName = None) -> dict[str, Any]:
    """Dead letters that a person would treat as one, by kind, stage, provider and error class."""

    async def read(tx: Tx) -> Sequence[Row]:
        return await cases.groups(tx, limit)

    items = await every(systems_of(request, system), read)
    return {"items": sorted(items, key=lambda item: (item["state"] != CaseState.ESCALATED, -item["letters"]))[:limit]}


@router.get("/{case_id}")
async def show_case(request: Request, case_id: UUID, system: SystemName = None) -> dict[str, Any]:
    """One dead letter with its history, and the next step."""
    one, row = await holder(systems_of(request, system), cases.show, case_id, "dead letter")
    async with one.kernel.store.reading() as tx:
        history = [shaped(entry) for entry in await audit.of_subject(tx, f"case:{case_id}")]
        inputs = await correct.history(tx, row["job_id"])
    inputs["corrections"] = [{**entry, "at": iso(entry["at"])} for entry in inputs["corrections"]]
    next_step = NEXT_STEP[CaseState(row["state"])]
    return {"system": one.name, **shaped(row), "next_step": next_step, "audit": history, **inputs}


@router.post("/bulk/triage")
async def bulk_triage(request: Request, body: BulkTriage, who: Operator, system: SystemName = None) -> dict[str, Any]:
    """Step 1 for all that fit a filter, the oldest first; `dry_run` only says which."""
    return await _bulk(request, body, who, system)


@router.post("/bulk/remediate")
async def bulk_remediate(
    request: Request, body: BulkRemediate, who: Operator, system: SystemName = None
) -> dict[str, Any]:
    """Step 2 for all that fit a filter."""
    return await _bulk(request, body, who, system)


@router.post("/bulk/replay")
async def bulk_replay(request: Request, body: BulkReplay, who: Operator, system: SystemName = None) -> dict[str, Any]:
    """Step 3 for all that fit a filter, spread by `per_minute`, so that a mended provider meets a trickle."""
    return await _bulk(request, body, who, system)


@router.post("/bulk/resolve")
async def bulk_resolve(request: Request, body: BulkResolve, who: Operator, system: SystemName = None) -> dict[str, Any]:
    """Step 4 for all that fit a filter."""
    return await _bulk(request, body, who, system)


@router.post("/{case_id}/triage")
async def triage(
    request: Request, case_id: UUID, body: Triage, who: Operator, system: SystemName = None
) -> dict[str, Any]:
    """Step 1: say what kind of cause it was."""
    one = await _of(request, case_id, system)
    await operate.triage(one.kernel, str(case_id), cause=body.cause, actor=who.sub, notes=body.notes)
    return _now(one, case_id, CaseState.TRIAGED)


@router.post("/{case_id}/remediate")
async def remediate(
    request: Request, case_id: UUID, body: Remediate, who: Operator, system: SystemName = None
) -> dict[str, Any]:
    """Step 2: record what was mended."""
    one = await _of(request, case_id, system)
    await operate.remediate(one.kernel, str(case_id), evidence=body.evidence, actor=who.sub)
    return _now(one, case_id, CaseState.REMEDIATED)


@router.post("/{case_id}/correct")
async def correct_input(
    request: Request, case_id: UUID, body: Correct, who: Operator, system: SystemName = None
) -> dict[str, Any]:
    """Instead of step 2: correct the job's input; `dry_run` only says what would change, and where a replay begins."""
    one = await _of(request, case_id, system)
    asked = {"values": body.set, "document": body.input, "reason": body.reason, "dry_run": body.dry_run}
    done = await correct.correct(one.kernel, str(case_id), actor=who.sub, **asked)
    state = (await _case(one, case_id))["state"]
    return {**_now(one, case_id, CaseState(state)), **done.shown()}


@router.post("/{case_id}/replay")
async def replay(
    request: Request, case_id: UUID, who: Operator, body: Replay | None = None, system: SystemName = None
) -> dict[str, Any]:
    """Step 3: put the job back at its failed stage, with fresh budgets."""
    asked = body or Replay()
    one = await _of(request, case_id, system)
    done = await operate.replay(one.kernel, str(case_id), actor=who.sub, full=asked.full, delay_s=asked.delay_s)
    job = {"job_id": done.job_id, "stage": done.stage, "run_at": iso(done.run_at)}
    return {**_now(one, case_id, CaseState.REPLAYED), **job}


@router.post("/{case_id}/resolve")
async def resolve(
    request: Request, case_id: UUID, body: Resolve, who: Operator, system: SystemName = None
) -> dict[str, Any]:
    """Step 4: close the case, after its replay has succeeded or with a reason why none is needed."""
    one = await _of(request, case_id, system)
    asked = {"notes": body.notes, "without_replay": body.without_replay}
    await operate.resolve(one.kernel, str(case_id), actor=who.sub, **asked)
    return _now(one, case_id, CaseState.RESOLVED)


async def _bulk(request: Request, form: Bulk, who: Principal, system: str | None) -> dict[str, Any]:
    return await bulk([(one.name, one.kernel) for one in systems_of(request, system)], form, who.sub)


async def _of(request: Request, case_id: UUID, system: str | None) -> OpenSystem:
    one, _ = await holder(systems_of(request, system), cases.show, case_id, "dead letter")
    return one


async def _case(one: OpenSystem, case_id: UUID) -> Row:
    async with one.kernel.store.reading() as tx:
        row = await cases.show(tx, str(case_id))
    if row is None:
        raise NotFound(f"There is no dead letter {case_id}.")
    return row


def _now(one: OpenSystem, case_id: UUID, state: CaseState) -> dict[str, Any]:
    return {"system": one.name, "id": str(case_id), "state": state, "next_step": NEXT_STEP[state]}
