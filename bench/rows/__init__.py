"""Every row of the bench, in the order of the report."""

from __future__ import annotations

from bench.model import Row
from bench.rows import accepting, aside, held, standing, systems, working, writing

ROWS: list[Row] = [
    *working.ROWS,
    *aside.ROWS,
    *writing.ROWS,
    *accepting.ROWS,
    *standing.ROWS,
    *held.ROWS,
    *systems.ROWS,
]
