"""Texts written for this bench, each at the level that its name begins with: `b1-phones.txt` is a B1 text.

Nobody's answers are among them. What they cannot show: how well scores agree with people's over real learners.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent


def texts(kind: str = "") -> list[tuple[str, str, str]]:
    """Level, name and text of each written text; with `kind` "spoken", of each transcript."""
    paths = sorted((_FOLDER / kind).glob("*.txt"))
    return [(path.stem.partition("-")[0].upper(), path.stem, path.read_text().strip()) for path in paths]
