"""Dead letters over HTTP: find them, group them, take them through their steps, one by one or many by a filter.

A bulk form first says what it would do (`dry_run`), and spreads replays by `per_minute`, so that a mended provider
meets a trickle.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field, model_validator

from holdfast.core.case import NEXT_STEP, STEPS, CaseState, Cause
from holdfast.errors import NotAllowed, NotFound
from holdfast.http.auth import Principal
from holdfast.http.ops_reach import (
    OPERATOR,
    Cursor,
    Filter,
    Limit,
    Order,
    SystemName,
    Words,
    every,
    holder,
    is_uuid,
    page,
    shaped,
    systems_of,
)
from holdfast.kernel import operate
from holdfast.kernel.explain import iso
from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Row, Tx
from holdfast.system import OpenSystem
from holdfast.tables import audit, cases

router = APIRouter(prefix="/dead-letters")
Operator = Annotated[Principal, OPERATOR]
BULK_MAX = 1_000
SCANNED_MAX = 50_000
REFUSED_SHOWN = 100
PAGE = 1_000

Match = tuple[OpenSystem, Row]


class Triage(BaseModel):
    cause: Cause
    notes: Words | None = None


class Remediate(BaseModel):
    """What was mended, and how that is known. A replay refuses without it."""

    evidence: Words = Field(min_length=1)


class Replay(BaseModel):
    """From the failed stage; `full` runs, and pays for, every stage again."""

    full: bool = False
    delay_s: float = Field(default=0.0, ge=0, le=7 * 86_400)


class Resolve(BaseModel):
    notes: Words = Field(min_length=1)


class Which(BaseModel):
    """Dead letters by what they have in common, or by id. At least one field must be given."""

    ids: list[UUID] | None = Field(default=None, max_length=BULK_MAX)
    state: CaseState | None = None
    kind: Words | None = None
    stage: Words | None = None
    error_class: Words | None = None
    fingerprint: Words | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Which:
        if all(value is None for value in self.model_dump().values()):
            raise ValueError("a filter must name at least one of ids, state, kind, stage, error_class, fingerprint")
        return self


class Bulk(BaseModel):
    filter: Which
    dry_run: bool = False
    limit: int = Field(default=BULK_MAX, ge=1, le=BULK_MAX)


class BulkTriage(Bulk, Triage):
    pass


class BulkRemediate(Bulk, Remediate):
    pass


class BulkResolve(Bulk, Resolve):
    pass


class BulkReplay(Bulk):
    """`per_minute` spreads the replays over time; unset, all are due at once."""

    full: bool = False
    per_minute: float | None = Field(default=None, gt=0, le=1_000_000)


@router.get("")
async def list_cases(
    request: Request,
    system: SystemName = None,
    state: CaseState | None = None,
    kind: Filter = None,
    stage: Filter = None,
    error_class: Filter = None,
    fingerprint: Filter = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> dict[str, Any]:
    """Dead letters, the newest first."""

    async def fetch(tx: Tx, before: Any, rows: int) -> Sequence[Row]:
        return await cases.page(
            tx,
            before=before,
            state=state,
            kind=kind,
            stage=stage,
            error_class=error_class,
            fingerprint=fingerprint,
            limit=rows,
        )

    return await page(systems_of(request, system), fetch, Order("id", "id", is_uuid), limit, cursor)


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
    return {"system": one.name, **shaped(row), "next_step": NEXT_STEP[CaseState(row["state"])], "audit": history}


@router.post("/bulk/triage")
async def bulk_triage(request: Request, body: BulkTriage, who: Operator, system: SystemName = None) -> dict[str, Any]:
    async def act(kernel: Kernel, case_id: str, number: int) -> None:
        await operate.triage(kernel, case_id, cause=body.cause, actor=who.sub, notes=body.notes)

    return await _bulk(systems_of(request, system), body, "triage", act)


@router.post("/bulk/remediate")
async def bulk_remediate(
    request: Request, body: BulkRemediate, who: Operator, system: SystemName = None
) -> dict[str, Any]:
    async def act(kernel: Kernel, case_id: str, number: int) -> None:
        await operate.remediate(kernel, case_id, evidence=body.evidence, actor=who.sub)

    return await _bulk(systems_of(request, system), body, "remediate", act)


@router.post("/bulk/replay")
async def bulk_replay(request: Request, body: BulkReplay, who: Operator, system: SystemName = None) -> dict[str, Any]:
    async def act(kernel: Kernel, case_id: str, number: int) -> None:
        delay_s = 0.0 if body.per_minute is None else number * 60.0 / body.per_minute
        await operate.replay(kernel, case_id, actor=who.sub, full=body.full, delay_s=delay_s)

    return await _bulk(systems_of(request, system), body, "replay", act)


@router.post("/bulk/resolve")
async def bulk_resolve(request: Request, body: BulkResolve, who: Operator, system: SystemName = None) -> dict[str, Any]:
    async def act(kernel: Kernel, case_id: str, number: int) -> None:
        await operate.resolve(kernel, case_id, notes=body.notes, actor=who.sub)

    return await _bulk(systems_of(request, system), body, "resolve", act)


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
    """Step 4: close the case."""
    one = await _of(request, case_id, system)
    await operate.resolve(one.kernel, str(case_id), notes=body.notes, actor=who.sub)
    return _now(one, case_id, CaseState.RESOLVED)


async def _of(request: Request, case_id: UUID, system: str | None) -> OpenSystem:
    one, _ = await holder(systems_of(request, system), cases.show, case_id, "dead letter")
    return one


def _now(one: OpenSystem, case_id: UUID, state: CaseState) -> dict[str, Any]:
    return {"system": one.name, "id": str(case_id), "state": state, "next_step": NEXT_STEP[state]}


async def _bulk(
    systems: Sequence[OpenSystem], body: Bulk, action: str, act: Callable[[Kernel, str, int], Awaitable[None]]
) -> dict[str, Any]:
    """The step for every match that can take it, the oldest first, up to the limit; what is left is `remaining`.

    Each case is its own transaction: one that refuses says why and holds up nobody."""
    done: list[dict[str, str]] = []
    refused: list[dict[str, str]] = []
    fit, unfit = _sorted_out(await _matching(systems, body.filter), action)
    for one, case in fit[: body.limit]:
        try:
            if not body.dry_run:
                await act(one.kernel, case["id"], len(done))
            done.append(_entry(one, case))
        except (NotAllowed, NotFound) as error:  # somebody else was quicker
            refused.append(_entry(one, case) | {"detail": str(error)})
    refused += [_entry(one, case) | {"detail": _why_not(case, action)} for one, case in unfit[:REFUSED_SHOWN]]
    matched, remaining = len(fit) + len(unfit), max(0, len(fit) - body.limit)
    return {"dry_run": body.dry_run, "matched": matched, "done": done, "refused": refused, "remaining": remaining}


def _sorted_out(matches: Sequence[Match], action: str) -> tuple[list[Match], list[Match]]:
    allowed, _ = STEPS[action]
    ordered = sorted(matches, key=lambda match: str(match[1]["id"]))
    fit = [match for match in ordered if CaseState(match[1]["state"]) in allowed]
    return fit, [match for match in ordered if CaseState(match[1]["state"]) not in allowed]


def _entry(one: OpenSystem, case: Row) -> dict[str, str]:
    return {"system": one.name, "id": case["id"], "job_id": case["job_id"]}


def _why_not(case: Row, action: str) -> str:
    state = CaseState(case["state"])
    return f"A dead letter that is {state} cannot be taken through '{action}'. Next: {NEXT_STEP[state]}."


async def _matching(systems: Sequence[OpenSystem], which: Which) -> list[Match]:
    found: list[Match] = []
    for one in systems:
        async with one.kernel.store.reading() as tx:
            found += [(one, row) for row in await _of_system(tx, which)]
    return found


async def _of_system(tx: Tx, which: Which) -> list[Row]:
    wanted = which.model_dump(exclude={"ids"})
    ids = None if which.ids is None else {str(one) for one in which.ids}
    found: list[Row] = []
    before: str | None = None
    while len(found) < SCANNED_MAX:
        rows = await cases.page(tx, before=before, limit=PAGE, **wanted)
        found += [row for row in rows if ids is None or row["id"] in ids]
        if len(rows) < PAGE:
            break
        before = rows[-1]["id"]
    return found
