"""Critic: planted defects that a reviewer would name, and changes that should pass in silence."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from difflib import unified_diff

from holdfast_systems.review.changelist import parse_diff
from holdfast_systems.review.findings import NOT_RUN, Finding
from holdfast_systems.review.offline_critic import review
from quality.changes import DEFECTS, FILLER, QUIET, Planted
from quality.row import Row, at_least, at_most, not_measured

SEARCH_PATH = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))
PROGRAMS = {"js": "oxlint", "ts": "oxlint", "go": "go"}


def measure() -> Iterator[Row]:
    here = [
        each for each in DEFECTS if _program_of(each) is None or shutil.which(_program_of(each) or "", path=SEARCH_PATH)
    ]
    results = asyncio.run(_review_all([*here, *QUIET, *FILLER]))
    found = [(planted, finding) for planted, findings in results for finding in findings]
    true = [(planted, finding) for planted, finding in found if _is_true(planted, finding)]
    caught = sum(
        any(_is_true(planted, finding) for finding in findings) for planted, findings in results if planted.rules
    )
    errors = [(planted, finding) for planted, finding in found if finding.severity == "error"]
    lines = sum(len(file.added_lines) for planted, _ in results for file in parse_diff(_diff(planted)).files)
    missing = {program for each in DEFECTS if (program := _program_of(each)) and each not in here}
    yield at_least("planted defects that are found", caught / len(here), 0.9)
    yield at_least("findings that are true", len(true) / len(found), 0.9)
    yield at_least(
        "findings of severity error that are true", sum(_is_true(*each) for each in errors) / len(errors), 0.9
    )
    yield at_most("findings per 100 added lines, in what is no planted defect", _noise(results), 0.6)
    yield Row("changes, and lines that they add", "", f"{len(results)}, {lines}", True)
    for program in sorted(missing):
        yield not_measured(f"defects that need {program}", "found", f"`{program}` is not installed")


def _program_of(planted: Planted) -> str | None:
    return PROGRAMS.get(planted.path.rpartition(".")[2])


def _is_true(planted: Planted, finding: Finding) -> bool:
    return any(rule in finding.rule for rule in planted.rules)


def _noise(results: list[tuple[Planted, list[Finding]]]) -> float:
    quiet = [(planted, findings) for planted, findings in results if not planted.rules]
    lines = sum(len(file.added_lines) for planted, _ in quiet for file in parse_diff(_diff(planted)).files)
    return 100 * sum(len(findings) for _, findings in quiet) / lines


async def _review_all(changes: list[Planted]) -> list[tuple[Planted, list[Finding]]]:
    results = []
    for planted in changes:
        made = await review(parse_diff(_diff(planted)), {planted.path: planted.new}, timeout_s=60)
        results.append((planted, [finding for finding in made.findings if finding.rule != NOT_RUN]))
    return results


def _diff(planted: Planted) -> str:
    old, new = planted.old.splitlines(keepends=True), planted.new.splitlines(keepends=True)
    before = f"a/{planted.path}" if planted.old else "/dev/null"
    return "".join(unified_diff(old, new, before, f"b/{planted.path}"))
