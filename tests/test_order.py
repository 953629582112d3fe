"""The order of the tests among several processes: everything once, the long first, what shares a server together."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from tests.order import BROKERS, COMPUTING, WAITING, long_first, unit_of

REPOSITORY = Path(__file__).resolve().parents[1]
SEEDS = "tests/proof/test_kernel_world.py::test_no_promise_is_broken_in_fresh_seeds_and_everything_was_seen"
FAILPOINTS = "tests/acceptance/test_failpoints.py"


BROKER, OTHER_BROKER = BROKERS


def test_the_tests_of_a_broker_are_one_unit_and_a_file_is_one_and_seeds_are_many() -> None:
    assert unit_of("tests/transports/test_rabbitmq.py::test_a") == BROKER
    assert unit_of("tests/acceptance/test_celery.py::test_b") == BROKER
    assert unit_of("tests/test_services.py::test_b") == OTHER_BROKER
    assert unit_of(f"{FAILPOINTS}::test_c[x-kill]") == FAILPOINTS
    assert unit_of(f"{SEEDS}[0]") != unit_of(f"{SEEDS}[1]")


def test_the_long_units_begin_and_take_turns_and_none_is_lost_or_there_twice() -> None:
    units = ["tests/core/test_retry.py", f"{SEEDS}[0]", f"{SEEDS}[1]", FAILPOINTS, BROKER, FAILPOINTS]
    assert long_first(units) == [BROKER, f"{SEEDS}[0]", FAILPOINTS, f"{SEEDS}[1]", "tests/core/test_retry.py"]


def test_every_name_in_the_order_is_the_beginning_of_a_test_that_is_there() -> None:
    there = [path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "tests").rglob("test_*.py")]
    for name in {*WAITING, *COMPUTING, *chain(*BROKERS.values())} - {*BROKERS}:
        file, _, function = name.partition("::")
        found = [path for path in there if path.startswith(file)]
        assert found and all(f"def {function}" in (REPOSITORY / path).read_text() for path in found), name
