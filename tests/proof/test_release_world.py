"""Two releases of one app side by side under simulated faults, forwards and back: no job dies of a deploy, none is done
twice, and what only one release declares waits for it."""

from __future__ import annotations

import pytest

from holdfast_proof.release_world import ReleaseWorld
from holdfast_proof.report import Totals
from holdfast_proof.run import run_seed, simulate
from tests.proof.mutants_releases import MUTANTS
from tests.proof.plant import Mutant
from tests.proof.seeds import (
    assert_nothing_left,
    first_fresh_seed,
    hashes,
    hashes_elsewhere,
    seeds_until_caught,
    told,
)

SYSTEM = "releases"
FAST_SEEDS = 20
FRESH_SEEDS = 80


@pytest.mark.spec("K22")
def test_no_job_dies_of_a_deploy() -> None:
    totals = simulate(FAST_SEEDS, 0, SYSTEM, processes=1)
    assert totals.seeds == FAST_SEEDS and not totals.failed, told(totals)
    assert totals.counts["kills"] > FAST_SEEDS


@pytest.mark.slow
@pytest.mark.spec("K22")
def test_no_job_dies_of_a_deploy_in_fresh_seeds_and_everything_was_seen() -> None:
    totals = simulate(FRESH_SEEDS, first_fresh_seed(), SYSTEM, processes=1)
    assert totals.seeds == FRESH_SEEDS and not totals.failed, told(totals)
    assert totals.problems() == [], told(totals)


@pytest.mark.slow
@pytest.mark.spec("K22")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
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
    blind = Totals(system=SYSTEM, coverage=ReleaseWorld.coverage, seeds=1_000).problems()
    assert "No seed of 1000 has seen the event 'a job that no running worker declares'." in blind
