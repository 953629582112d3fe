"""The conversion system under simulated faults: one result per job, of the attempt that won, and no file astray."""

from __future__ import annotations

import pytest

from holdfast_proof.report import Totals
from holdfast_proof.run import run_seed, simulate
from holdfast_systems.conversion.sim.world import ConversionWorld
from tests.proof.mutants_conversion import MUTANTS
from tests.proof.plant import Mutant
from tests.proof.seeds import (
    assert_nothing_left,
    corpus,
    first_fresh_seed,
    hashes,
    hashes_elsewhere,
    seeds_until_caught,
    told,
)

SYSTEM = "conversion"
PARTS, SEEDS_EACH = 3, 20
USUAL_EDGES = {"queued -> processing", "processing -> queued", "processing -> succeeded", "processing -> dead"}


@pytest.mark.parametrize("seed", corpus("corpus_conversion.txt"))
def test_a_seed_that_once_failed_does_not_fail_again(seed: int) -> None:
    report = run_seed(seed, system=SYSTEM)
    assert report.findings == [], report.text()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.spec("C1", "C3", "C4", "C5", "C6", "C7", "C8", "C12", "K9", "K12", "K18")
def test_no_promise_is_broken_in_fresh_seeds(part: int) -> None:
    totals = simulate(SEEDS_EACH, first_fresh_seed() + part * SEEDS_EACH, SYSTEM, processes=1)
    assert totals.seeds == SEEDS_EACH and not totals.failed, told(totals)
    for name in ("kills", "stalls", "provider calls", "effects", "jobs"):
        assert totals.counts[name] >= SEEDS_EACH, f"only {totals.counts[name]} {name}"
    assert totals.seen("edge:") >= USUAL_EDGES


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
@pytest.mark.spec("C4", "C5", "C7", "C8", "C12")
def test_a_planted_bug_is_caught(mutant: Mutant) -> None:
    assert seeds_until_caught(mutant, SYSTEM) is not None, f"'{mutant.name}' survived {mutant.seeds} seeds"


def test_a_seed_has_one_history_in_every_process() -> None:
    seeds = (3, 11, 42)
    elsewhere = hashes_elsewhere(SYSTEM, "77", *seeds)
    run_seed(5, system=SYSTEM)  # another seed before it in the same process changes nothing
    assert hashes(SYSTEM, *seeds) == elsewhere


def test_a_planted_bug_leaves_nothing_behind() -> None:
    assert_nothing_left(SYSTEM, MUTANTS)


def test_a_run_that_saw_too_little_says_so() -> None:
    blind = Totals(system=SYSTEM, coverage=ConversionWorld.coverage, seeds=1_000).problems()
    assert "No seed of 1000 has seen the event 'gate open'." in blind
    assert "No seed of 1000 has seen the failpoint 'call.after'." in blind
    assert "Only 0 kills in 1000 seeds." in blind
