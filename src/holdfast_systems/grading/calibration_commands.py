"""`holdfast grading`: calibrate the grader by the instructors' reviews, look at the fits, roll the last one back."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import typer

from holdfast.cli.reach import on_kernel, say, show_rows
from holdfast.cli.start import ME, Actor, AsJson, Limit
from holdfast.kit import Kernel, iso
from holdfast_systems.grading import calibrations
from holdfast_systems.grading.calibration import REVIEWS_MIN
from holdfast_systems.grading.calibrations import CalibrationRow, Skill

T = TypeVar("T")
SYSTEM = "grading-main"
SkillOption = Annotated[Skill, typer.Option(help="Which answers.")]

grading_cli = typer.Typer(no_args_is_help=True)


@grading_cli.command("calibrate")
def calibrate(skill: SkillOption = "writing", actor: Actor = ME, as_json: AsJson = False) -> None:
    """Fit the reviews of a skill. The fit is used from now on if it is better on reviews that it had not seen."""

    async def act(kernel: Kernel) -> tuple[CalibrationRow | None, int]:
        row = await calibrations.calibrate_skill(kernel, skill, actor)
        return row, await calibrations.review_count(kernel, skill) if row is None else 0

    row, count = on_kernel(SYSTEM, act)
    if row is None:
        say(f"{count} answers have been reviewed and measured; {REVIEWS_MIN} are needed.", as_json, reviews=count)
        return
    fit = row.fit
    verdict = "is in use" if row.status == "active" else "is not better and is not used"
    say(
        f"Version {row.version} {verdict}: mean distance from {fit.reviews} reviews was {fit.error_before:.2f} points, "
        f"is {fit.error_after:.2f} on held-out ones.",
        as_json,
        **_shown(row),
    )


@grading_cli.command("calibrations")
def list_calibrations(limit: Limit = 50, as_json: AsJson = False) -> None:
    """The fits, the newest first."""

    async def ask(kernel: Kernel) -> list[dict[str, Any]]:
        async with kernel.store.reading() as tx:
            return [_shown(row) for row in await calibrations.history(tx, limit)]

    columns = ["version", "skill", "status", "reviews", "errorBefore", "errorAfter", "createdAt", "createdBy"]
    show_rows(lambda: on_kernel(SYSTEM, ask), columns, as_json)


@grading_cli.command("rollback")
def rollback(skill: SkillOption = "writing", as_json: AsJson = False) -> None:
    """Stop using the present calibration; the one before it, if there is one, is used again."""

    async def act(kernel: Kernel) -> CalibrationRow | None:
        return await calibrations.roll_back(kernel, skill)

    restored = on_kernel(SYSTEM, act)
    used = f"version {restored.version}" if restored else "the plain grader"
    say(f"From now on {used} grades {skill}.", as_json, version=restored.version if restored else None)


def _shown(row: CalibrationRow) -> dict[str, Any]:
    return {
        "version": row.version,
        "skill": row.skill,
        "status": row.status,
        "reviews": row.fit.reviews,
        "errorBefore": round(row.fit.error_before, 3),
        "errorAfter": round(row.fit.error_after, 3),
        "createdAt": iso(row.created_at),
        "createdBy": row.created_by,
    }
