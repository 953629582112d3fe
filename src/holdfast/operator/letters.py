"""Dead letters at the desk: find them, group them, take them through their steps, one by one or many by a filter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypedDict

from holdfast.core.case import NEXT_STEP, CaseState, Cause
from holdfast.core.correction import value_of_text
from holdfast.errors import InvalidInput
from holdfast.kernel import operate
from holdfast.kernel.hands import correct
from holdfast.kernel.hands.correct import Correction
from holdfast.kernel.questions.explain import iso
from holdfast.operator.bulk import Bulk, bulk
from holdfast.operator.desk import Desk
from holdfast.operator.mend import describe_input
from holdfast.operator.page import BY_ID, ListPage, fetch_page
from holdfast.operator.shape import shape_row
from holdfast.operator.snapshot import name_cause
from holdfast.system import OpenSystem
from holdfast.tables import audit, cases, jobs


class LetterFilter(TypedDict, total=False):
    """Which dead letters: all fields that are given must fit."""

    state: CaseState | None
    kind: str | None
    stage: str | None
    error_class: str | None
    fingerprint: str | None


async def list_letters(desk: Desk, page: ListPage, which: LetterFilter) -> dict[str, Any]:
    """Dead letters, the newest first."""
    return await fetch_page(desk, page, BY_ID, cases.page, **which)


async def list_groups(desk: Desk, limit: int) -> dict[str, Any]:
    """Dead letters that a person would treat as one, by kind, stage, provider and error class, and unexpected
    exceptions by their type and place too; escalated ones first. `cause` is `input` where a caller's own mistake is it.
    """
    items: list[dict[str, Any]] = []
    for system in desk.systems:
        async with system.kernel.store.reading() as tx:
            rows = await cases.groups(tx, limit)
        items += [{"system": system.name, **shape_row(row), "cause": name_cause(system.kernel, row)} for row in rows]
    items.sort(key=lambda item: (item["state"] != CaseState.ESCALATED, -item["letters"]))
    return {"items": items[:limit]}


async def show_letter(desk: Desk, case_id: str) -> dict[str, Any]:
    """A dead letter with its history and its inputs, and the next step."""
    system, row = await desk.find(cases.show, case_id, "dead letter")
    async with system.kernel.store.reading() as tx:
        history = [shape_row(entry) for entry in await audit.of_subject(tx, f"case:{case_id}")]
        inputs = await correct.history(tx, row.job_id)
    inputs["input_schema"] = await describe_input(system.kernel, row.kind)
    inputs["corrections"] = [{**entry, "at": iso(entry["at"])} for entry in inputs["corrections"]]
    return {**_after(system, case_id, CaseState(row.state)), **shape_row(row), "audit": history, **inputs}


async def triage_letter(
    desk: Desk, case_id: str, *, cause: Cause, actor: str, notes: str | None = None
) -> dict[str, Any]:
    """Step 1: say what kind of cause it was."""
    system = await _find(desk, case_id)
    await operate.triage(system.kernel, case_id, cause=cause, actor=actor, notes=notes)
    return {**_after(system, case_id, CaseState.TRIAGED), "cause": cause}


async def remediate_letter(desk: Desk, case_id: str, *, evidence: str, actor: str) -> dict[str, Any]:
    """Step 2: record what was fixed. A replay refuses without it."""
    system = await _find(desk, case_id)
    await operate.remediate(system.kernel, case_id, evidence=evidence, actor=actor)
    return _after(system, case_id, CaseState.REMEDIATED)


async def correct_letter(
    desk: Desk,
    case_id: str,
    *,
    actor: str,
    values: dict[str, Any] | None = None,
    document: Any = None,
    reason: str | None = None,
    dry_run: bool = False,
) -> tuple[dict[str, Any], Correction]:
    """Instead of step 2: correct the job's input; `dry_run` only says what would change, and where a replay begins."""
    system = await _find(desk, case_id)
    correction = await correct.correct(
        system.kernel, case_id, actor=actor, values=values, document=document, reason=reason, dry_run=dry_run
    )
    _, row = await desk.find(cases.show, case_id, "dead letter")
    return {**_after(system, case_id, CaseState(row.state)), **correction.shown()}, correction


async def parse_assignments(desk: Desk, case_id: str, words: Sequence[str]) -> dict[str, Any]:
    """`field=text` as what stands in the letter's input now suggests, `field:=value` as JSON."""
    system, case = await desk.find(cases.show, case_id, "dead letter")
    async with system.kernel.store.reading() as tx:
        job = await jobs.show(tx, case.job_id)
    present = {} if job is None else json.loads(job.payload)
    return dict(_parse_assignment(present, word) for word in words)


def _parse_assignment(present: Any, word: str) -> tuple[str, Any]:
    path, equals, text = word.partition("=")
    if not equals or not path.strip(":"):
        raise InvalidInput(f"'{word}' must be field=value, or field:=JSON.")
    if not path.endswith(":"):
        return path, value_of_text(present, path, text)
    try:
        return path.removesuffix(":"), json.loads(text)
    except ValueError:
        raise InvalidInput(f"The value of '{path.removesuffix(':')}' is not JSON: {text}.") from None


async def replay_letter(
    desk: Desk, case_id: str, *, actor: str, full: bool = False, delay_s: float = 0.0
) -> dict[str, Any]:
    """Step 3: put the job back at its failed stage, with fresh budgets."""
    system = await _find(desk, case_id)
    replayed = await operate.replay(system.kernel, case_id, actor=actor, full=full, delay_s=delay_s)
    job = {"job_id": replayed.job_id, "stage": replayed.stage, "run_at": iso(replayed.run_at)}
    return {**_after(system, case_id, CaseState.REPLAYED), **job}


async def resolve_letter(
    desk: Desk, case_id: str, *, actor: str, notes: str | None = None, without_replay: str | None = None
) -> dict[str, Any]:
    """Step 4: close the case, after its replay has succeeded or with a reason why none is needed."""
    system = await _find(desk, case_id)
    await operate.resolve(system.kernel, case_id, actor=actor, notes=notes, without_replay=without_replay)
    return _after(system, case_id, CaseState.RESOLVED)


async def step_many(desk: Desk, form: Bulk, actor: str) -> dict[str, Any]:
    """One step for all that fit a filter, the oldest first."""
    return await bulk([(system.name, system.kernel) for system in desk.systems], form, actor)


async def _find(desk: Desk, case_id: str) -> OpenSystem:
    system, _ = await desk.find(cases.show, case_id, "dead letter")
    return system


def _after(system: OpenSystem, case_id: str, state: CaseState) -> dict[str, Any]:
    return {"system": system.name, "id": case_id, "state": state, "next_step": NEXT_STEP[state]}
