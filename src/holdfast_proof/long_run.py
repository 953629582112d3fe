"""Runs every world in turn until the time is over: what `make sim-long` does. A line a minute says how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import count, cycle
from multiprocessing import get_context

from holdfast_proof.report import SeedReport, Totals
from holdfast_proof.run import CHUNK, run_chunk, settle_memory, world_of

SAY_EVERY_S = 60.0
AHEAD = 2
"""How many chunks wait for each process, so that none is ever idle."""

Say = Callable[[str], object]


def run_for(minutes: float, systems: Sequence[str], first_seed: int, processes: int, say: Say) -> list[Totals]:
    """Run fresh seeds of every system until the time is over; return the totals of each, in the order given."""
    totals = {name: Totals(system=name, coverage=world_of(name).coverage) for name in systems}
    begun = time.monotonic()
    said = begun
    with _workers(processes) as pool:
        for reports in _chunks(pool, systems, first_seed, processes * AHEAD, begun + minutes * 60):
            for report in reports:
                totals[report.system].add(report)
                if report.findings:
                    say(report.text())
            if time.monotonic() - said >= SAY_EVERY_S:
                said = time.monotonic()
                say(_progress(said - begun, totals.values()))
    return list(totals.values())


def _chunks(
    pool: ProcessPoolExecutor, systems: Sequence[str], first_seed: int, ahead: int, until: float
) -> Iterator[list[SeedReport]]:
    """Chunks of seeds, the systems in turn, as they are done. What has begun when the time is over is finished."""
    turns = zip(count(), cycle(systems), strict=False)
    under_way: set[Future[list[SeedReport]]] = set()
    while True:
        while time.monotonic() < until and len(under_way) < ahead:
            number, name = next(turns)
            start = first_seed + number // len(systems) * CHUNK
            under_way.add(pool.submit(run_chunk, start, CHUNK, name, None))
        if not under_way:
            return
        done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
        for chunk in done:
            yield chunk.result()


@contextmanager
def _workers(processes: int) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(processes, mp_context=get_context("fork"), initializer=settle_memory)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _progress(passed_s: float, totals: Iterable[Totals]) -> str:
    parts = [f"{one.system} {one.seeds:,} seeds, {one.violations} violations" for one in totals]
    return f"{passed_s / 60:.0f} min: {'; '.join(parts)}"
