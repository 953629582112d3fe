"""Corrects the input of a dead job before its replay: checked against the kind's type, audited, the original kept.

    what is given -> masked values put back -> the kind's type -> the difference -> ONE transaction: the job's input,
    both inputs in the table of corrections, the case (remediated), the app's own rows (`Job.corrected`), the audit

A preview is the same transaction, rolled back: it can promise nothing that the correction would not do.

Why so: docs/decisions/0014-correct-then-replay.md
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.case import STEPS, CaseState, why_not
from holdfast.core.correction import (
    BadPath,
    FieldChange,
    StageInput,
    changed_fields,
    changes,
    is_same,
    keep_masked,
    replay_start,
    unknown_field,
    with_values,
)
from holdfast.core.job import State
from holdfast.core.redact import redact, redact_text
from holdfast.errors import InvalidInput, NotAllowed, NotFound
from holdfast.kernel.app import Corrected
from holdfast.kernel.declare.search_terms import terms_of
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.kinds import JobKind
from holdfast.kernel.sealing import seal_input
from holdfast.stores.seam import Tx
from holdfast.tables import audit, batch, cases, effects, events, jobs, results, search, secrets
from holdfast.tables.cases import CaseToStep, KeptCorrection

REASON_LENGTH_MAX = 1_000
HAPPENED = ("sent", "sending", "unknown", "review")


@dataclass(frozen=True, slots=True)
class Correction:
    """What a correction changes, and what a replay will do after it.

    `kept` and `dropped` are completed stages; `effects` are those that happened, or may have, under the old input."""

    case_id: str
    job_id: str
    kind: str
    changes: tuple[FieldChange, ...]
    failed_stage: str
    replay_stage: str
    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    effects: tuple[tuple[str, str], ...]
    is_preview: bool

    def shown(self) -> dict[str, Any]:
        """As JSON, for the API and the command line."""
        return {
            "id": self.case_id,
            "job_id": self.job_id,
            "kind": self.kind,
            "dry_run": self.is_preview,
            "changes": [change._asdict() for change in self.changes],
            "replay_from": self.replay_stage,
            "replay_reason": self.reason(),
            "results_kept": list(self.kept),
            "results_dropped": list(self.dropped),
            "effects_performed": [{"key": key, "status": status} for key, status in self.effects],
        }

    def reason(self) -> str:
        """Why a replay begins where it does, in a sentence."""
        if self.replay_stage == self.failed_stage:
            return f"A replay begins at the failed stage '{self.failed_stage}': no earlier stage reads what changed."
        return f"A replay begins at '{self.replay_stage}': its input has changed, so what it returned is out of date."


class _Preview(Exception):
    """Rolls a correction back that was only to be looked at."""


async def correct(
    kernel: Kernel,
    case_id: str,
    *,
    actor: str,
    values: Mapping[str, Any] | None = None,
    document: Any = None,
    reason: str | None = None,
    dry_run: bool = False,
) -> Correction:
    """Replace fields of a dead job's input (`values`, by path) or all of it (`document`).

    Refuses what does not fit the kind's type, naming the field; the case is remediated by it. With `dry_run` nothing
    is written."""
    if (values is None) == (document is None):
        raise InvalidInput("Give either values by their paths, or the whole input.")
    corrections: list[Correction] = []
    try:
        async with kernel.store.transaction() as tx:
            corrections.append(await _correct(kernel, tx, case_id, values, document, actor, reason, dry_run))
            if dry_run:
                raise _Preview
    except _Preview:
        return corrections[-1]
    return corrections[-1]


async def _correct(
    kernel: Kernel,
    tx: Tx,
    case_id: str,
    values: Mapping[str, Any] | None,
    document: Any,
    actor: str,
    reason: str | None,
    is_preview: bool,
) -> Correction:
    case = await cases.lock(tx, case_id)
    if case is None:
        raise NotFound(f"There is no dead letter {case_id}.")
    problem = why_not(CaseState(case.state), "correct")
    locked = await jobs.lock_one(tx, case.job_id)
    if problem is not None or locked is None or locked[0].state != State.DEAD:
        raise NotAllowed(problem or f"Job {case.job_id} is not dead any more; its input cannot be corrected.")
    kind, before = kernel.registry.kind(case.kind), locked[0].payload
    now = kernel.now()
    after = await _sealed(tx, kind, case.job_id, before, _checked(kind, json.loads(before), values, document), now)
    correction = await _described(tx, case_id, case, kind, before, after, is_preview)
    await jobs.correct(tx, case.job_id, after, kind.version, now)
    if kind.search:
        await search.forget(tx, [case.job_id])
        await search.put(tx, {case.job_id: terms_of(kind.search, after)})
    fields = batch.text({"fields": [change.path for change in correction.changes]})
    await events.append(tx, [(case.job_id, locked[0].attempt, "corrected", fields)], now)
    await kind.instance.corrected(kernel, tx, Corrected(case.job_id, _loaded(kind, before), _loaded(kind, after), now))
    await _record(tx, case, correction, actor, _cleaned(reason), before, after, now)
    return correction


def _checked(kind: JobKind, original: Any, values: Mapping[str, Any] | None, document: Any) -> str:
    """The corrected input as it is stored. What was masked when it was shown is put back first."""
    try:
        given = with_values(original, values) if values is not None else document
    except BadPath as error:
        raise InvalidInput(str(error)) from None
    given = keep_masked(given, original)
    after = kind.dump_input(kind.load_input(json.dumps(given)))
    dropped = unknown_field(given, json.loads(after), original)
    if dropped is not None:
        raise InvalidInput(f"The input of '{kind.name}' has no field '{dropped}'.")
    if is_same(json.loads(after), original):
        raise InvalidInput("The correction changes nothing: the input is already so.")
    return after


async def _sealed(tx: Tx, kind: JobKind, job_id: str, before: str, after: str, now: int) -> str:
    """The corrected input as it may be stored: a new address is sealed under a new number, one that came back stays."""
    if not kind.seals:
        return after
    numbers = (await secrets.of_owners(tx, [job_id])).get(job_id, {})
    hidden, sealed = seal_input(kind.sealer, kind.seals, after, first=max(numbers, default=0) + 1, kept=before)
    await secrets.put(tx, {job_id: sealed}, now)
    return hidden


def _loaded(kind: JobKind, text: str) -> Any:
    try:
        return kind.load_input(text)
    except InvalidInput:
        return None  # the old input does not fit its type; that may be why the job died


async def _described(
    tx: Tx, case_id: str, case: CaseToStep, kind: JobKind, before: str, after: str, is_preview: bool
) -> Correction:
    old, new = json.loads(before), json.loads(after)
    stages = [StageInput(stage.name, stage.reads) for stage in kind.stages]
    names = [stage.name for stage in stages]
    start = replay_start(stages, case.stage, changed_fields(old, new))
    if case.replay_stage in names:  # an earlier correction of the same death
        start = min(start, case.replay_stage, key=names.index)
    done = [row.stage for row in await results.of_job(tx, case.job_id) if not row.is_late]
    rerun = set(names[names.index(start) :])
    happened = [(row.key, row.status) for row in await effects.of_job(tx, case.job_id)]
    return Correction(
        case_id=case_id,
        job_id=case.job_id,
        kind=kind.name,
        changes=tuple(changes(old, new)),
        failed_stage=case.stage,
        replay_stage=start,
        kept=tuple(name for name in done if name not in rerun),
        dropped=tuple(name for name in done if name in rerun),
        effects=tuple((key, status) for key, status in happened if status in HAPPENED),
        is_preview=is_preview,
    )


async def _record(
    tx: Tx, case: CaseToStep, correction: Correction, actor: str, reason: str | None, before: str, after: str, now: int
) -> None:
    fields = ", ".join(change.path for change in correction.changes)
    evidence = f"Corrected {fields}." if reason is None else f"Corrected {fields}: {reason}"
    start = correction.replay_stage if correction.replay_stage != correction.failed_stage else None
    state = CaseState(case.state)
    await cases.correct(
        tx,
        correction.case_id,
        state,
        STEPS["correct"][1],
        now,
        evidence=evidence[:REASON_LENGTH_MAX],
        replay_stage=start,
    )
    await cases.keep_correction(
        tx, correction.case_id, correction.job_id, now, actor=actor, reason=reason, before=before, after=after
    )
    # The audit outlives the job, so nobody's address stays in it; the table of corrections goes with the job.
    data = {"from": state, "reason": reason, "changes": [change._asdict() for change in correction.changes]}
    data["replay_from"] = correction.replay_stage
    await audit.write(tx, actor, "case.corrected", f"case:{correction.case_id}", redact(data), now)


def _cleaned(reason: str | None) -> str | None:
    text = redact_text((reason or "").strip())[:REASON_LENGTH_MAX]
    return text or None


async def history(tx: Tx, job_id: str) -> dict[str, Any]:
    """The input of a job as it is and as it was, with every correction between; secrets masked."""
    job = await jobs.show(tx, job_id)
    rows = await cases.corrections(tx, job_id)
    return {
        "input": None if job is None else redact(json.loads(job.payload), emails=False),
        "original_input": redact(json.loads(rows[0].before), emails=False) if rows else None,
        "corrections": [_entry(row) for row in rows],
    }


def _entry(row: KeptCorrection) -> dict[str, Any]:
    differences: Sequence[FieldChange] = changes(json.loads(row.before), json.loads(row.after))
    return {
        "at": row.at,
        "actor": row.actor,
        "reason": row.reason,
        "changes": [change._asdict() for change in differences],
    }
