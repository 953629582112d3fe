"""Prometheus and Alertmanager themselves accept what `deploy/` gives them."""

from __future__ import annotations

import os
import subprocess

import pytest
from tests.services.found import REPOSITORY, find_tool

CHECKS = [
    ("promtool", "check", "config", "deploy/prometheus/prometheus.yml"),
    ("promtool", "check", "rules", "deploy/prometheus/alerts.yml"),
    ("promtool", "test", "rules", "tests/deploy/alerts_test.yml"),
    ("amtool", "check-config", "deploy/alertmanager/alertmanager.yml"),
]


@pytest.mark.spec("000.41", "K17")
@pytest.mark.parametrize("command", CHECKS, ids=lambda command: command[-1].rpartition("/")[2])
def test_it_is_accepted_by_the_program_that_reads_it(command: tuple[str, ...]) -> None:
    program = find_tool(command[0])
    if program is None:
        missing = f"{command[0]} is not on this machine; `make servers` fetches it"
        pytest.fail(missing) if os.environ.get("CI") == "true" else pytest.skip(missing)
    ran = subprocess.run([program, *command[1:]], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
