"""Conversion as a system: what `holdfast up`, the API, the console and the command line find by its entry point."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.kit import Kernel
from holdfast.settings import read
from holdfast.system import Page, System, SystemPages
from holdfast_systems.conversion.demo import DEMO
from holdfast_systems.conversion.jobs import NAME, build
from holdfast_systems.conversion.public_problem import PATHS, public_problem
from holdfast_systems.conversion.settings import ConversionSettings

if TYPE_CHECKING:
    from fastapi import APIRouter


def system() -> System:
    return System(
        name=NAME,
        title="Conversion: PDFs to XML, at /convert",
        database="DATABASE_URL",
        build=build,
        routes=_routes,
        settings=(ConversionSettings,),
        concurrency=_concurrency,
        problems=(PATHS, public_problem),
        pages=SystemPages(
            Path(__file__).parent / "web",
            (Page("convert", "Convert", "convert.html", script="convert.js", style="convert.css"),),
            card="card.html",
            card_script="card.js",
        ),
        demo=DEMO,
    )


def _routes(kernel: Kernel, env: Mapping[str, str]) -> APIRouter:
    # A worker needs no web framework, so it is imported only where routes are asked for.
    from holdfast_systems.conversion.http import routes

    return routes(kernel, env)


def _concurrency(env: Mapping[str, str]) -> int:
    return read(ConversionSettings, env).concurrency
