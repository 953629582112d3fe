"""Parents, children, checkpoints and answers under simulated faults: composition is rows, and rows survive."""

from __future__ import annotations

import pytest

from holdfast_proof.run import simulate
from tests.proof.mutants_family import MUTANTS
from tests.proof.plant import Mutant
from tests.proof.seeds import first_fresh_seed, hashes, hashes_elsewhere, seeds_until_caught, told

SYSTEM = "family"
FAST_SEEDS = 12
FRESH_SEEDS = 30


@pytest.mark.spec("K24", "K23")
def test_a_family_keeps_its_promises() -> None:
    totals = simulate(FAST_SEEDS, 0, SYSTEM, processes=1)
    assert totals.seeds == FAST_SEEDS and not totals.failed, told(totals)


@pytest.mark.slow
@pytest.mark.spec("K24", "K23")
def test_a_family_keeps_its_promises_in_fresh_seeds_and_everything_was_seen() -> None:
    totals = simulate(FRESH_SEEDS, first_fresh_seed(), SYSTEM, processes=1)
    assert totals.seeds == FRESH_SEEDS and not totals.failed, told(totals)
    assert totals.problems() == [], told(totals)


@pytest.mark.slow
@pytest.mark.spec("K24")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_caught(mutant: Mutant) -> None:
    assert seeds_until_caught(mutant, SYSTEM) is not None, f"'{mutant.name}' survived {mutant.seeds} seeds"


@pytest.mark.spec("K23")
def test_a_seed_has_one_history_in_every_process_threads_or_not() -> None:
    assert hashes(SYSTEM, 3, 11) == hashes_elsewhere(SYSTEM, "77", 3, 11)
