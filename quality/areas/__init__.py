"""One file an area. A file here with a function `measure() -> Iterable[Row]` is in the table; nothing else lists it."""

from __future__ import annotations

import importlib
import pkgutil

from quality.row import Measure


def areas() -> dict[str, Measure]:
    """Every area by the name of its file, in alphabetical order. Importing them measures nothing."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    return {name: importlib.import_module(f"{__name__}.{name}").measure for name in names}
