"""Two systems told the same database: each keeps its tables apart, and neither shows the other's work."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.engines.run import prepare
from holdfast.main import close_systems, load_systems, open_systems
from holdfast.settings import Settings, read
from holdfast.tables import providers


def review_url(env: dict[str, str]) -> str:
    (system,) = load_systems(["review"])
    return system.database_url(env, "data")


@pytest.mark.parametrize(
    ("env", "url"),
    [
        ({}, "sqlite:///data/review.db"),
        ({"DATABASE_URL": "sqlite:///all/work.db"}, "sqlite:///all/work-review.db"),
        ({"DATABASE_URL": "postgresql://db/work"}, "postgresql://db/work?search_path=review"),
        ({"DATABASE_URL": "postgresql://db/w?ssl=require"}, "postgresql://db/w?sslmode=require&search_path=review"),
        ({"DATABASE_URL": "x", "REVIEW_DATABASE_URL": "sqlite:///own.db"}, "sqlite:///own.db"),
    ],
)
def test_what_is_shared_is_kept_apart_and_what_is_its_own_is_taken_as_it_is(env: dict[str, str], url: str) -> None:
    assert review_url(env) == url


@pytest.mark.spec("K19")
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
async def test_neither_sees_what_the_other_does(request: pytest.FixtureRequest, tmp_path: Path, database: str) -> None:
    shared = request.getfixturevalue("postgres_url") if database == "postgres" else f"sqlite:///{tmp_path}/all.db"
    env = {"HOLDFAST_DATA_DIR": str(tmp_path), "DATABASE_URL": shared}
    opened = await open_systems(read(Settings, env), env, ["conversion", "review"])
    try:
        for one in opened:
            await one.kernel.migrate()
            await prepare(one.kernel)
        for one in opened:
            async with one.kernel.store.transaction() as tx:
                await providers.ensure(tx, f"only of {one.name}", 1)
        for one in opened:
            async with one.kernel.store.reading() as tx:
                assert [row.name for row in await providers.read_every(tx)] == [f"only of {one.name}"]
    finally:
        await close_systems(opened)
