"""What the tests cost: the CPU of each, with that of the children that ended in it.

    TESTS_CPU=.cache/cpu make test      each process of pytest writes a line for every test
    python -m tests.cpu .cache/cpu              the sums: by folder, by file, and the dearest tests

On two processors a run lasts at least half of the sum. The last test of each process of pytest is told with what its
servers took, which end there.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

WANTED = "TESTS_CPU"


def spent_s() -> float:
    """The CPU that this process and its children that have ended took so far."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    folder = os.environ.get(WANTED)
    before = spent_s()
    try:
        return (yield)
    finally:
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            with (Path(folder) / f"{os.getpid()}.txt").open("a") as file:
                file.write(f"{spent_s() - before:.2f} {item.nodeid}\n")


def read_costs(lines: Iterable[str]) -> dict[str, float]:
    """The CPU of each test, in seconds, by its id; a test that ran twice counts twice."""
    costs: dict[str, float] = defaultdict(float)
    for line in lines:
        seconds, _, test = line.rstrip("\n").partition(" ")
        costs[test] += float(seconds)
    return dict(costs)


def sums_of(costs: dict[str, float], name: Callable[[str], str]) -> list[tuple[float, str]]:
    """The costs of each group of tests, the dearest first."""
    sums: dict[str, float] = defaultdict(float)
    for test, seconds in costs.items():
        sums[name(test)] += seconds
    return sorted(((seconds, group) for group, seconds in sums.items()), reverse=True)


def file_of(test: str) -> str:
    return test.partition("::")[0]


def report(costs: dict[str, float]) -> str:
    blocks = [f"{sum(costs.values()):8.0f} s of CPU in {len(costs)} tests"]
    views: tuple[tuple[str, Callable[[str], str], int], ...] = (
        ("by folder", lambda test: str(Path(file_of(test)).parent), 30),
        ("by file", file_of, 50),
        ("tests", lambda test: test, 70),
    )
    for title, name, most in views:
        rows = [f"{seconds:8.1f}  {group[:150]}" for seconds, group in sums_of(costs, name)[:most]]
        blocks.append("\n".join([f"{title}:", *rows]))
    return "\n\n".join(blocks)


if __name__ == "__main__":
    files = sorted(Path(sys.argv[1]).glob("*.txt"))
    print(report(read_costs(line for file in files for line in file.read_text().splitlines())))
