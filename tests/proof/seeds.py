"""What the tests of the systems' worlds share: fresh seeds for every commit, seeds that once failed, planted bugs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from holdfast.proof.report import SeedReport, Totals
from holdfast.proof.run import run_seed
from tests.proof.plant import Mutant

FOLDER = Path(__file__).parent
FALLBACK_SEED = 7_000_000
CORPORA = {"kernel": "corpus.txt"}
FIRST_SEED = 500_000
"""Where the hunt for planted bugs begins."""


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


def seeds_until_caught(mutant: Mutant, system: str) -> int | None:
    """How many seeds it took to catch the planted bug by a promise that it breaks; None if it survived them all."""
    likely = [] if mutant.shown_by is None else [mutant.shown_by]
    for number in (*likely, *range(mutant.seeds)):
        report = run_seed(FIRST_SEED + number, system=system, mutant=mutant.path)
        if {finding.promise for finding in report.findings} & set(mutant.caught_by):
            return number + 1
    return None


def hashes(system: str, *seeds: int) -> str:
    return " ".join(run_seed(seed, system=system).hash for seed in seeds)


def hashes_elsewhere(system: str, hash_seed: str, *seeds: int) -> str:
    """The same, computed by another process with another PYTHONHASHSEED."""
    program = f"from tests.proof.seeds import hashes; print(hashes({system!r}, *{seeds!r}))"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(FOLDER.parent.parent)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()
