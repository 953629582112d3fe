"""Conversion as a system: what `holdfast up`, the API, the console and the command line find by its entry point."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.settings import read
from holdfast.system import System
from holdfast_systems.conversion.http import routes
from holdfast_systems.conversion.jobs import NAME, build
from holdfast_systems.conversion.public_problem import PATHS, public_problem
from holdfast_systems.conversion.settings import ConversionSettings


def system() -> System:
    return System(
        name=NAME,
        title="Conversion: PDFs to XML, at /convert",
        database="DATABASE_URL",
        build=build,
        routes=routes,
        settings=(ConversionSettings,),
        concurrency=_concurrency,
        problems=(PATHS, public_problem),
    )


def _concurrency(env: Mapping[str, str]) -> int:
    return read(ConversionSettings, env).concurrency
