"""One step for many dead letters: those that fit a filter, the oldest first, over all systems of a deployment.

A bulk form first says what it would do (`dry_run`), and spreads replays by `per_minute`: a provider that has just
recovered meets a trickle. The operator's API and the command line take the same forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from uuid import UUID

from pydantic import BaseModel, Field, model_validator

from holdfast.core.case import CaseState, Cause, why_not, why_unverified
from holdfast.errors import NotAllowed, NotFound
from holdfast.kernel import operate
from holdfast.kernel.kernel import Kernel
from holdfast.operator.human_text import HumanText
from holdfast.stores.seam import Tx
from holdfast.tables import cases
from holdfast.tables.cases import LetterLine

BULK_MAX = 1_000
SCANNED_MAX = 50_000
REFUSED_SHOWN = 100
PAGE = 1_000

Place = tuple[str, Kernel]
"""A system's name and its kernel."""
Match = tuple[Place, LetterLine]


class Which(BaseModel):
    """Dead letters by what they have in common, or by id. At least one field must be given."""

    ids: list[UUID] | None = Field(default=None, max_length=BULK_MAX)
    state: CaseState | None = None
    kind: HumanText | None = None
    stage: HumanText | None = None
    error_class: HumanText | None = None
    fingerprint: HumanText | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Which:
        if all(value is None for value in self.model_dump().values()):
            raise ValueError("a filter must name at least one of ids, state, kind, stage, error_class, fingerprint")
        return self


class Bulk(BaseModel):
    """A form of one step: which dead letters, and how many at most."""

    action: ClassVar[str]

    filter: Which
    dry_run: bool = False
    limit: int = Field(default=BULK_MAX, ge=1, le=BULK_MAX)

    async def act(self, kernel: Kernel, case_id: str, number: int, actor: str) -> None:
        """Take one dead letter, the `number`-th of this form, through the step."""
        raise NotImplementedError

    def problem(self, case: LetterLine) -> str | None:
        """Why a dead letter cannot take the step; None if it can."""
        return why_not(CaseState(case.state), self.action)


class BulkTriage(Bulk):
    action = "triage"

    cause: Cause
    notes: HumanText | None = None

    async def act(self, kernel: Kernel, case_id: str, number: int, actor: str) -> None:
        await operate.triage(kernel, case_id, cause=self.cause, actor=actor, notes=self.notes)


class BulkRemediate(Bulk):
    action = "remediate"

    evidence: HumanText = Field(min_length=1)

    async def act(self, kernel: Kernel, case_id: str, number: int, actor: str) -> None:
        await operate.remediate(kernel, case_id, evidence=self.evidence, actor=actor)


class BulkReplay(Bulk):
    """`per_minute` spreads the replays over time; unset, all are due at once."""

    action = "replay"

    full: bool = False
    per_minute: float | None = Field(default=None, gt=0, le=1_000_000)

    async def act(self, kernel: Kernel, case_id: str, number: int, actor: str) -> None:
        delay_s = 0.0 if self.per_minute is None else number * 60.0 / self.per_minute
        await operate.replay(kernel, case_id, actor=actor, full=self.full, delay_s=delay_s)


class BulkResolve(Bulk):
    """Those whose replay has succeeded; with `without_replay`, the reason, also those that nobody needs to replay."""

    action = "resolve"

    notes: HumanText | None = Field(default=None, min_length=1)
    without_replay: HumanText | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _is_justified(self) -> BulkResolve:
        if self.notes is None and self.without_replay is None:
            raise ValueError("say how it ended in notes, or why no replay is needed in without_replay")
        return self

    async def act(self, kernel: Kernel, case_id: str, number: int, actor: str) -> None:
        await operate.resolve(kernel, case_id, notes=self.notes, without_replay=self.without_replay, actor=actor)

    def problem(self, case: LetterLine) -> str | None:
        unfit = super().problem(case)
        return unfit or why_unverified(CaseState(case.state), case.job_state, self.without_replay)


FORMS: dict[str, type[Bulk]] = {one.action: one for one in (BulkTriage, BulkRemediate, BulkReplay, BulkResolve)}


async def bulk(places: Sequence[Place], form: Bulk, actor: str) -> dict[str, Any]:
    """The step for every match that can take it, the oldest first, up to the limit; what is left is `remaining`.

    Each case is its own transaction: one that refuses says why and holds up nobody."""
    done: list[dict[str, str]] = []
    refused: list[dict[str, str]] = []
    fit, unfit = _sorted_out(await _matching(places, form.filter), form)
    for place, case in fit[: form.limit]:
        try:
            if not form.dry_run:
                await form.act(place[1], case.id, len(done), actor)
            done.append(_entry(place, case))
        except (NotAllowed, NotFound) as error:  # somebody else was quicker
            refused.append(_entry(place, case) | {"detail": str(error)})
    refused += [_entry(place, case) | {"detail": detail} for (place, case), detail in unfit[:REFUSED_SHOWN]]
    matched, remaining = len(fit) + len(unfit), max(0, len(fit) - form.limit)
    return {"dry_run": form.dry_run, "matched": matched, "done": done, "refused": refused, "remaining": remaining}


def _sorted_out(matches: Sequence[Match], form: Bulk) -> tuple[list[Match], list[tuple[Match, str]]]:
    """Those that can take the step, and those that cannot, each with the reason; the oldest first."""
    fit: list[Match] = []
    unfit: list[tuple[Match, str]] = []
    for match in sorted(matches, key=lambda match: str(match[1].id)):
        problem = form.problem(match[1])
        if problem is None:
            fit.append(match)
        else:
            unfit.append((match, problem))
    return fit, unfit


def _entry(place: Place, case: LetterLine) -> dict[str, str]:
    return {"system": place[0], "id": case.id, "job_id": case.job_id}


async def _matching(places: Sequence[Place], which: Which) -> list[Match]:
    found: list[Match] = []
    for place in places:
        async with place[1].store.reading() as tx:
            found += [(place, row) for row in await _of_system(tx, which)]
    return found


async def _of_system(tx: Tx, which: Which) -> list[LetterLine]:
    wanted = which.model_dump(exclude={"ids"})
    ids = None if which.ids is None else {str(one) for one in which.ids}
    found: list[LetterLine] = []
    before: str | None = None
    while len(found) < SCANNED_MAX:
        rows = await cases.page(tx, before=before, limit=PAGE, **wanted)
        found += [row for row in rows if ids is None or row.id in ids]
        if len(rows) < PAGE:
            break
        before = rows[-1].id
    return found
