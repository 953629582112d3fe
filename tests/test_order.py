"""The order of the tests among several processes: everything once, the long first, what shares a server together."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

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


@pytest.mark.slow
def test_a_process_that_vanishes_fails_one_test_and_the_others_are_run(tmp_path: Path) -> None:
    """Among what it leaves: units that it has done, and one that it has begun."""
    for number in range(4):
        (tmp_path / f"test_{number}.py").write_text("def test_it(): ...\n")
    (tmp_path / "test_dies.py").write_text("import os\n\ndef test_dies(): os._exit(3)\n\ndef test_after(): ...\n")
    options = ["-q", "-n", "2", "--dist", "loadscope", "-p", "xdist", "-p", "tests.order", "-p", "no:cacheprovider"]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "pytest", *options, "-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path)]
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
    assert "1 failed, 5 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "crashed while running 'test_dies.py::test_dies'" in ran.stdout
