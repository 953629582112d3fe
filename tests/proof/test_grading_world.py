"""Both grading services under simulated faults: nothing that they promise is broken, every planted bug is found, and
the harness did its work. The seeds are split into parts, so that processors share them."""

from __future__ import annotations

import pytest

from holdfast_proof.report import Totals
from holdfast_proof.run import run_seed, simulate
from tests.proof.mutants_grading import MUTANTS
from tests.proof.plant import Mutant
from tests.proof.seeds import (
    FIRST_SEED,
    assert_nothing_left,
    corpus,
    first_fresh_seed,
    hashes,
    hashes_elsewhere,
    seeds_until_caught,
    told,
)

FAST_SEEDS = 12
FRESH_SEEDS = 150


def grading(seeds: int, first_seed: int) -> Totals:
    return simulate(seeds, first_seed=first_seed, system="grading", processes=1)


@pytest.mark.parametrize("seed", corpus("corpus_grading.txt"))
def test_a_seed_that_once_failed_does_not_fail_again(seed: int) -> None:
    report = run_seed(seed, system="grading")
    assert report.findings == [], report.text()


@pytest.mark.spec("G1", "G4", "G5", "G8", "G9", "G12", "G14")
def test_no_promise_of_grading_is_broken_under_faults() -> None:
    totals = grading(FAST_SEEDS, first_seed=0)
    assert totals.seeds == FAST_SEEDS and not totals.failed, told(totals)
    assert totals.counts["kills"] > FAST_SEEDS and totals.counts["stalls"] > FAST_SEEDS


@pytest.mark.slow
@pytest.mark.spec("G1", "G2", "G3", "G4", "G5", "G6", "G7", "G8", "G9", "G11", "G12", "G14", "G17")
def test_no_promise_of_grading_is_broken_in_fresh_seeds() -> None:
    totals = grading(FRESH_SEEDS, first_fresh_seed())
    assert totals.seeds == FRESH_SEEDS and not totals.failed, told(totals)
    assert totals.problems() == [], told(totals)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
@pytest.mark.spec("G1", "G4", "G5", "G7", "G8", "G9", "G12", "G14")
def test_a_bug_planted_in_grading_is_caught(mutant: Mutant) -> None:
    assert seeds_until_caught(mutant, "grading") is not None, f"'{mutant.name}' survived {mutant.seeds} seeds"


@pytest.mark.slow
def test_a_bug_planted_in_grading_leaves_nothing_behind() -> None:
    assert_nothing_left("grading", MUTANTS)


@pytest.mark.slow
def test_a_seed_of_grading_has_one_history_in_every_process() -> None:
    run_seed(5, system="grading")  # another seed before it in the same process changes nothing
    here = hashes("grading", 3, 11)
    assert {hashes_elsewhere("grading", hash_seed, 3, 11) for hash_seed in ("0", "77")} == {here}


def density_table(seeds: int = 40) -> str:
    """How often each bug is caught, as a table for the documentation: python -m tests.proof.test_grading_world."""
    lines = ["| planted bug | caught by | seeds that catch it, of 1,000 | first seed |", "| --- | --- | --- | --- |"]
    for mutant in MUTANTS:
        totals = simulate(seeds, FIRST_SEED, "grading", 1, mutant.path)
        caught = [r for r in totals.failed if {f.promise for f in r.findings} & set(mutant.caught_by)]
        first = caught[0].seed - FIRST_SEED + 1 if caught else "none"
        name = mutant.name.replace("_", " ")
        lines.append(f"| {name} | {', '.join(mutant.caught_by)} | {len(caught) * 1_000 // seeds} | {first} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(density_table())
