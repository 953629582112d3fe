"""The file before the change, from the file after it and the hunks between; and what was wrong there already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from holdfast_systems.review.changelist import ChangedFile
from holdfast_systems.review.findings import Finding
from holdfast_systems.review.line_checks import CREDENTIAL

HABIT = 3  # so many findings of one rule before the change make it the file's own way
# Another secret is another secret, whatever stood in its place.
_ALWAYS_NEW = frozenset({"secret", CREDENTIAL, "merge-conflict", "invalid-syntax"})


def old_text(file: ChangedFile, text: str) -> str | None:
    """The content before the change, or None where the hunks do not fit the content."""
    if file.is_new:
        return ""
    lines = text.split("\n")
    old: list[str] = []
    at = 0  # how many lines of the new side are done
    for hunk in file.hunks:
        numbers = [line.new_no for line in hunk.lines if line.new_no is not None]
        start = numbers[0] - 1 if numbers else at
        if not numbers:  # only deletions: the context-free hunk's place is told by what stands before it
            olds = [line.old_no for line in hunk.lines if line.old_no is not None]
            start = at + (olds[0] - 1 - len(old)) if olds else at
        if not at <= start <= len(lines):
            return None
        old += lines[at:start]
        old += [line.text for line in hunk.lines if line.kind != "+"]
        at = numbers[-1] if numbers else start
    return "\n".join([*old, *lines[at:]])


def only_new(
    findings: Iterable[Finding], before: Iterable[Finding], texts: Mapping[str, str], old_texts: Mapping[str, str]
) -> list[Finding]:
    """The findings that the change brings: not those of lines that only moved or were put in other words, nor of what
    the file does anyway."""
    seen: Counter[tuple[str, str, str]] = Counter()
    habits: Counter[tuple[str, str]] = Counter()
    reworded: Counter[tuple[str, str, str]] = Counter()
    lines = {path: {"".join(line.split()) for line in text.split("\n")} for path, text in texts.items()}
    for finding in before:
        line = _line(old_texts, finding)
        seen[finding.path, finding.rule, line] += 1
        habits[finding.path, finding.rule] += 1
        reworded[finding.path, finding.rule, finding.message] += line not in lines.get(finding.path, ())
    kept = []
    for finding in findings:
        key = (finding.path, finding.rule, _line(texts, finding))
        same = (finding.path, finding.rule, finding.message)
        if seen[key] > 0:
            seen[key] -= 1
        elif reworded[same] > 0 and finding.rule not in _ALWAYS_NEW:
            reworded[same] -= 1
        elif habits[finding.path, finding.rule] < (1 if finding.rule == "invalid-syntax" else HABIT):
            kept.append(finding)
    return kept


def _line(texts: Mapping[str, str], finding: Finding) -> str:
    lines = texts.get(finding.path, "").split("\n")
    return "".join(lines[finding.line - 1].split()) if 0 < finding.line <= len(lines) else ""
