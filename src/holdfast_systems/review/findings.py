"""Findings: what a critic says about one line, and the one way they are put in order for a reader.

Both critics hand their findings to `settle`: only changed lines, no duplicates, a fixed order. So the same
change gives the same mail, whichever critic or chunk spoke first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from holdfast_systems.review.changelist import Changelist

Severity = Literal["info", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
NOT_RUN = "not-run"


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark. `line` 0 means the whole file; an empty `path` means the whole change.

    `suggestion` is what the line should say instead, whole and with its indentation; empty for none."""

    path: str
    line: int
    severity: Severity
    rule: str
    message: str
    critic: str
    suggestion: str = ""


@dataclass(frozen=True, slots=True)
class Review:
    """What a critic made of a change, and what it cost."""

    summary: str
    findings: tuple[Finding, ...]
    critic: str
    tokens_in: int = 0
    tokens_out: int = 0


def settle(findings: Iterable[Finding], changelist: Changelist) -> tuple[Finding, ...]:
    """The findings a reader gets: on changed lines only, each once, errors of a file first."""
    return in_order(without_duplicates(on_changed_lines(findings, changelist)))


def on_changed_lines(findings: Iterable[Finding], changelist: Changelist) -> list[Finding]:
    """Drop what speaks of untouched lines or of files outside the change."""
    lines = {file.path: file.line_numbers for file in changelist.files}
    return [
        finding
        for finding in findings
        if finding.path == "" or (finding.path in lines and (finding.line == 0 or finding.line in lines[finding.path]))
    ]


def without_duplicates(findings: Iterable[Finding]) -> list[Finding]:
    """Keep the gravest of findings that say the same of the same line, whoever said it."""
    kept: dict[tuple[str, int, str], Finding] = {}
    for finding in findings:
        key = (finding.path, finding.line, " ".join(finding.message.casefold().split()))
        known = kept.get(key)
        if known is None or _rank(finding) > _rank(known):
            kept[key] = finding
    return list(kept.values())


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By file, line, falling severity, rule: a total order, so that a review reads the same twice."""
    return tuple(sorted(findings, key=lambda f: (f.path, f.line, -_rank(f), f.rule, f.critic, f.message)))


def counts(findings: Iterable[Finding]) -> Mapping[Severity, int]:
    """How many of each severity, gravest first."""
    found = Counter(finding.severity for finding in findings)
    return {severity: found[severity] for severity in reversed(SEVERITIES)}


def counted(findings: Iterable[Finding]) -> str:
    """The counts as a reader's phrase: '2 errors, 1 warning, 0 remarks'."""
    nouns = {"error": "error", "warning": "warning", "info": "remark"}
    return ", ".join(
        f"{number} {nouns[severity]}{'' if number == 1 else 's'}" for severity, number in counts(findings).items()
    )


def _rank(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)
