"""The dashboard and the alert rules ask for metrics and labels that the code exposes, and every metric is looked at."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.docs import promql
from tests.docs.test_links import headings

from holdfast.core.case import CaseState
from holdfast.core.effect import EffectStatus
from holdfast.core.failure import Category, PublicFailure
from holdfast.core.job import State
from holdfast.http import metrics
from holdfast.kernel.observe.counters import COUNTERS, TIMINGS
from holdfast.main import load_systems
from holdfast.operator.attention import Topic

pytestmark = pytest.mark.spec("K17")
ROOT = Path(__file__).parents[2]
BOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/holdfast.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
ON_CALL = (ROOT / "docs/how-to/run-on-call.md").read_text()


def exposed() -> dict[str, set[str]]:
    """Every series that a scrape may hold, with its labels."""
    counters = [*COUNTERS, *(counter for system in load_systems() for counter in system.counters)]
    found = {f"holdfast_{counter.name}_total": set(counter.labels) for counter in counters}
    for timing in TIMINGS:
        name, labels = f"holdfast_{timing.name}", set(timing.labels)
        found |= {f"{name}_bucket": {*labels, "le"}, f"{name}_sum": labels, f"{name}_count": labels}
    for system in load_systems():
        found |= {f"holdfast_{gauge.name}": {"system", *gauge.labels} for gauge in system.gauges}
    return found | {one.name: set(one._labelnames) for one in metrics._families([])}


EXPOSED = exposed()
CAUSES = {PublicFailure("", by_user).cause for by_user in (True, False)}
# What a label may say, where the code fixes it.
VALUES = {
    ("holdfast_dead_letters", "state"): set(CaseState),
    ("holdfast_dead_letters", "category"): set(Category),
    ("holdfast_dead_letters", "cause"): CAUSES,
    ("holdfast_dead_letters_opened_total", "cause"): CAUSES,
    ("holdfast_jobs_failed_total", "cause"): CAUSES,
    ("holdfast_queue_depth", "state"): {*State, "parked"},
    ("holdfast_effects", "status"): set(EffectStatus),
    ("holdfast_provider_seconds_count", "outcome"): {"ok", "failed", "ambiguous"},
}


def panels() -> Iterator[tuple[str, str]]:
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            yield f"{panel['title']} {target['refId']}", target["expr"]


ALERTS = [(rule["alert"], rule["expr"]) for rule in RULES]
EXPRESSIONS = dict([*panels(), *ALERTS])


def faults(expression: str) -> list[str]:
    """What an expression asks for and nobody exposes."""
    asked = promql.read(re.sub(r"\$__rate_interval", "5m", expression))
    wrong = [f"no metric {name}" for name, _ in asked.metrics if name not in EXPOSED]
    known = {label for name, _ in asked.metrics for label in EXPOSED.get(name, ())}
    wrong += [f"no label {label} to group by" for label in asked.grouped - known]
    for name, narrowed in asked.metrics:
        for label, value in narrowed:
            if label not in EXPOSED.get(name, ()):
                wrong.append(f"{name} has no label {label}")
            elif (name, label) in VALUES and not value.startswith("$"):
                wrong += [f"{name} has no {label} {one}" for one in set(value.split("|")) - VALUES[name, label]]
    return wrong


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_expression_asks_for_what_is_exposed(name: str) -> None:
    assert faults(EXPRESSIONS[name]) == []


OVER_PROCESSES = re.compile(r"\b(?:sum|count|avg)\s*(?:by \([^)]*\)\s*)?\(\s*(holdfast_\w+)")


@pytest.mark.spec("K17", "000.41")
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_what_every_process_reads_from_the_database_is_not_added_up(name: str) -> None:
    """A gauge is the same in each process of a deployment; only what a process counts itself may be summed."""
    own = ("_total", "_bucket", "_count", "_sum")
    assert [metric for metric in OVER_PROCESSES.findall(EXPRESSIONS[name]) if not metric.endswith(own)] == []


@pytest.mark.parametrize(
    "expression",
    [
        "holdfast_nope",
        "sum(rate(holdfast_jobs_created[5m]))",
        "sum by (queue) (holdfast_outbox_pending)",
        'holdfast_workers{kind="x"}',
        'holdfast_dead_letters{state="forgotten"}',
    ],
)
def test_the_check_sees_what_is_wrong(expression: str) -> None:
    assert faults(expression)


@pytest.mark.parametrize(
    "expression", ["sum((holdfast_workers)", "holdfast_workers)", "holdfast_workers{system=x}", "a ? b"]
)
def test_what_is_no_expression_is_seen(expression: str) -> None:
    with pytest.raises(ValueError, match=r"paren|matcher|read"):
        promql.read(expression)


def test_every_metric_is_looked_at() -> None:
    shown = {
        name
        for _, expression in panels()
        for name, _ in promql.read(expression.replace("$__rate_interval", "5m")).metrics
    }
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in EXPOSED if "provider_seconds" in name}
    alone = {name for name in EXPOSED if "provider_seconds" not in name}
    assert {name for name in alone | families if not any(one.startswith(name) for one in shown)} == set()


def test_a_legend_names_labels_that_are_left() -> None:
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            asked = promql.read(target["expr"].replace("$__rate_interval", "5m"))
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= asked.grouped, panel["title"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_says_what_is_wrong_how_bad_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("page", "ticket")
    summary = rule["annotations"]["summary"]
    assert summary.endswith(".")
    assert set(re.findall(r"\$labels\.(\w+)", summary)) <= promql.read(rule["expr"]).grouped
    path, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert (ROOT / path).exists() and anchor in headings((ROOT / path).read_text())


def test_every_section_of_the_runbook_belongs_to_an_alert() -> None:
    named = {rule["annotations"]["runbook"].partition("#")[2] for rule in RULES}
    sections = headings("\n".join(line for line in ON_CALL.splitlines() if line.startswith("## ")))
    assert sections - {"work-on-an-incident"} == named


def test_what_on_call_needs_is_alerted_on() -> None:
    asked = {name for rule in RULES for name, _ in promql.read(rule["expr"]).metrics}
    needed = [
        "holdfast_asks_for_a_person",
        "holdfast_lease_reclaims_total",
        "holdfast_jobs_failed_total",
        "holdfast_provider_seconds_bucket",
        "holdfast_store_up",
    ]
    assert set(needed) <= asked


def test_whatever_asks_for_a_person_is_alerted_on() -> None:
    alerted = {topic for rule in RULES for topic in re.findall(r'topic="(\w+)"', rule["expr"])}
    assert alerted == set(Topic)
