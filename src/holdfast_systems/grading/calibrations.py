"""The main app's calibrations: fitted from its instructors' reviews, versioned, used for what the service grades next.

A fit that is not better on held-out reviews is kept as `refused` and used for nothing. The one in use can be rolled
back to the one before it, or to none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from holdfast import NotFound
from holdfast.kit import Kernel
from holdfast.kit.tables import Row, Tx, load_statements
from holdfast_systems.grading import messages
from holdfast_systems.grading.calibration import REVIEWS_MAX, Calibration, MarkedAnswer, calibrate
from holdfast_systems.grading.contract import Callback, CompletedCallback, Result
from holdfast_systems.grading.grade import band_of, to_half

sql = load_statements(Path(__file__).with_suffix(".sql"))

Skill = Literal["writing", "speaking"]
SKILLS: tuple[Skill, ...] = ("writing", "speaking")
# The nightly run waits for this many reviews more than the last fit had seen, or a tenth of them.
_NEW_REVIEWS_MIN = 10


class CalibrationRow(NamedTuple):
    """A fit as it is kept. `fit` says what it saw and how well it did."""

    version: int
    skill: str
    status: Literal["active", "retired", "refused", "rolled_back"]
    fit: Calibration
    created_at: int
    created_by: str


async def calibrate_skill(kernel: Kernel, skill: Skill, actor: str) -> CalibrationRow | None:
    """Fit the latest reviews of a skill, and use the fit if it is better; None if there are too few reviews."""
    async with kernel.store.reading() as tx:
        reviews = await _reviews(tx, skill)
    fit = calibrate(reviews)
    if fit is None:
        return None
    async with kernel.store.transaction() as tx:
        if fit.is_better:
            await tx.rows(sql.retire, skill=skill, status="retired")
        status = "active" if fit.is_better else "refused"
        now, text = kernel.now(), fit.model_dump_json()
        return _rows(await tx.rows(sql.insert, skill=skill, status=status, fit=text, now=now, actor=actor))[0]


async def calibrate_all(kernel: Kernel, actor: str) -> int:
    """Fit every skill that has enough new reviews; returns how many fits were made."""
    made = 0
    for skill in SKILLS:
        async with kernel.store.reading() as tx:
            count = len(await _reviews(tx, skill))
            newest = _rows(await tx.rows(sql.newest, skill=skill))
        seen = newest[0].fit.reviews if newest else 0
        if count >= REVIEWS_MAX or count >= seen + max(_NEW_REVIEWS_MIN, seen // 10):
            made += await calibrate_skill(kernel, skill, actor) is not None
    return made


async def review_count(kernel: Kernel, skill: Skill) -> int:
    """How many reviews a fit of this skill could learn from."""
    async with kernel.store.reading() as tx:
        return len(await _reviews(tx, skill))


async def roll_back(kernel: Kernel, skill: Skill) -> CalibrationRow | None:
    """Stop using the present calibration. Returns the one before it, which is used again, or None: the plain grader."""
    async with kernel.store.transaction() as tx:
        if not await tx.rows(sql.retire, skill=skill, status="rolled_back"):
            raise NotFound(f"There is no calibration of {skill} to roll back.")
        restored = _rows(await tx.rows(sql.restore, skill=skill))
    return restored[0] if restored else None


async def history(tx: Tx, limit: int) -> list[CalibrationRow]:
    """The fits, the newest first."""
    return _rows(await tx.rows(sql.history, limit=limit))


async def calibrated(tx: Tx, skill: str, callback: Callback) -> Callback:
    """The callback with its result read as the skill's calibration says; as it came where there is none."""
    if not isinstance(callback, CompletedCallback) or not _can_learn(callback.data.result):
        return callback
    active = _rows(await tx.rows(sql.active, skill=skill))
    if not active:
        return callback
    result = apply_to(callback.data.result, active[0].fit, active[0].version)
    return callback.model_copy(update={"data": callback.data.model_copy(update={"result": result})})


def apply_to(result: Result, fit: Calibration, version: int) -> Result:
    """A result on the instructors' scale. What the service said stays beside it; a review that it asked for
    whatever its confidence stays asked for."""
    assert isinstance(result.features, dict)
    score = to_half(fit.score(result.overall_score, _numbers(result.features)))
    confidence = fit.confidence(score)
    forced = result.review_required and result.confidence_score >= messages.REVIEW_BELOW
    reviewed = forced or messages.review_required(confidence)
    return result.model_copy(
        update={
            "overall_score": score,
            "band": band_of(score),
            "confidence_score": confidence,
            "review_required": reviewed,
            "review_priority": (messages.review_priority(confidence) or "Low") if reviewed else None,
            "audit_flag": messages.audit_flag(confidence),
            "criteria": _moved(result.criteria, score - result.overall_score),
            "calibration": {
                "version": version,
                "uncalibratedScore": result.overall_score,
                "uncalibratedConfidence": result.confidence_score,
            },
        }
    )


def _moved(criteria: Any, points: float) -> Any:
    """Criteria that keep their distance from the overall score; what is shaped otherwise stays."""
    if not isinstance(criteria, dict) or not all(
        isinstance(each, dict) and isinstance(each.get("score"), int | float) for each in criteria.values()
    ):
        return criteria
    return {name: each | {"score": to_half(each["score"] + points)} for name, each in criteria.items()}


def _can_learn(result: Result) -> bool:
    """Only measured results can be read anew, and only those that no signal has capped."""
    return isinstance(result.features, dict) and bool(result.features) and not result.signals


async def _reviews(tx: Tx, skill: str) -> list[MarkedAnswer]:
    rows = await tx.rows(sql.reviewed, skill=skill, limit=REVIEWS_MAX)
    found = (_review(json.loads(row["ai_result"] or "{}"), json.loads(row["human_result"])) for row in rows)
    return [review for review in found if review is not None]


def _review(ai: Mapping[str, Any], human: Mapping[str, Any]) -> MarkedAnswer | None:
    features = ai.get("features")
    if not isinstance(features, dict) or not features or ai.get("signals"):
        return None
    score = ai.get("calibration", {}).get("uncalibratedScore", ai["overallScore"])
    return MarkedAnswer(float(score), _numbers(features), float(human["overallScore"]))


def _numbers(features: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in features.items() if isinstance(value, int | float)}


def _rows(rows: Sequence[Row]) -> list[CalibrationRow]:
    found = []
    for row in rows:
        values = {name: row[name] for name in CalibrationRow._fields}
        values["fit"] = Calibration.model_validate_json(row["fit"])
        found.append(CalibrationRow(**values))
    return found
