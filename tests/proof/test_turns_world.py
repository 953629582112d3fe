"""Keys that take turns, under simulated faults: limits are exact whoever dies, and nobody waits for a backlog."""

from __future__ import annotations

import pytest

from holdfast_proof.run import simulate
from tests.proof.mutants_turns import MUTANTS
from tests.proof.plant import Mutant
from tests.proof.seeds import first_fresh_seed, hashes, hashes_elsewhere, seeds_until_caught, told

SYSTEM = "turns"
FAST_SEEDS = 12
FRESH_SEEDS = 20


@pytest.mark.spec("K25")
def test_turns_and_limits_are_kept() -> None:
    totals = simulate(FAST_SEEDS, 0, SYSTEM, processes=1)
    assert totals.seeds == FAST_SEEDS and not totals.failed, told(totals)


@pytest.mark.slow
@pytest.mark.spec("K25")
def test_turns_and_limits_are_kept_in_fresh_seeds_and_everything_was_seen() -> None:
    totals = simulate(FRESH_SEEDS, first_fresh_seed(), SYSTEM, processes=1)
    assert totals.seeds == FRESH_SEEDS and not totals.failed, told(totals)
    assert totals.problems() == [], told(totals)


@pytest.mark.slow
@pytest.mark.spec("K25")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_caught(mutant: Mutant) -> None:
    assert seeds_until_caught(mutant, SYSTEM) is not None, f"'{mutant.name}' survived {mutant.seeds} seeds"


def test_a_seed_has_one_history_in_every_process() -> None:
    assert hashes(SYSTEM, 3, 11) == hashes_elsewhere(SYSTEM, "77", 3, 11)
