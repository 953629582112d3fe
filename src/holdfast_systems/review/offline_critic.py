"""The critic that needs no key and no network: it really reviews the changed lines.

ruff reads Python, shellcheck reads shell, detect-secrets reads everything, and `line_checks` needs no
language; oxlint, gofmt and go vet read JavaScript, TypeScript and Go where they are installed. The tools see whole
files, because a linter that sees fragments invents errors. Of what they say, only what is about changed lines
is kept, was not said of the file before the change (`old_side`), and fits its kind of path (`calm`). A tool
that is missing, fails or takes too long leaves a remark that says so: a review never looks cleaner than it was.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from holdfast import CallError
from holdfast.kit.redaction import redact_text
from holdfast_systems.review.calm import calmed
from holdfast_systems.review.changelist import ChangedFile, Changelist
from holdfast_systems.review.findings import NOT_RUN, Finding, Review, Severity, counted, settle
from holdfast_systems.review.guards import removed_guards
from holdfast_systems.review.line_checks import CREDENTIAL, check_lines
from holdfast_systems.review.meant import unmeant
from holdfast_systems.review.more_linters import go_vet, gofmt, oxlint
from holdfast_systems.review.old_side import old_text, only_new
from holdfast_systems.review.placed import Placed, json_of, place_files, whole_text

CRITIC = "offline"
# Correctness and security; style belongs to the project's own linter. Left out: asserts (S101), and
# hard-coded passwords (S105-S107), which detect-secrets finds without naming them in its message; a bare raise
# (PLE0704), which is right in a function that handlers call; names that `__slots__` seem to lack (PLE0237), which a
# base class or a property has, or the first run would have failed; security rules that speak of how a thing is
# called and not of where its value comes from (only those that are wrong whatever the value is are asked); and advice
# that projects take or leave.
_RUFF_RULES = (
    "E711,E714,E721,E722,E9,F,B,PLE,PLW,ASYNC,RUF006,W605,"
    "S113,S201,S202,S301,S302,S307,S323,S501,S502,S503,S505,S506,S507,S508,S509,S602,S609,S612,S701"
)
_RUFF_IGNORED = (
    "F403,F405,E721,B007,B008,B009,B010,B011,B023,B024,B026,B027,B028,B030,B034,B904,B905,B911,"
    "ASYNC109,ASYNC110,ASYNC115,ASYNC116,ASYNC119,ASYNC230,ASYNC240,PLE0237,PLE0704,PLW0108,PLW0120,PLW0211,PLW0602,"
    "PLW0603,PLW0604,PLW0642,PLW1641,PLW1508,PLW1509,PLW1510,PLW2901,PLW3301"
)
# Not what is wrong only if nobody meant it: characters of no width, the same letter twice in what is stripped.
_RUFF_ERRORS = re.compile(r"invalid-syntax|E9|F82|F70|PLE(?!25|1310)")
_UNQUOTED = 2086  # of what shellcheck only advises, what breaks at the first blank in a name
# What a file that another one reads cannot show (its names, its shell), and advice.
_SHELL_IGNORED = "SC1090,SC1091,SC2034,SC2046,SC2148,SC2154,SC2155"
_SHELLS = frozenset({".sh", ".bash", ".dash", ".ksh"})
_SHEBANG = re.compile(r"#!\s*/\S*?/(?:env\s+(?:-S\s+)?)?(?:sh|bash|dash|ksh)\b")


_Tool = Callable[[Placed], Awaitable[list[Finding]]]


async def review(
    changelist: Changelist,
    contents: Mapping[str, str],
    *,
    timeout_s: float,
    sizes: Mapping[str, int] | None = None,
    search_path: str | None = None,
) -> Review:
    """Review the changed lines. `contents` holds the new side of the files where it is known.

    `timeout_s` bounds each tool; nothing is left on disk. `search_path` is where the tools are looked for:
    beside the interpreter, then PATH.
    """
    known = sizes or {}
    findings = [finding for file in changelist.files for finding in check_lines(file, size=known.get(file.path))]
    path = search_path if search_path is not None else _default_search_path()
    with tempfile.TemporaryDirectory(prefix="holdfast-critic-") as directory:
        placed = await asyncio.to_thread(place_files, changelist, contents, directory, path, timeout_s)
        findings += await _linted(placed)
    findings = _where_broken(findings, changelist)
    findings = await _brought_by(changelist, findings, contents, path, timeout_s)
    lines = {(file.path, number): text for file in changelist.files for number, text in file.added_lines}
    texts = {file.path: whole_text(file, contents) or "" for file in changelist.files}
    findings = unmeant(findings, changelist, texts)
    findings = calmed(_without_echoes(findings), lambda finding: lines.get((finding.path, finding.line), ""))
    findings += [*removed_guards(changelist), *_not_linted(changelist, placed)]
    settled = settle(findings, changelist)
    return Review(_summary(changelist, settled), settled, CRITIC)


async def _linted(placed: Placed) -> list[Finding]:
    tools: dict[str, _Tool] = {
        "ruff": _ruff,
        "shellcheck": _shellcheck,
        "detect-secrets": _secrets,
        "oxlint": oxlint,
        "gofmt": gofmt,
        "go vet": go_vet,
    }
    parts = await asyncio.gather(*(_guarded(name, tool, placed) for name, tool in tools.items()))
    return [finding for part in parts for finding in part]


async def _brought_by(
    changelist: Changelist, findings: list[Finding], contents: Mapping[str, str], path: str, timeout_s: float
) -> list[Finding]:
    """Without what the same checks say of the files as they were. Files that nothing was said of are not read again."""
    spoken_of = {finding.path for finding in findings if finding.line in _lines_of(changelist, finding.path)}
    files = [file for file in changelist.files if file.path in spoken_of and file.path in contents]
    old_texts = {file.path: text for file in files if (text := old_text(file, contents[file.path]))}
    if not old_texts:
        return findings
    before = [replace(file, is_new=False, hunks=()) for file in files if file.path in old_texts]
    whole = [replace(file, added_lines=tuple(enumerate(old_texts[file.path].split("\n"), 1))) for file in before]
    said = [finding for file in whole for finding in check_lines(file)]
    with tempfile.TemporaryDirectory(prefix="holdfast-critic-") as directory:
        old = replace(changelist, files=tuple(whole))
        placed = await asyncio.to_thread(place_files, old, old_texts, directory, path, timeout_s)
        said += await _linted(placed)
    return only_new(findings, said, contents, old_texts)


def _where_broken(findings: list[Finding], changelist: Changelist) -> list[Finding]:
    """A parser notices late, and then again and again: of a file that cannot be read the first complaint is kept, on
    the changed line before the place where it was noticed."""
    kept, broken = [], set()
    for finding in sorted(findings, key=lambda each: each.line):
        if finding.rule == "invalid-syntax":
            if finding.path in broken:
                continue
            broken.add(finding.path)
            changed = sorted(_lines_of(changelist, finding.path) - {0})
            before = [line for line in changed if line <= finding.line]
            finding = replace(finding, line=(before or changed or [finding.line])[-1 if before else 0])
        kept.append(finding)
    return kept


def _lines_of(changelist: Changelist, path: str) -> frozenset[int]:
    lines = next((file.line_numbers for file in changelist.files if file.path == path), frozenset[int]())
    return lines | {0}


def _default_search_path() -> str:
    return os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))


async def _guarded(name: str, tool: _Tool, placed: Placed) -> list[Finding]:
    """What the tool found, or one remark that it did not run."""
    try:
        return await tool(placed)
    except CallError as error:
        return [_not_run(name, error.failure.message)]
    except (ValueError, KeyError, TypeError):
        return [_not_run(name, "its output could not be read.")]


def _not_run(name: str, why: str) -> Finding:
    return Finding("", 0, "info", NOT_RUN, f"{name} did not run: {why}", name)


def _not_linted(changelist: Changelist, placed: Placed) -> Iterator[Finding]:
    """A diff without file contents leaves the linters blind; say so once."""
    blind = sum(1 for file in placed.fragments.values() if _is_python(file) or _is_shell(file))
    if blind:
        message = f"{blind} changed source file{'' if blind == 1 else 's'} came without full content."
        yield _not_run("linters", message)


def _is_python(file: ChangedFile) -> bool:
    first = next((text for number, text in file.added_lines if number == 1), "")
    return file.path.endswith((".py", ".pyi")) or bool(re.match(r"#!.*\bpython", first))


def _is_shell(file: ChangedFile) -> bool:
    first = next((text for number, text in file.added_lines if number == 1), "")
    return PurePosixPath(file.path).suffix.lower() in _SHELLS or bool(_SHEBANG.match(first))


async def _ruff(placed: Placed) -> list[Finding]:
    names = [name for name, file in placed.whole.items() if _is_python(file)]
    if not names:
        return []
    options = ("--isolated", "--no-cache", "--exit-zero", "--quiet", "--output-format=json")
    rules = (f"--select={_RUFF_RULES}", f"--ignore={_RUFF_IGNORED}", "--target-version=py314")
    entries = await json_of(placed, ("ruff", "check", *options, *rules, "--", *names))
    return [
        Finding(file.path, row, _ruff_severity(code), code, redact_text(entry["message"]), "ruff")
        for entry in entries
        if (file := placed.of(entry["filename"])) is not None
        for row, code in [(int(entry["location"]["row"]), str(entry["code"] or "invalid-syntax"))]
    ]


def _ruff_severity(code: str) -> Severity:
    return "error" if _RUFF_ERRORS.match(code) else "warning"


async def _shellcheck(placed: Placed) -> list[Finding]:
    names = [name for name, file in placed.whole.items() if _is_shell(file)]
    if not names:
        return []
    said = await json_of(
        placed, ("shellcheck", "--norc", f"--exclude={_SHELL_IGNORED}", "--format=json1", "--", *names), codes=(0, 1)
    )
    severities: dict[str, Severity] = {"error": "error", "warning": "warning"}  # the rest is advice
    return [
        Finding(
            file.path,
            int(entry["line"]),
            severities.get(entry["level"], "info"),
            f"SC{entry['code']}",
            redact_text(entry["message"]),
            "shellcheck",
        )
        for entry in said["comments"]
        if (file := placed.of(entry["file"])) is not None
        and (entry["level"] in severities or entry["code"] == _UNQUOTED)
    ]


async def _secrets(placed: Placed) -> list[Finding]:
    """Kinds and places of secrets; the tool itself reports hashes only, and its values never leave it.

    `-I` keeps the interpreter from importing a module out of the change; `--no-verify` keeps the tool from
    trying a secret against its provider.
    """
    names = [*placed.whole, *placed.fragments]
    if not names:
        return []
    scan = (sys.executable, "-I", "-m", "detect_secrets", "scan", "--no-verify", "--all-files")
    found = await json_of(placed, (*scan, "--", *names))
    return [
        Finding(
            file.path,
            placed.line_of(name, int(entry["line_number"])),
            "error",
            "secret",
            f"This looks like a secret ({entry['type']}); move it out of the code, and revoke it.",
            "detect-secrets",
        )
        for name, entries in found["results"].items()
        if (file := placed.of(name)) is not None
        for entry in entries
    ]


def _without_echoes(findings: list[Finding]) -> list[Finding]:
    """Our own guess at a credential is dropped where detect-secrets names its kind."""
    named = {(finding.path, finding.line) for finding in findings if finding.critic == "detect-secrets"}
    return [f for f in findings if f.rule != CREDENTIAL or (f.path, f.line) not in named]


def _summary(changelist: Changelist, findings: tuple[Finding, ...]) -> str:
    files = len(changelist.files)
    lines = sum(len(file.added_lines) for file in changelist.files)
    remarks = [finding for finding in findings if finding.rule != NOT_RUN]
    skipped = len(findings) - len(remarks)
    tail = f" {skipped} check{'' if skipped == 1 else 's'} did not run." if skipped else ""
    return (
        f"{files} file{'' if files == 1 else 's'}, {lines} added line{'' if lines == 1 else 's'}: "
        f"{counted(remarks)}.{tail}"
    )
