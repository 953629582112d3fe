"""Fix and replay in one: correct the input, record the evidence, replay; and before that see what a replay would do.

The steps of the case are taken one after another, each in its own commit, and those that were taken before are not
taken again: what ends halfway can be sent once more.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError

from holdfast.core.case import CaseState, Cause
from holdfast.errors import NotAllowed
from holdfast.kernel import operate
from holdfast.kernel.hands.correct import correct
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.questions.explain import iso
from holdfast.operator.desk import Desk
from holdfast.operator.shape import shape_row
from holdfast.tables import calls, cases, effects, jobs, providers, results
from holdfast.tables.cases import LetterDetails

IN_DOUBT = ("sending", "unknown", "review")
EDITABLE = (CaseState.OPEN, CaseState.ESCALATED, CaseState.TRIAGED, CaseState.REMEDIATED)
SCHEMA_BYTES_MAX = 65_536
AS_IT_IS = "Replayed as it is."


async def preview_replay(
    desk: Desk, case_id: str, *, actor: str, values: dict[str, Any] | None = None, full: bool = False
) -> dict[str, Any]:
    """What a replay would do, with these corrections of the input: nothing is written."""
    system, case = await desk.find(cases.show, case_id, "dead letter")
    kernel = system.kernel
    _check_editable(case_id, CaseState(case.state))
    correction = await correct(kernel, case_id, actor=actor, values=values, dry_run=True) if values else None
    first = case.replay_stage or case.stage if correction is None else correction.replay_stage
    async with kernel.store.reading() as tx:
        done = [row.stage for row in await results.of_job(tx, case.job_id) if not row.is_late]
        made = await calls.of_job(tx, case.job_id)
        sent = await effects.of_job(tx, case.job_id)
        provider = await providers.read(tx, case.provider) if case.provider else None
        job = await jobs.show(tx, case.job_id)
    start, again = stages_again(kernel, case, first, full)
    costs = {"kept": 0, "again": 0}
    for row in made:
        costs["again" if row.stage in again else "kept"] += int(row.cost_micros)
    return {
        "system": system.name,
        "id": case_id,
        "job_id": case.job_id,
        "dry_run": True,
        "changes": [] if correction is None else [change._asdict() for change in correction.changes],
        "replay_from": start,
        "stages_kept": [name for name in done if name not in again],
        "stages_again": [name for name in done if name in again],
        "effects_kept": [row.key for row in sent if row.status == "sent"],
        "effects_in_doubt": [shape_row(row) for row in sent if row.status in IN_DOUBT],
        "cost_kept_micros": costs["kept"],
        "cost_again_micros": costs["again"],
        "provider": case.provider,
        "gate": None if provider is None else provider.state.gate,
        "gate_until": _iso_or_none(None if provider is None else provider.state.open_until),
        "not_before": _iso_or_none(None if job is None else job.not_before),
    }


async def mend_and_replay(
    desk: Desk,
    case_id: str,
    *,
    actor: str,
    cause: Cause = Cause.TRANSIENT,
    evidence: str | None = None,
    values: dict[str, Any] | None = None,
    full: bool = False,
    delay_s: float = 0.0,
) -> dict[str, Any]:
    """Correct the input if `values` are given, record the evidence, and replay. Without evidence it is replayed as it
    is, and that is what is recorded."""
    system, case = await desk.find(cases.show, case_id, "dead letter")
    replayed = await mend_case(
        system.kernel, case, actor=actor, cause=cause, evidence=evidence, values=values, full=full, delay_s=delay_s
    )
    return {
        "system": system.name,
        "id": case_id,
        "state": CaseState.REPLAYED,
        "job_id": replayed.job_id,
        "stage": replayed.stage,
        "run_at": iso(replayed.run_at),
    }


async def mend_case(
    kernel: Kernel,
    case: LetterDetails,
    *,
    actor: str,
    cause: Cause,
    evidence: str | None,
    values: dict[str, Any] | None,
    full: bool,
    delay_s: float = 0.0,
) -> operate.Replayed:
    """All steps of a dead letter up to its replay."""
    case_id, state = case.id, CaseState(case.state)
    _check_editable(case_id, state)
    if values:
        await correct(kernel, case_id, actor=actor, values=values, reason=evidence)
    else:
        if state in (CaseState.OPEN, CaseState.ESCALATED):
            await operate.triage(kernel, case_id, cause=cause, actor=actor)
        if evidence or state is not CaseState.REMEDIATED:
            await operate.remediate(kernel, case_id, evidence=evidence or AS_IT_IS, actor=actor)
    return await operate.replay(kernel, case_id, actor=actor, full=full, delay_s=delay_s)


async def describe_input(kernel: Kernel, kind: str) -> dict[str, Any] | None:
    """The JSON schema of a kind's input, for a form; None where the code here has none, or it is very large."""
    known = kernel.registry.kinds.get(kind)
    if known is None:
        return None
    try:
        schema = known.takes.json_schema()
    except (PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, ValidationError):
        return None
    return schema if len(json.dumps(schema)) <= SCHEMA_BYTES_MAX else None


def stages_again(kernel: Kernel, case: LetterDetails, first: str, full: bool) -> tuple[str, frozenset[str]]:
    """Where a replay begins, and the stages that it runs again."""
    names = [stage.name for stage in kernel.registry.kind(case.kind).stages]
    start = names[0] if full or first not in names else first
    return start, frozenset(names[names.index(start) :])


def _check_editable(case_id: str, state: CaseState) -> None:
    if state not in EDITABLE:
        raise NotAllowed(f"Dead letter {case_id} is {state}; only one that was not replayed yet can be.")


def _iso_or_none(at: int | None) -> str | None:
    return None if at is None else iso(at)
