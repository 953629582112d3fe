"""The review system, as `holdfast` finds it by its entry point."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.kit import Counter, Kernel
from holdfast.settings import read
from holdfast.system import System, SystemPages
from holdfast_systems.review.demo import DEMO
from holdfast_systems.review.jobs import NAME, build_review
from holdfast_systems.review.settings import ReviewSettings

if TYPE_CHECKING:
    from fastapi import APIRouter

COUNTERS = (
    Counter("reviews_taken_back", "Reviews reopened because the provider does not know a mail that was marked as sent"),
)


def review() -> System:
    """Changelists are fetched, criticised, and their reviewers are mailed exactly once."""
    return System(
        name=NAME,
        title="Review: changelists and their reviewers",
        database=("REVIEW_DATABASE_URL", "DATABASE_URL"),
        build=build_review,
        routes=_routes,
        settings=(ReviewSettings,),
        concurrency=lambda env: read(ReviewSettings, env).concurrency,
        counters=COUNTERS,
        roles=("service",),
        pages=SystemPages(Path(__file__).parent / "web", card="card.html", card_script="card.js"),
        demo=DEMO,
    )


def _routes(kernel: Kernel, env: Mapping[str, str]) -> APIRouter:
    # A worker needs no web framework, so it is imported only where routes are asked for.
    from holdfast_systems.review.http import review_routes

    return review_routes(kernel, env)
