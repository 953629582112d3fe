"""Linters of JavaScript, TypeScript and Go, used where they are installed: oxlint and gofmt."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from holdfast_systems.review.findings import Severity

SCRIPTS = frozenset({".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts"})
# What is wrong whatever a project's style is; oxlint's other rules are matters of taste.
OXLINT_RULES = [
    "no-cond-assign",
    "no-const-assign",
    "no-dupe-class-members",
    "no-dupe-else-if",
    "no-dupe-keys",
    "no-duplicate-case",
    "no-debugger",
    "no-empty-pattern",
    "no-func-assign",
    "no-import-assign",
    "no-invalid-regexp",
    "no-loss-of-precision",
    "no-new-native-nonconstructor",
    "no-obj-calls",
    "no-self-assign",
    "no-setter-return",
    "no-shadow-restricted-names",
    "no-sparse-arrays",
    "no-this-before-super",
    "no-unsafe-finally",
    "no-unsafe-negation",
    "no-unsafe-optional-chaining",
    "no-unused-labels",
    "use-isnan",
    "valid-typeof",
    "for-direction",
    "getter-return",
    "no-compare-neg-zero",
    "no-async-promise-executor",
    "no-delete-var",
    "constructor-super",
]
_GOFMT_ERROR = re.compile(r"^(?P<name>.+?):(?P<line>\d+):\d+: (?P<message>.+)$")


def is_script(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in SCRIPTS


def is_go(path: str) -> bool:
    return path.endswith(".go")


def oxlint_command(names: list[str]) -> tuple[str, ...]:
    rules = [option for rule in OXLINT_RULES for option in ("-D", rule)]
    return ("oxlint", "--format=json", "--disable-nested-config", "-A", "all", *rules, "--", *names)


def oxlint_severity(code: str) -> Severity:
    return "error" if not code else "warning"  # no code: it cannot be parsed


def gofmt_errors(output: str) -> list[tuple[str, int, str]]:
    """File, line and message of what gofmt cannot parse."""
    matches = (_GOFMT_ERROR.match(line) for line in output.splitlines())
    return [(match["name"], int(match["line"]), match["message"]) for match in matches if match is not None]
