"""One step for many dead letters: those that fit a filter, the oldest first, over all systems of a deployment.

A bulk form first says what it would do (`dry_run`), and spreads replays by `per_minute`, so that a mended provider
meets a trickle. The operator's API and the command line take the same forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from uuid import UUID

from pydantic import BaseModel, Field, model_validator

from holdfast.core.case import NEXT_STEP, STEPS, CaseState, Cause
from holdfast.core.words import Words
from holdfast.errors import NotAllowed, NotFound
from holdfast.kernel import operate
from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Row, Tx
from holdfast.tables import cases

BULK_MAX = 1_000
SCANNED_MAX = 50_000
REFUSED_SHOWN = 100
PAGE = 1_000

Place = tuple[str, Kernel]
"""A system's name and its kernel."""
Match = tuple[Place, Row]


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
    """A form of one step: which dead letters, and how many at most."""

    action: ClassVar[str]

    filter: Which
    dry_run: bool = False
    limit: int = Field(default=BULK_MAX, ge=1, le=BULK_MAX)

    async def act(self, kernel: Kernel, case_id: str, number: int, actor: str) -> None:
        """Take one dead letter, the `number`-th of this form, through the step."""
        raise NotImplementedError


class BulkTriage(Bulk):
    action = "triage"

    cause: Cause
    notes: Words | None = None

    async def act(self, kernel: Kernel, case_id: str, number: int, actor: str) -> None:
        await operate.triage(kernel, case_id, cause=self.cause, actor=actor, notes=self.notes)


class BulkRemediate(Bulk):
    action = "remediate"

    evidence: Words = Field(min_length=1)

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
    action = "resolve"

    notes: Words = Field(min_length=1)

    async def act(self, kernel: Kernel, case_id: str, number: int, actor: str) -> None:
        await operate.resolve(kernel, case_id, notes=self.notes, actor=actor)


FORMS: dict[str, type[Bulk]] = {one.action: one for one in (BulkTriage, BulkRemediate, BulkReplay, BulkResolve)}


async def bulk(places: Sequence[Place], form: Bulk, actor: str) -> dict[str, Any]:
    """The step for every match that can take it, the oldest first, up to the limit; what is left is `remaining`.

    Each case is its own transaction: one that refuses says why and holds up nobody."""
    done: list[dict[str, str]] = []
    refused: list[dict[str, str]] = []
    fit, unfit = _sorted_out(await _matching(places, form.filter), form.action)
    for place, case in fit[: form.limit]:
        try:
            if not form.dry_run:
                await form.act(place[1], case["id"], len(done), actor)
            done.append(_entry(place, case))
        except (NotAllowed, NotFound) as error:  # somebody else was quicker
            refused.append(_entry(place, case) | {"detail": str(error)})
    refused += [_entry(place, case) | {"detail": _why_not(case, form.action)} for place, case in unfit[:REFUSED_SHOWN]]
    matched, remaining = len(fit) + len(unfit), max(0, len(fit) - form.limit)
    return {"dry_run": form.dry_run, "matched": matched, "done": done, "refused": refused, "remaining": remaining}


def _sorted_out(matches: Sequence[Match], action: str) -> tuple[list[Match], list[Match]]:
    allowed, _ = STEPS[action]
    ordered = sorted(matches, key=lambda match: str(match[1]["id"]))
    fit = [match for match in ordered if CaseState(match[1]["state"]) in allowed]
    return fit, [match for match in ordered if CaseState(match[1]["state"]) not in allowed]


def _entry(place: Place, case: Row) -> dict[str, str]:
    return {"system": place[0], "id": case["id"], "job_id": case["job_id"]}


def _why_not(case: Row, action: str) -> str:
    state = CaseState(case["state"])
    return f"A dead letter that is {state} cannot be taken through '{action}'. Next: {NEXT_STEP[state]}."


async def _matching(places: Sequence[Place], which: Which) -> list[Match]:
    found: list[Match] = []
    for place in places:
        async with place[1].store.reading() as tx:
            found += [(place, row) for row in await _of_system(tx, which)]
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
