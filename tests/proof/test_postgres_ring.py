"""Every world once more on PostgreSQL: the statements that production runs keep the same promises."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.proof.run import run_seed, world_of
from holdfast.proof.store import Arena
from tests.proof import mutants, mutants_conversion, mutants_family, mutants_grading, mutants_releases, mutants_review
from tests.proof.plant import Mutant
from tests.proof.postgres_ring import arenas_of
from tests.proof.seeds import FIRST_SEED, first_fresh_seed
from tests.services.postgres import PostgresServer

PARTS = [
    ("kernel", 35),
    ("kernel", 35),
    ("grading", 12),
    ("conversion", 18),
    ("review", 50),
    ("releases", 50),
    ("family", 25),
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
}
RESPELLED = [
    pytest.param(system, mutant, id=mutant.name)
    for system, planted in PLANTED.items()
    for mutant in planted
    if "respelled(" in inspect.getsource(inspect.unwrap(mutant.plant))
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


@pytest.mark.slow
@pytest.mark.parametrize("system, mutant", RESPELLED)
def test_a_bug_planted_in_postgresqls_text_is_caught(ring: Ring, system: str, mutant: Mutant) -> None:
    assert mutant.ring is not None, f"'{mutant.name}' needs the number of a seed that shows it on PostgreSQL"
    for number in (mutant.ring, *range(HUNT)):  # the server's order of rows is not ours to fix
        report = run_seed(FIRST_SEED + number, system=system, mutant=mutant.path, arenas=ring.arenas(system))
        if {finding.promise for finding in report.findings} & set(mutant.caught_by):
            return
    pytest.fail(f"'{mutant.name}' survived {HUNT} seeds")
