"""What the tests of the systems' worlds share: fresh seeds for every commit, seeds that once failed, planted bugs."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast_proof.report import SeedReport, Totals
from holdfast_proof.run import run_seed
from holdfast_proof.store import Arena
from tests.proof.plant import Mutant

FOLDER = Path(__file__).parent
FALLBACK_SEED = 7_000_000
CORPORA = {"kernel": "corpus.txt"}
FIRST_SEED = 500_000
"""Where the hunt for planted bugs begins."""
SHOWN = FOLDER / "shown.txt"
SHOWN_TITLE = "# The seed that showed a planted bug last, counted from the first; written by the run that found it."


def corpus(name: str) -> list[int]:
    """The seeds of a corpus file, one a line, with a word on what each has shown."""
    lines = (FOLDER / name).read_text().splitlines()
    return [int(line.split()[0]) for line in lines if line and not line.startswith("#")]


def first_fresh_seed() -> int:
    """Every commit runs seeds that no other has run."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=FOLDER, capture_output=True, text=True, check=False)
    return 10_000_000 + int(asked.stdout[:7], 16) if asked.returncode == 0 else FALLBACK_SEED


def keep(report: SeedReport, folder: Path = FOLDER) -> None:
    """Write a seed that failed into its system's corpus. The seeds of the next commit are others: what this run has
    found would be lost with it."""
    name = CORPORA.get(report.system, f"corpus_{report.system}.txt")
    path = folder / name
    known = path.read_text() if path.exists() else ""
    if str(report.seed) not in (line.partition(" ")[0] for line in known.splitlines()):
        with path.open("a") as file:
            file.write(f"{report.seed} {' '.join(str(report.findings[0]).split())[:150]}\n")


def told(totals: Totals) -> str:
    """What is wrong, for the failure's message. Every seed that failed is in the corpus from now on."""
    for report in totals.failed:
        keep(report)
    return "\n".join([totals.text(), *(report.text() for report in totals.failed[:3]), *totals.problems()])


def seeds_until_caught(
    mutant: Mutant, system: str, *, hunt: int | None = None, arenas: dict[str, Arena] | None = None
) -> int | None:
    """How many seeds it took to catch the planted bug by a promise that it breaks; None if it survived them all. The
    seed that showed it last is tried first, on PostgreSQL (`arenas`) one of its own; another one is written down."""
    place = (system, "sqlite" if arenas is None else "postgres", mutant.name)
    last = shown().get(place)
    likely = [] if last is None else [last]
    for tried, number in enumerate((*likely, *range(hunt or mutant.seeds)), start=1):
        report = run_seed(FIRST_SEED + number, system=system, mutant=mutant.path, arenas=arenas)
        if {finding.promise for finding in report.findings} & set(mutant.caught_by):
            if number != (last or 0):
                keep_shown(place, number)
            return tried
    return None


def shown() -> dict[tuple[str, str, str], int]:
    """Which seed showed each planted bug last, by world, database and name."""
    rows = [line.split() for line in SHOWN.read_text().splitlines() if not line.startswith("#")]
    return {(system, database, name): int(number) for system, database, name, number in rows}


def keep_shown(place: tuple[str, str, str], number: int) -> None:
    """Write down which seed showed a bug. Several processes may do so at the same time."""
    with SHOWN.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        kept = shown() | {place: number}
        rows = [" ".join((*place, str(number))) for place, number in sorted(kept.items())]
        whole = SHOWN.with_suffix(f".{os.getpid()}")
        whole.write_text("\n".join([SHOWN_TITLE, *rows, ""]))
        whole.replace(SHOWN)


def hashes(system: str, *seeds: int) -> str:
    return " ".join(run_seed(seed, system=system).hash for seed in seeds)


def assert_nothing_left(system: str, mutants: Sequence[Mutant]) -> None:
    """A history is the same after each bug was planted and taken out, and after a seed was lived with the last."""
    intact = hashes(system, FIRST_SEED)
    for mutant in mutants:
        with mutant.plant():
            pass
    run_seed(FIRST_SEED, system=system, mutant=mutants[-1].path)
    assert hashes(system, FIRST_SEED) == intact


def hashes_elsewhere(system: str, hash_seed: str, *seeds: int) -> str:
    """The same, computed by another process with another PYTHONHASHSEED."""
    program = f"from tests.proof.seeds import hashes; print(hashes({system!r}, *{seeds!r}))"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(FOLDER.parent.parent)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()
