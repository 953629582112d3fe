"""The audit runs on both databases; see tests/kernel/places.py. What starts other processes, or lives a seed for every
planted bug, is slow in every world."""

from pathlib import Path

import pytest

from tests.kernel.places import clock, deploy, place, postgres_database

__all__ = ["clock", "deploy", "place", "postgres_database"]

HERE = Path(__file__).parent
SLOW = ("has_one_history_in_every_process", "leaves_nothing_behind")


@pytest.fixture(autouse=True)
def untraced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracer that an earlier test set up in this process would give every simulated job a trace of its own."""
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE and item.name.endswith(SLOW):
            item.add_marker(pytest.mark.slow)
