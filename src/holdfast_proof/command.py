"""What `holdfast simulate` does: run, print, and exit with 1 if a promise was broken or the harness saw too little."""

from __future__ import annotations

import json
import sys
import time

from holdfast_proof.long_run import run_for
from holdfast_proof.report import Totals
from holdfast_proof.run import simulate, worlds

FAILED_SHOWN = 3


def main(
    *,
    seeds: int,
    first_seed: int | None,
    system: str,
    minutes: float = 0.0,
    as_json: bool = False,
    processes: int = 2,
) -> int:
    """Run `seeds` of each system, or as many as `minutes` allow. Without a first seed, a long run begins where none
    has before."""
    names, problems = worlds(system)
    if minutes:
        first = int(time.time()) * 1_000 if first_seed is None else first_seed
        totals = run_for(minutes, names, first, processes, _aside)
    else:
        totals = [simulate(seeds, 1 if first_seed is None else first_seed, name, processes) for name in names]
    for one in totals:
        problems += [f"{one.system}: {problem}" for problem in one.problems()]
        print(json.dumps(one.data()) if as_json else _told(one))
    for problem in problems:
        _aside(problem)
    return int(bool(problems) or any(one.failed for one in totals))


def _told(totals: Totals) -> str:
    return "\n".join([totals.text(), *(report.text() for report in totals.failed[:FAILED_SHOWN])])


def _aside(text: str) -> None:
    """Beside the answer itself, which may be read by a program."""
    print(text, file=sys.stderr, flush=True)
