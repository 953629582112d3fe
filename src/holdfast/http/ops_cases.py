"""Dead letters over HTTP: find them, group them, take them through their steps, one by one or many by a filter."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.case import CaseState, Cause
from holdfast.http.answers.acts import (
    LetterCorrected,
    LetterMended,
    LetterReplayed,
    LettersActed,
    LetterStep,
    LetterTriaged,
)
from holdfast.http.answers.documented import documented
from holdfast.http.answers.letters import LetterGroups, LetterPage, LetterStory, ReplayPreview
from holdfast.http.ops_asked import AtDesk, CaseId, Filter, HumanText, Limit, OnPage, Operator, operator_routes
from holdfast.operator import letters
from holdfast.operator.bulk import BulkRemediate, BulkReplay, BulkResolve, BulkTriage
from holdfast.operator.mend import mend_and_replay, preview_replay

router = operator_routes("/dead-letters")


class Triage(BaseModel):
    cause: Cause
    notes: HumanText | None = None


class Remediate(BaseModel):
    """What was fixed, and how that is known. A replay refuses without it."""

    evidence: HumanText = Field(min_length=1)


class Correct(BaseModel):
    """Either `set`, values by their paths (`recipients.0.address`), or `input`, the whole of it. A value that is given
    back as it was shown, masked, stays as it is."""

    model_config = ConfigDict(extra="forbid")

    set: dict[HumanText, Any] | None = Field(default=None, min_length=1, max_length=200)
    input: Any = None
    reason: HumanText | None = None
    dry_run: bool = False


class Replay(BaseModel):
    """From the failed stage; `full` runs, and pays for, every stage again."""

    full: bool = False
    delay_s: float = Field(default=0.0, ge=0, le=7 * 86_400)


class Mend(BaseModel):
    """Corrected values by their paths, and how it is known that it is fixed; without either: replayed as it is."""

    model_config = ConfigDict(extra="forbid")

    cause: Cause = Cause.TRANSIENT
    evidence: HumanText | None = None
    set: dict[HumanText, Any] | None = Field(default=None, max_length=200)
    full: bool = False
    delay_s: float = Field(default=0.0, ge=0, le=7 * 86_400)
    dry_run: bool = False


class Resolve(BaseModel):
    """How it ended; or, where no replay has succeeded, in `without_replay` the reason why none is needed."""

    notes: HumanText | None = None
    without_replay: HumanText | None = None


@router.get("", response_model=documented(LetterPage))
async def list_cases(
    desk: AtDesk,
    page: OnPage,
    state: CaseState | None = None,
    kind: Filter = None,
    stage: Filter = None,
    error_class: Filter = None,
    fingerprint: Filter = None,
) -> dict[str, Any]:
    """Dead letters, the newest first."""
    which = letters.LetterFilter(state=state, kind=kind, stage=stage, error_class=error_class, fingerprint=fingerprint)
    return await letters.list_letters(desk, page, which)


@router.get("/groups", response_model=documented(LetterGroups))
async def list_groups(desk: AtDesk, limit: Limit = 50) -> dict[str, Any]:
    """Dead letters that a person would treat as one, by kind, stage, provider and error class."""
    return await letters.list_groups(desk, limit)


@router.get("/{case_id}", response_model=documented(LetterStory))
async def show_case(desk: AtDesk, case_id: CaseId) -> dict[str, Any]:
    """One dead letter with its history, and the next step."""
    return await letters.show_letter(desk, case_id)


@router.post("/bulk/triage", response_model=documented(LettersActed))
async def bulk_triage(desk: AtDesk, body: BulkTriage, who: Operator) -> dict[str, Any]:
    """Step 1 for all that fit a filter, the oldest first; `dry_run` only says which."""
    return await letters.step_many(desk, body, who.sub)


@router.post("/bulk/remediate", response_model=documented(LettersActed))
async def bulk_remediate(desk: AtDesk, body: BulkRemediate, who: Operator) -> dict[str, Any]:
    """Step 2 for all that fit a filter."""
    return await letters.step_many(desk, body, who.sub)


@router.post("/bulk/replay", response_model=documented(LettersActed))
async def bulk_replay(desk: AtDesk, body: BulkReplay, who: Operator) -> dict[str, Any]:
    """Step 3 for all that fit a filter, spread by `per_minute`: a provider that has just recovered meets a trickle."""
    return await letters.step_many(desk, body, who.sub)


@router.post("/bulk/resolve", response_model=documented(LettersActed))
async def bulk_resolve(desk: AtDesk, body: BulkResolve, who: Operator) -> dict[str, Any]:
    """Step 4 for all that fit a filter."""
    return await letters.step_many(desk, body, who.sub)


@router.post("/{case_id}/triage", response_model=documented(LetterTriaged))
async def triage(desk: AtDesk, case_id: CaseId, body: Triage, who: Operator) -> dict[str, Any]:
    """Step 1: say what kind of cause it was."""
    return await letters.triage_letter(desk, case_id, cause=body.cause, actor=who.sub, notes=body.notes)


@router.post("/{case_id}/remediate", response_model=documented(LetterStep))
async def remediate(desk: AtDesk, case_id: CaseId, body: Remediate, who: Operator) -> dict[str, Any]:
    """Step 2: record what was fixed."""
    return await letters.remediate_letter(desk, case_id, evidence=body.evidence, actor=who.sub)


@router.post("/{case_id}/correct", response_model=documented(LetterCorrected))
async def correct_input(desk: AtDesk, case_id: CaseId, body: Correct, who: Operator) -> dict[str, Any]:
    """Instead of step 2: correct the job's input; `dry_run` only says what would change, and where a replay begins."""
    answer, _ = await letters.correct_letter(
        desk,
        case_id,
        actor=who.sub,
        values=body.set,
        document=body.input,
        reason=body.reason,
        dry_run=body.dry_run,
    )
    return answer


@router.post("/{case_id}/mend", response_model=documented(LetterMended | ReplayPreview))
async def mend(desk: AtDesk, case_id: CaseId, who: Operator, body: Mend) -> dict[str, Any]:
    """All steps up to the replay in one; `dry_run` says what it would change, keep, repeat, cost and wait for."""
    if body.dry_run:
        return await preview_replay(desk, case_id, actor=who.sub, values=body.set, full=body.full)
    return await mend_and_replay(
        desk,
        case_id,
        actor=who.sub,
        cause=body.cause,
        evidence=body.evidence,
        values=body.set,
        full=body.full,
        delay_s=body.delay_s,
    )


@router.post("/{case_id}/replay", response_model=documented(LetterReplayed))
async def replay(desk: AtDesk, case_id: CaseId, who: Operator, body: Replay | None = None) -> dict[str, Any]:
    """Step 3: put the job back at its failed stage, with fresh budgets."""
    wanted = body or Replay()
    return await letters.replay_letter(desk, case_id, actor=who.sub, full=wanted.full, delay_s=wanted.delay_s)


@router.post("/{case_id}/resolve", response_model=documented(LetterStep))
async def resolve(desk: AtDesk, case_id: CaseId, body: Resolve, who: Operator) -> dict[str, Any]:
    """Step 4: close the case, after its replay has succeeded or with a reason why none is needed."""
    return await letters.resolve_letter(
        desk, case_id, actor=who.sub, notes=body.notes, without_replay=body.without_replay
    )
