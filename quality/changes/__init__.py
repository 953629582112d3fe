"""Changes written for this bench: some with a defect that a reviewer would name, some that should pass in silence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from quality.changes import planted, quiet


@dataclass(frozen=True, slots=True)
class Planted:
    """One file before and after. `rules` are parts of the rules' names that may find its defect; none: no defect."""

    path: str
    old: str
    new: str
    rules: tuple[str, ...] = ()


DEFECTS = tuple(Planted(*each) for each in planted.CHANGES)
QUIET = tuple(Planted(*each) for each in quiet.CHANGES)
# Ordinary code of this project, as if it were new: nobody should have much to say about it.
_SOURCES = Path(__file__).resolve().parents[2] / "src" / "holdfast" / "core"
FILLER = tuple(Planted(f"src/core/{path.name}", "", path.read_text()) for path in sorted(_SOURCES.glob("*.py"))[:8])
