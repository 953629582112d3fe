"""Every world once more on PostgreSQL: the statements that production runs keep the same promises."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast_proof.run import run_seed, world_of
from holdfast_proof.store import Arena
from tests.proof import (
    mutants,
    mutants_conversion,
    mutants_family,
    mutants_grading,
    mutants_pauses,
    mutants_releases,
    mutants_review,
    mutants_turns,
)
from tests.proof.plant import Mutant
from tests.proof.postgres_ring import arenas_of
from tests.proof.seeds import first_fresh_seed, seeds_until_caught
from tests.services.postgres import PostgresServer

PARTS = [
    ("kernel", 35),
    ("kernel", 35),
    ("grading", 12),
    ("conversion", 16),
    ("review", 45),
    ("releases", 45),
    ("family", 8),
    ("turns", 8),
    ("pauses", 4),
]
"""Which world, and how many fresh seeds of it."""
HUNT = 80
"""How many seeds must show a bug, if the one that showed it last does not."""
PLANTED = {
    "kernel": mutants.MUTANTS,
    "grading": mutants_grading.MUTANTS,
    "conversion": mutants_conversion.MUTANTS,
    "review": mutants_review.MUTANTS,
    "releases": mutants_releases.MUTANTS,
    "family": mutants_family.MUTANTS,
    "turns": mutants_turns.MUTANTS,
    "pauses": mutants_pauses.MUTANTS,
}
RESPELLED = [
    pytest.param(system, mutant, id=mutant.name)
    for system, planted in PLANTED.items()
    for mutant in planted
    if mutant.elsewhere is None and "respelled(" in inspect.getsource(inspect.unwrap(mutant.plant))
]
"""The bugs that are planted in the text of a statement: the others are the same Python on both databases."""


class Ring:
    """The worlds' databases on one server, made when they are asked for."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self._server, self._folder = server, folder
        self._known: dict[str, dict[str, Arena]] = {}
        self._urls: list[str] = []

    def arenas(self, system: str) -> dict[str, Arena]:
        if system not in self._known:
            build = world_of(system)
            urls = [self._server.create_database() for _ in build.databases]
            self._urls += urls
            self._known[system] = arenas_of(build, urls, self._folder)
        return self._known[system]

    def close(self) -> None:
        for arenas in self._known.values():
            for arena in arenas.values():
                arena.close()
        for url in self._urls:
            self._server.drop_database(url)


@pytest.fixture(scope="module")
def ring(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ring]:
    opened = Ring(postgres_server, tmp_path_factory.mktemp("ring"))
    yield opened
    opened.close()


@pytest.mark.slow
@pytest.mark.spec("K1", "K2", "K3", "K6", "K7", "K9", "K10", "K11", "K12", "K14", "K15")
@pytest.mark.parametrize("part", range(len(PARTS)), ids=lambda part: f"{PARTS[part][0]}-{part}")
def test_no_promise_is_broken_on_postgresql(ring: Ring, part: int) -> None:
    system, seeds = PARTS[part]
    first = first_fresh_seed() + 1_000_000 + part * 1_000
    for seed in range(first, first + seeds):
        report = run_seed(seed, system=system, arenas=ring.arenas(system))
        assert report.findings == [], report.text()


def test_the_ring_has_seeds_enough() -> None:
    assert sum(seeds for _, seeds in PARTS) >= 200


def test_what_no_seed_shows_is_caught_by_a_test_that_exists() -> None:
    for mutant in (mutant for planted in PLANTED.values() for mutant in planted if mutant.elsewhere is not None):
        path, _, name = mutant.elsewhere.partition("::")
        assert f"def {name}(" in (Path(__file__).parents[2] / path).read_text(), mutant.elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("system, mutant", RESPELLED)
def test_a_bug_planted_in_postgresqls_text_is_caught(ring: Ring, system: str, mutant: Mutant) -> None:
    caught = seeds_until_caught(
        mutant, system, hunt=HUNT, arenas=ring.arenas(system)
    )  # the order of rows is the server's
    assert caught is not None, f"'{mutant.name}' survived {HUNT} seeds"
