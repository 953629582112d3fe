"""The two grading systems, as `holdfast` finds them by their entry points. Each has a database of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.kit import Counter, Kernel
from holdfast.settings import read
from holdfast.system import Page, System, SystemPages
from holdfast_systems.grading.demo import DEMO
from holdfast_systems.grading.gauges import GAUGES, read_gauges
from holdfast_systems.grading.grading_service import build_service
from holdfast_systems.grading.main_app import build_main
from holdfast_systems.grading.settings import MainSettings, ServiceSettings

if TYPE_CHECKING:
    from fastapi import APIRouter

MAIN_COUNTERS = (
    Counter("callbacks", "Callbacks that came to the main app, by what they did", ("kind", "outcome")),
    Counter("submissions_settled", "Submissions that changed status", ("status", "reason")),
)
SERVICE_COUNTERS = (Counter("grading_requests", "Requests that came to the grading service", ("skill", "outcome")),)


def grading_main() -> System:
    """Submissions over HTTP, callbacks, deadlines, the instructor queue."""
    return System(
        name="grading-main",
        title="Grading: submissions and reviews",
        database="MAIN_DATABASE_URL",
        build=build_main,
        routes=_routes,
        settings=(MainSettings,),
        counters=MAIN_COUNTERS,
        gauges=GAUGES,
        read_gauges=read_gauges,
        roles=("learner", "instructor"),
        pages=SystemPages(
            Path(__file__).parent / "web",
            (Page("instructor", "Instructors", "instructor.html", ("instructor",), "instructor.js", "desk.css"),),
            card="card.html",
            card_script="card.js",
            console="console.js",
        ),
        demo=DEMO,
    )


def grading_service() -> System:
    """The service that grades. It has no public HTTP: it is spoken to by queue."""
    return System(
        name="grading-service",
        title="Grading: the service that grades",
        database="GRADING_DATABASE_URL",
        build=build_service,
        settings=(ServiceSettings,),
        counters=SERVICE_COUNTERS,
        concurrency=lambda env: read(ServiceSettings, env).concurrency,
    )


def _routes(kernel: Kernel, env: Mapping[str, str]) -> APIRouter:
    # A worker needs no web framework, so it is imported only where routes are asked for.
    from holdfast_systems.grading.main_http import main_routes

    return main_routes(kernel, env)
