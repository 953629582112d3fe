"""Runs seeds: one, or many over several processes. Worlds are found by entry point; `world.py` says how to write one.

report = run_seed(4711)                                  # raises nothing: read report.findings
totals = simulate(3_000, first_seed=0, system="kernel")  # totals.violations, totals.problems()
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from importlib.metadata import entry_points
from multiprocessing import get_context

from holdfast.errors import NotFound
from holdfast.operator.finding import Violation
from holdfast.tables.schema import KERNEL
from holdfast_proof.history import fingerprint, timeline, triggers
from holdfast_proof.report import SeedReport, Totals, counted
from holdfast_proof.store import Arena
from holdfast_proof.world import SimWorld

CHUNK = 25
SEED_CPU_S_MAX = 30.0
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
def world_of(system: str) -> type[SimWorld]:
    for point in entry_points(group=WORLDS, name=system):
        found: type[SimWorld] = point.load()
        return found
    raise NotFound(f"There is no world '{system}'; known: {', '.join(systems())}.")


def run_seed(
    seed: int, *, system: str = "kernel", mutant: str | None = None, arenas: Mapping[str, Arena] | None = None
) -> SeedReport:
    """Live one seed and judge it. `mutant` is "module:function", a context manager that plants a bug (tests only);
    `arenas` are databases of other makes than SQLite."""
    started = time.process_time()
    with _planted(mutant):
        build = world_of(system)
        world = build(seed, arenas or {name: _arena(system, name, os.getpid()) for name in build.databases})
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
            pool.submit(run_chunk, start, size, system, mutant) for start, size in zip(starts, sizes, strict=True)
        ]
        for chunk in chunks:
            yield from chunk.result()


def worlds(system: str) -> tuple[list[str], list[str]]:
    """The systems meant by a name or "all", and what keeps the others from being simulated."""
    if system != "all":
        world_of(system)
        return [system], []
    found, problems = [], []
    for name in systems():
        try:
            world_of(name)
            found.append(name)
        except ImportError as error:
            problems.append(f"The world of '{name}' cannot be loaded: {error}.")
    return found, problems


def run_chunk(first_seed: int, seeds: int, system: str, mutant: str | None) -> list[SeedReport]:
    """Some seeds, one after another, in a process of the pool."""
    return [_run_safely(seed, system, mutant) for seed in range(first_seed, first_seed + seeds)]


def _run_safely(seed: int, system: str, mutant: str | None) -> SeedReport:
    """A seed that the harness itself cannot live through is a finding too, and not the end of a long run."""
    try:
        with _cpu_limit(SEED_CPU_S_MAX):
            return run_seed(seed, system=system, mutant=mutant)
    except (Exception, Overrun) as error:
        told = "".join(traceback.format_exception(error)[-3:])
        return SeedReport(seed, system, [Violation("crash", f"The harness stopped: {told}")], "", Counter())


class Overrun(SystemExit):
    """A seed used more time than any honest one. No task may swallow it, so it is no `Exception`."""


@contextmanager
def _cpu_limit(seconds: float) -> Iterator[None]:
    """Raise `Overrun` in the middle of whatever spins."""

    def over(*_: object) -> None:
        raise Overrun(f"The seed took more than {seconds:.0f} CPU-seconds.")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


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
