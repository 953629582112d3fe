"""Submits failed work again, for its learner or an operator: once per key, whoever asks and however often."""

from __future__ import annotations

from typing import Any

from fastapi.responses import Response

from holdfast import NotFound
from holdfast.http.auth import Principal
from holdfast.http.idempotency import idempotent
from holdfast.http.limits import hold_to
from holdfast.http.problem import Problem
from holdfast.kit import Kernel
from holdfast.kit.tables import Tx
from holdfast_systems.grading import attempts, submissions
from holdfast_systems.grading.settings import MainSettings
from holdfast_systems.grading.submission_ids import checked_id
from holdfast_systems.grading.submission_views import shown
from holdfast_systems.grading.transitions import TransitionRefusal


async def resubmit_submission(
    kernel: Kernel, settings: MainSettings, submission_id: str, who: Principal, key: str | None, *, required: bool
) -> Response:
    """What both POSTs that resubmit do. The caller has checked that `who` may; an operator is held to no limit."""
    checked = checked_id(submission_id)

    async def make(tx: Tx) -> tuple[int, dict[str, Any]]:
        stored = await submissions.lock(tx, checked)
        if stored is None:
            raise NotFound("There is no such submission.")
        if stored.user_id == who.sub:
            await hold_to(kernel, tx, who, settings.user_limits, submissions.usage, "submissions")
        try:
            return 201, shown(await attempts.resubmit(kernel, tx, settings, stored, who.sub))
        except TransitionRefusal as refusal:
            raise Problem(409, refusal.code, str(refusal)) from None

    route = f"POST /api/submissions/{checked}/resubmit"
    return await idempotent(kernel, who, route, key, {}, make, required=required)
