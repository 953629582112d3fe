"""Every row of the bench, in the order of the report."""

from __future__ import annotations

from bench.model import Row
from bench.rows import accepting, standing, systems, working

ROWS: list[Row] = [*working.ROWS, *accepting.ROWS, *standing.ROWS, *systems.ROWS]
