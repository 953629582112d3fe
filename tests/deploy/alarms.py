"""Asks Prometheus itself which alerts of `deploy/` fire over a series of real scrapes."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.services.found import REPOSITORY, find_tool

RULES = REPOSITORY / "deploy" / "prometheus" / "alerts.yml"
FIRING = re.compile(r'alertname="(\w+)", alertstate="firing".*?severity="(\w+)"')


def tool(name: str) -> str:
    """Where a program of Prometheus' is; the test is skipped where there is none, except on the project's own CI."""
    program = find_tool(name)
    if program is None:
        missing = f"{name} is not on this machine; `make servers` fetches it"
        pytest.fail(missing) if os.environ.get("CI") == "true" else pytest.skip(missing)
    return program


def alarms(folder: Path, scrapes: Sequence[str]) -> set[tuple[str, str]]:
    """The name and severity of each alert that fires at the last of the scrapes, which are a minute apart."""
    series: dict[str, list[str]] = {}
    for minute, text in enumerate(scrapes):
        for name, value in _samples(text).items():
            series.setdefault(name, ["_"] * minute).append(str(value))
        for values in series.values():  # Prometheus marks a series that a scrape no longer holds
            values.extend(["stale"] * (minute + 1 - len(values)))
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": " ".join(values)} for name, values in series.items()],
        "promql_expr_test": [
            {"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{len(scrapes) - 1}m", "exp_samples": []}
        ],
    }
    path = folder / "alarms.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [case]}))
    ran = subprocess.run([tool("promtool"), "test", "rules", path], capture_output=True, text=True, check=False)
    said = ran.stdout + ran.stderr
    fired = set(FIRING.findall(said))
    assert bool(fired) == bool(ran.returncode), said  # nothing was expected to fire, so that promtool names what does
    return fired


def pages(folder: Path, scrapes: Sequence[str]) -> set[str]:
    """The alerts that wake somebody."""
    return {name for name, severity in alarms(folder, scrapes) if severity == "page"}


def _samples(text: str) -> Mapping[str, float]:
    families = text_string_to_metric_families(text)
    return {_series(sample.name, sample.labels): sample.value for family in families for sample in family.samples}


def _series(name: str, labels: Mapping[str, str]) -> str:
    return f"{name}{{{','.join(f'{label}={_quoted(value)}' for label, value in labels.items())}}}"


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
