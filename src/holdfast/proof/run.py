"""Runs seeds: one, or many over several processes. Worlds are found by entry point; `world.py` says how to write one.

report = run_seed(4711)                                  # raises nothing: read report.findings
totals = simulate(3_000, first_seed=0, system="kernel")  # totals.violations, totals.problems()
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from importlib.metadata import entry_points
from multiprocessing import get_context

from holdfast.errors import NotFound
from holdfast.proof.history import fingerprint, timeline, triggers
from holdfast.proof.report import SeedReport, Totals, counted
from holdfast.proof.store import Arena
from holdfast.proof.world import World
from holdfast.tables.schema import KERNEL

CHUNK = 25
FAILED_SHOWN = 3
TIMELINES_MAX = 2
"""How many jobs' stories a failing seed tells."""

# mallopt(3): how much free memory is kept at the top of the heap, and from which size a block gets pages of its own.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3

WORLDS = "holdfast.worlds"
"""The group of entry points that name worlds, as `holdfast.systems` names systems."""


def systems() -> list[str]:
    """Every system that has a world."""
    return sorted(entry_points(group=WORLDS).names)


@cache
def world_of(system: str) -> type[World]:
    for point in entry_points(group=WORLDS, name=system):
        found: type[World] = point.load()
        return found
    raise NotFound(f"There is no world '{system}'; known: {', '.join(systems())}.")


def run_seed(seed: int, *, system: str = "kernel", mutant: str | None = None) -> SeedReport:
    """Live one seed and judge it. `mutant` is "module:function", a context manager that plants a bug (tests only)."""
    started = time.process_time()
    with _planted(mutant):
        build = world_of(system)
        world = build(seed, {name: _arena(system, name, os.getpid()) for name in build.databases})
        try:
            history = world.run()
            findings = world.findings(history)
            jobs = list(dict.fromkeys(f.job for f in findings if f.job))[:TIMELINES_MAX]
            return SeedReport(
                seed=seed,
                system=system,
                findings=findings,
                hash=fingerprint(history),
                counts=counted(world, history),
                timelines={job: timeline(history, job) for job in jobs},
                cpu_s=time.process_time() - started,
            )
        finally:
            world.close()


def simulate(
    seeds: int, first_seed: int = 0, system: str = "kernel", processes: int = 2, mutant: str | None = None
) -> Totals:
    """Run many seeds and add up. Results come in order of seed, whichever process ran them."""
    totals = Totals(system=system, coverage=world_of(system).coverage)
    for report in reports(seeds, first_seed, system, processes, mutant):
        totals.add(report)
    return totals


def reports(
    seeds: int, first_seed: int, system: str, processes: int = 2, mutant: str | None = None
) -> Iterator[SeedReport]:
    """One report per seed, in order."""
    if processes <= 1 or seeds <= CHUNK:
        settle_memory()
        for seed in range(first_seed, first_seed + seeds):
            yield run_seed(seed, system=system, mutant=mutant)
        return
    starts = range(first_seed, first_seed + seeds, CHUNK)
    sizes = [min(CHUNK, first_seed + seeds - start) for start in starts]
    with ProcessPoolExecutor(processes, mp_context=get_context("fork"), initializer=settle_memory) as pool:
        chunks = [
            pool.submit(_run_chunk, start, size, system, mutant) for start, size in zip(starts, sizes, strict=True)
        ]
        for chunk in chunks:
            yield from chunk.result()


def main(*, seeds: int, first_seed: int, system: str, as_json: bool = False, processes: int = 2) -> int:
    """What `holdfast simulate` does: run, print, and return 1 if a promise was broken or the harness saw too little."""
    failed = False
    totals = [simulate(seeds, first_seed, name, processes) for name in (systems() if system == "all" else [system])]
    for one in totals:
        problems = one.problems()
        failed = failed or bool(one.failed or problems)
        if as_json:
            print(json.dumps(one.data()))
            continue
        print(one.text())
        for report in one.failed[:FAILED_SHOWN]:
            print(report.text())
        for problem in problems:
            print(problem)
    return int(failed)


def _run_chunk(first_seed: int, seeds: int, system: str, mutant: str | None) -> list[SeedReport]:
    return [run_seed(seed, system=system, mutant=mutant) for seed in range(first_seed, first_seed + seeds)]


@cache
def settle_memory() -> None:
    """What is loaded now stays: the collector need not look at it after every seed. And what a seed frees is kept for
    the next one, instead of being given back to the system and fetched again, 6,000 pages a seed."""
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError):  # another C library: slower, that is all
        mallopt = ctypes.CDLL(None).mallopt
        for what, limit in ((M_TRIM_THRESHOLD, 1 << 29), (M_TOP_PAD, 1 << 26), (M_MMAP_THRESHOLD, 1 << 29)):
            mallopt(what, limit)


def _planted(mutant: str | None) -> AbstractContextManager[object]:
    if mutant is None:
        return nullcontext()
    module, _, name = mutant.partition(":")
    planted: AbstractContextManager[object] = getattr(importlib.import_module(module), name)()
    return planted


@cache
def _arena(system: str, database: str, process: int) -> Arena:
    """One per process: SQLite's connections do not survive a fork."""
    build = world_of(system)
    steps = list(KERNEL)
    for app in build.databases[database]:
        steps += app.migrations
    return Arena(f"{system}-{database}", steps, triggers(build.watched.get(database, {})))
