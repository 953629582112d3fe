"""Which findings a reader is spared: true elsewhere, not in this kind of file; and said once instead of ten times."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from holdfast_systems.review.findings import NOT_RUN, Finding
from holdfast_systems.review.line_checks import CREDENTIAL, is_known_key
from holdfast_systems.review.path_kinds import path_kind

PRINTS_MAX = 3  # a file that prints so often is meant to
_OLD_PYTHON = re.compile(
    r"`(unicode|basestring|long|xrange|raw_input|unichr|reduce|buffer|file|cmp|execfile|reload|intern|apply|coerce|StandardError)`"
)
_NOT_IN_TRIALS = re.compile(
    r"debugging|todo|long-line|trailing-space|no-final-newline|removed-guard|binary"
    r"|eslint\((?!no-const-assign|no-dupe|no-debugger|valid-typeof|use-isnan).*\)"
    r"|S\d+|B\d+|PLW\d+|E7\d+|ASYNC\d+|RUF006|F811|F841|SC\d+"
)
# A stub only describes: what is wrong or wise there is so in the code that it describes.
_NOT_IN_STUBS = re.compile(r"PL[EW]\d+|B\d+|S\d+|E7\d+|ASYNC\d+|F811")
_COMPATIBLE = re.compile(r"(^|/)_?(?:py\d?|py)?_?(?:compat\w*|six)(?:\.py|/)")
_REDEFINED = re.compile(r"from line (\d+)")
_SECRET_KIND = re.compile(r"looks like a secret \((?P<kind>[^()]*)\)")
_GUESSES = frozenset(
    {"Hex High Entropy String", "Base64 High Entropy String", "Secret Keyword", "Basic Auth Credentials"}
)
_NAMED = re.compile(r"passw|secret|token|api_?key|access_?key|credential|bearer|authorization|private", re.IGNORECASE)
_DIGEST = re.compile(r"\b(?:[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{32})\b|sha(?:256|512|1)-|integrity", re.IGNORECASE)
# A value that something is set to or called with, not one that a sentence mentions.
_GIVEN = re.compile(r"[=:(,]\s*[rbuf]?['\"`]")
# An address that shows how one is written: a word for a password, or a host that nobody has.
_MADE_UP = re.compile(
    r"://[^\s/:@]*:(?:[^\s/@]{1,5}|pass\w*|secret|user\w*|token|example\w*|change\w*)@"
    r"|@(?:host(?:name)?|localhost|127\.0\.0\.1|example\.\w+|[\w.-]+\.(?:test|example|invalid))\b",
    re.IGNORECASE,
)
_FILLED_LATER = re.compile(r"[=:]\s*['\"]?(?:\{env:|\{\{|\{\w+\}|\$\{|\$\w|<\w+>|%\()")
_COMMENT = re.compile(r"\s*(?:#|//|/\*|\*(?!\*)|--|<!--)")
# The keys that a provider's own documents show.
_EXAMPLE = re.compile(r"EXAMPLE(?:KEY)?\b")
_EXCUSED = re.compile(r"[^#]*+#.*\b(?:noqa\b|pylint:\s*disable|nosec\b|type:\s*ignore)", re.IGNORECASE)
_SAID_ONCE = frozenset({"todo", "trailing-space", "long-line", "F401", "W605"})


def calmed(findings: Iterable[Finding], line_of: Callable[[Finding], str]) -> list[Finding]:
    """The findings worth a reader's time, with the severity that their place gives them."""
    kept = [found for finding in findings if (found := _in_its_place(finding, line_of)) is not None]
    prints = Counter(finding.path for finding in kept if finding.rule == "debugging" and finding.severity == "info")
    kept = [
        finding
        for finding in kept
        if not (finding.rule == "debugging" and finding.severity == "info" and prints[finding.path] >= PRINTS_MAX)
    ]
    return _said_once(kept)


def _in_its_place(finding: Finding, line_of: Callable[[Finding], str]) -> Finding | None:
    if finding.rule in (NOT_RUN, "merge-conflict"):
        return finding
    kind = path_kind(finding.path)
    if kind == "foreign":
        return None
    if finding.rule in ("secret", CREDENTIAL):
        return _secret(finding, line_of(finding), trial=kind == "trial")
    if kind == "trial" and _NOT_IN_TRIALS.fullmatch(finding.rule):
        return None
    if finding.path.endswith(".pyi") and _NOT_IN_STUBS.fullmatch(finding.rule):
        return None
    if (finding.critic == "ruff" or finding.rule == "debugging") and _EXCUSED.match(line_of(finding)):
        return None  # in whatever spelling: the author knows
    if _is_usual(finding, line_of(finding)):
        return None
    # Tests break things to see what comes of it.
    return replace(finding, severity="warning") if kind == "trial" and finding.severity == "error" else finding


def _is_usual(finding: Finding, line: str) -> bool:
    if finding.rule == "F811" and (before := _REDEFINED.search(finding.message)):
        return int(before[1]) > finding.line  # what comes first is replaced by itself, through `global`
    if finding.rule == "F401" and finding.path.endswith("__init__.py"):
        return True  # a re-export
    if finding.rule in ("F401", "PLW0127") and _COMPATIBLE.search(finding.path):
        return True  # names that are offered to all versions of Python alike
    if finding.rule == "S301" and "dumps(" in line:
        return True  # a copy: what is read was written by the same line
    return finding.rule == "F821" and bool(_OLD_PYTHON.search(finding.message))  # behind a check of the version


def _secret(finding: Finding, line: str, *, trial: bool) -> Finding | None:
    """Keys of a known form are grave; what only looks random, or is only named like one, is a guess."""
    match = _SECRET_KIND.search(finding.message)
    kind = match["kind"] if match else ""
    guess = kind in _GUESSES or (not kind and not is_known_key(line))
    if _EXAMPLE.search(line) or (kind == "Private Key" and not is_known_key(line)):
        return None  # shown, or spoken of
    if trial:
        return None if guess else replace(finding, severity="info")
    if guess and (_COMMENT.match(line) or _FILLED_LATER.search(line)):
        return None  # it shows how something is called, or what takes its place
    if guess and kind in ("", "Basic Auth Credentials") and _MADE_UP.search(line):
        return None
    if "Entropy" in kind and (_DIGEST.search(line) or not _NAMED.search(line) or not _GIVEN.search(line)):
        return None
    return replace(finding, severity="warning") if guess else finding


def _said_once(findings: list[Finding]) -> list[Finding]:
    """The same words about one file are said at their first place, with how often they hold; errors each time."""
    counts = Counter(_words(finding) for finding in findings)
    spoken: set[tuple[str, str, str]] = set()
    kept = []
    for finding in sorted(findings, key=lambda each: (each.path, each.line)):
        key = _words(finding)
        if finding.severity != "error" and counts[key] > 1:
            if key in spoken:
                continue
            spoken.add(key)
            finding = replace(finding, message=f"{finding.message} And {counts[key] - 1} more in this file.")
        kept.append(finding)
    return kept


def _words(finding: Finding) -> tuple[str, str, str]:
    return finding.path, finding.rule, "" if finding.rule in _SAID_ONCE else finding.message
