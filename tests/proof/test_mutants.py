"""The checker is proven: every planted bug is caught by the promise it breaks, within a stated number of seeds."""

from __future__ import annotations

import pytest

from holdfast_proof.run import simulate
from tests.proof import mutants_effects
from tests.proof.mutants import MUTANTS, Mutant
from tests.proof.seeds import FIRST_SEED, assert_nothing_left, seeds_until_caught

RARE = Mutant(mutants_effects.shared_effect_unfenced, ("S20", "S22"), 1_000)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_caught(mutant: Mutant) -> None:
    assert seeds_until_caught(mutant, "kernel") is not None, f"'{mutant.name}' survived {mutant.seeds} seeds"


def test_the_common_bugs_are_caught_at_once() -> None:
    for mutant in MUTANTS:
        if mutant.name in ("attempt_in_token", "no_inbox", "published_before_confirmed", "secrets_in_events"):
            assert seeds_until_caught(mutant, "kernel") is not None, mutant.name


@pytest.mark.slow
def test_a_rare_bug_is_caught_by_the_seed_that_found_it() -> None:
    """About one seed in several hundred shows it."""
    assert seeds_until_caught(RARE, "kernel") is not None


def test_a_planted_bug_leaves_nothing_behind() -> None:
    assert_nothing_left("kernel", MUTANTS)


def density_table(seeds: int = 200, processes: int = 2) -> str:
    """How often each bug is caught, as a table for the documentation: python -m tests.proof.test_mutants."""
    lines = ["| planted bug | caught by | seeds that catch it, of 1,000 | first seed |", "| --- | --- | --- | --- |"]
    for mutant in MUTANTS:
        totals = simulate(seeds, FIRST_SEED, "kernel", processes, mutant.path)
        caught = [r for r in totals.failed if {f.promise for f in r.findings} & set(mutant.caught_by)]
        first = caught[0].seed - FIRST_SEED + 1 if caught else "none"
        name = mutant.name.replace("_", " ")
        lines.append(f"| {name} | {', '.join(mutant.caught_by)} | {len(caught) * 1_000 // seeds} | {first} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(density_table())
