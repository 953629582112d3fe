"""Linters of JavaScript, TypeScript and Go, used where they are installed: oxlint, gofmt and go vet.

`holdfast-systems[javascript]` brings oxlint, `holdfast-systems[go]` brings Go. A change comes without the packages that
it imports, so go vet speaks only of files that need no more than themselves and Go's own library."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from holdfast import CallError
from holdfast.kit.redaction import redact_text
from holdfast_systems.review.changelist import ChangedFile
from holdfast_systems.review.command import run
from holdfast_systems.review.findings import Finding, Severity
from holdfast_systems.review.placed import Placed, json_of

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
    "no-new-native-nonconstructor",
    "no-obj-calls",
    "no-self-assign",
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
    "no-delete-var",
    "constructor-super",
]
_PLACED_MESSAGE = re.compile(r"^(?:vet: )?(?P<name>[^:]+):(?P<line>\d+):\d+: (?P<message>.+)$")
_VETTED_MAX = 20


def is_script(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in SCRIPTS


def is_go(path: str) -> bool:
    return path.endswith(".go")


async def oxlint(placed: Placed) -> list[Finding]:
    names = [name for name, file in placed.whole.items() if is_script(file.path)]
    if not names:
        return []
    rules = [option for rule in OXLINT_RULES for option in ("-D", rule)]
    command = ("oxlint", "--format=json", "--disable-nested-config", "-A", "all", *rules, "--", *names)
    said = await json_of(placed, command, codes=(0, 1))
    return [
        Finding(
            file.path, line, _oxlint_severity(code), code or "invalid-syntax", redact_text(entry["message"]), "oxlint"
        )
        for entry in said["diagnostics"]
        if (file := placed.of(entry["filename"])) is not None and entry["labels"]
        for line in [_label_line(file, [int(label["span"]["line"]) for label in entry["labels"]])]
        for code in [str(entry.get("code", ""))]
    ]


def _label_line(file: ChangedFile, lines: list[int]) -> int:
    """A finding may name two places, as a declaration and what breaks it: the last one that was changed is meant."""
    return next((line for line in reversed(lines) if line in file.line_numbers), lines[0])


def _oxlint_severity(code: str) -> Severity:
    return "error" if not code else "warning"  # no code: it cannot be parsed


async def gofmt(placed: Placed) -> list[Finding]:
    names = [name for name, file in placed.whole.items() if is_go(file.path)]
    if not names:
        return []
    command = (await _gofmt_program(placed), "-l", "-e", *names)
    ran = await run(command, timeout_s=placed.timeout_s, env=placed.env(), cwd=placed.directory)
    unformatted = [file for name in ran.stdout.decode().splitlines() if (file := placed.of(name)) is not None]
    found = [
        Finding(file.path, 0, "info", "gofmt", "gofmt would format this file otherwise.", "gofmt")
        for file in unformatted
    ]
    for name, line, message in messages_of(ran.stderr):
        if (file := placed.of(name)) is not None:
            found.append(Finding(file.path, line, "error", "invalid-syntax", redact_text(message), "gofmt"))
    return found


async def _gofmt_program(placed: Placed) -> str:
    """gofmt, which a package may have put beside its `go` only and not among the commands."""
    if shutil.which("gofmt", path=placed.search_path) or not shutil.which("go", path=placed.search_path):
        return "gofmt"
    ran = await run(("go", "env", "GOROOT"), timeout_s=placed.timeout_s, env=_go_env(placed), cwd=placed.directory)
    return os.path.join(ran.stdout.decode().strip(), "bin", "gofmt")


async def go_vet(placed: Placed) -> list[Finding]:
    """What `go vet` says of the files that it can understand alone; gofmt has said where Go itself is missing."""
    names = [name for name, file in placed.whole.items() if is_go(file.path) and not file.path.endswith("_test.go")]
    if not names or not shutil.which("go", path=placed.search_path):
        return []
    parts = await asyncio.gather(*(_vetted(placed, name) for name in names[:_VETTED_MAX]))
    return [finding for part in parts for finding in part]


async def _vetted(placed: Placed, name: str) -> list[Finding]:
    file = placed.of(name)
    try:
        ran = await run(("go", "vet", name), timeout_s=placed.timeout_s, env=_go_env(placed), cwd=placed.directory)
    except CallError:
        return []  # its library may take longer to build than there is time, the first time
    if file is None or re.search(r"^(vet|go): |^package |could not import", ran.stderr, re.MULTILINE):
        return []  # it needs its package
    return [
        Finding(file.path, line, "warning", "go-vet", redact_text(message), "go vet")
        for _, line, message in messages_of(ran.stderr)
    ]


def _go_env(placed: Placed) -> dict[str, str]:
    """Nothing is fetched, no C compiler is called; what is built for one review serves the others."""
    cache = os.environ.get("GOCACHE") or str(Path(os.environ.get("HOME") or placed.directory, ".cache", "go-build"))
    fixed = {"GO111MODULE": "off", "GOPROXY": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOENV": "off"}
    return {**placed.env(), **fixed, "GOCACHE": cache, "GOFLAGS": "", "GOTELEMETRY": "off"}


def messages_of(output: str) -> Iterator[tuple[str, int, str]]:
    """File, line and message of each line that has them."""
    for line in output.splitlines():
        if match := _PLACED_MESSAGE.match(line):
            yield match["name"], int(match["line"]), match["message"]
