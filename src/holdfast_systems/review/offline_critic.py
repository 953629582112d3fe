"""The critic that needs no key and no network: it really reviews the changed lines.

ruff reads Python, shellcheck reads shell, detect-secrets reads everything, and `line_checks` needs no
language; oxlint and gofmt read JavaScript, TypeScript and Go where they are installed. The tools see whole
files, because a linter that sees fragments invents errors. Of what they say, only what is about changed lines
is kept, was not said of the file before the change (`old_side`), and fits its kind of path (`calm`). A tool
that is missing, fails or takes too long leaves a remark that says so: a review never looks cleaner than it was.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from holdfast import CallError
from holdfast.kit import redact_text
from holdfast_systems.review.calm import calmed
from holdfast_systems.review.changelist import ChangedFile, Changelist
from holdfast_systems.review.command import run
from holdfast_systems.review.findings import NOT_RUN, Finding, Review, Severity, counted, settle
from holdfast_systems.review.guards import removed_guards
from holdfast_systems.review.line_checks import CREDENTIAL, check_lines
from holdfast_systems.review.more_linters import gofmt_errors, is_go, is_script, oxlint_command, oxlint_severity
from holdfast_systems.review.old_side import old_text, only_new

CRITIC = "offline"
# Correctness and security; style belongs to the project's own linter. Left out: asserts (S101), and
# hard-coded passwords (S105-S107), which detect-secrets finds without naming them in its message.
_RUFF_RULES = "E7,E9,F,B,S,PLE,PLW,ASYNC,RUF006,W605"
_RUFF_IGNORED = "B904,S101,S105,S106,S107,S603,S607,PLW0603,PLW2901"
_RUFF_ERRORS = re.compile(r"invalid-syntax|E9|F82|F70|PLE")
_SHELLS = frozenset({".sh", ".bash", ".dash", ".ksh"})
_SHEBANG = re.compile(r"#!\s*/\S*?/(?:env\s+(?:-S\s+)?)?(?:sh|bash|dash|ksh)\b")


@dataclass(frozen=True, slots=True)
class _Placed:
    """The files of a change, laid out for the tools under names of our own."""

    directory: str
    whole: Mapping[str, ChangedFile]
    fragments: Mapping[str, ChangedFile]
    search_path: str
    timeout_s: float

    def of(self, name: str) -> ChangedFile | None:
        """The changed file behind a name that a tool reports, absolute or relative."""
        relative = os.path.relpath(os.path.join(self.directory, name), self.directory)
        return self.whole.get(relative) or self.fragments.get(relative)

    def env(self) -> dict[str, str]:
        return {"PATH": self.search_path, "LC_ALL": "C.UTF-8", "HOME": self.directory, "NO_COLOR": "1"}


_Tool = Callable[[_Placed], Awaitable[list[Finding]]]


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
        placed = await asyncio.to_thread(_place, changelist, contents, directory, path, timeout_s)
        findings += await _linted(placed)
    findings = await _brought_by(changelist, findings, contents, path, timeout_s)
    lines = {(file.path, number): text for file in changelist.files for number, text in file.added_lines}
    findings = calmed(_without_echoes(findings), lambda finding: lines.get((finding.path, finding.line), ""))
    findings += [*removed_guards(changelist), *_not_linted(changelist, placed)]
    settled = settle(findings, changelist)
    return Review(_summary(changelist, settled), settled, CRITIC)


async def _linted(placed: _Placed) -> list[Finding]:
    tools: dict[str, _Tool] = {
        "ruff": _ruff,
        "shellcheck": _shellcheck,
        "detect-secrets": _secrets,
        "oxlint": _oxlint,
        "gofmt": _gofmt,
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
        placed = await asyncio.to_thread(_place, old, old_texts, directory, path, timeout_s)
        said += await _linted(placed)
    return only_new(findings, said, contents, old_texts)


def _lines_of(changelist: Changelist, path: str) -> frozenset[int]:
    lines = next((file.line_numbers for file in changelist.files if file.path == path), frozenset[int]())
    return lines | {0}


def _default_search_path() -> str:
    return os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))


def _place(
    changelist: Changelist, contents: Mapping[str, str], directory: str, search_path: str, timeout_s: float
) -> _Placed:
    """Write the files as 'number/name': the change chooses no path, and the name still tells the language."""
    whole: dict[str, ChangedFile] = {}
    fragments: dict[str, ChangedFile] = {}
    for index, file in enumerate(changelist.files):
        if not file.is_text or not file.added_lines:
            continue
        name = os.path.join(str(index), _safe_name(file.path))
        text = contents.get(file.path)
        if text is None and file.is_new:
            text = "\n".join(line for _, line in file.added_lines) + "\n"
        (fragments if text is None else whole)[name] = file
        target = Path(directory, name)
        target.parent.mkdir()
        target.write_bytes((_padded(file) if text is None else text).encode("utf-8", "replace"))
    return _Placed(directory, whole, fragments, search_path, timeout_s)


def _safe_name(path: str) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]", "_", PurePosixPath(path).name)[-100:]
    return f"_{name}" if not name or name[0] in ".-" else name


def _padded(file: ChangedFile) -> str:
    """The added lines at their own line numbers, with nothing in between."""
    lines = [""] * max(number for number, _ in file.added_lines)
    for number, text in file.added_lines:
        lines[number - 1] = text
    return "\n".join(lines) + "\n"


async def _guarded(name: str, tool: _Tool, placed: _Placed) -> list[Finding]:
    """What the tool found, or one remark that it did not run."""
    try:
        return await tool(placed)
    except CallError as error:
        return [_not_run(name, error.failure.message)]
    except (ValueError, KeyError, TypeError):
        return [_not_run(name, "its output could not be read.")]


def _not_run(name: str, why: str) -> Finding:
    return Finding("", 0, "info", NOT_RUN, f"{name} did not run: {why}", name)


def _not_linted(changelist: Changelist, placed: _Placed) -> Iterator[Finding]:
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


async def _ruff(placed: _Placed) -> list[Finding]:
    names = [name for name, file in placed.whole.items() if _is_python(file)]
    if not names:
        return []
    options = ("--isolated", "--no-cache", "--exit-zero", "--quiet", "--output-format=json")
    rules = (f"--select={_RUFF_RULES}", f"--ignore={_RUFF_IGNORED}", "--target-version=py314")
    entries = await _json_of(placed, ("ruff", "check", *options, *rules, "--", *names))
    return [
        Finding(file.path, row, _ruff_severity(code), code, redact_text(entry["message"]), "ruff")
        for entry in entries
        if (file := placed.of(entry["filename"])) is not None
        for row, code in [(int(entry["location"]["row"]), str(entry["code"] or "invalid-syntax"))]
    ]


def _ruff_severity(code: str) -> Severity:
    return "error" if _RUFF_ERRORS.match(code) else "warning"


async def _shellcheck(placed: _Placed) -> list[Finding]:
    names = [name for name, file in placed.whole.items() if _is_shell(file)]
    if not names:
        return []
    said = await _json_of(placed, ("shellcheck", "--norc", "--format=json1", "--", *names), codes=(0, 1))
    severities: dict[str, Severity] = {"error": "error", "warning": "warning"}
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
    ]


async def _secrets(placed: _Placed) -> list[Finding]:
    """Kinds and places of secrets; the tool itself reports hashes only, and its values never leave it.

    `-I` keeps the interpreter from importing a module out of the change; `--no-verify` keeps the tool from
    trying a secret against its provider.
    """
    names = [*placed.whole, *placed.fragments]
    if not names:
        return []
    scan = (sys.executable, "-I", "-m", "detect_secrets", "scan", "--no-verify", "--all-files")
    found = await _json_of(placed, (*scan, "--", *names))
    return [
        Finding(
            file.path,
            int(entry["line_number"]),
            "error",
            "secret",
            f"This looks like a secret ({entry['type']}); move it out of the code, and revoke it.",
            "detect-secrets",
        )
        for name, entries in found["results"].items()
        if (file := placed.of(name)) is not None
        for entry in entries
    ]


async def _oxlint(placed: _Placed) -> list[Finding]:
    names = [name for name, file in placed.whole.items() if is_script(file.path)]
    if not names:
        return []
    said = await _json_of(placed, oxlint_command(names), codes=(0, 1))
    return [
        Finding(
            file.path, line, oxlint_severity(code), code or "invalid-syntax", redact_text(entry["message"]), "oxlint"
        )
        for entry in said["diagnostics"]
        if (file := placed.of(entry["filename"])) is not None and entry["labels"]
        for line, code in [(int(entry["labels"][0]["span"]["line"]), str(entry.get("code", "")))]
    ]


async def _gofmt(placed: _Placed) -> list[Finding]:
    names = [name for name, file in placed.whole.items() if is_go(file.path)]
    if not names:
        return []
    command = ("gofmt", "-l", "-e", *names)
    ran = await run(command, timeout_s=placed.timeout_s, env=placed.env(), cwd=placed.directory)
    unformatted = [file for name in ran.stdout.decode().splitlines() if (file := placed.of(name)) is not None]
    found = [
        Finding(file.path, 0, "info", "gofmt", "gofmt would format this file otherwise.", "gofmt")
        for file in unformatted
    ]
    for name, line, message in gofmt_errors(ran.stderr):
        if (file := placed.of(name)) is not None:
            found.append(Finding(file.path, line, "error", "invalid-syntax", redact_text(message), "gofmt"))
    return found


async def _json_of(placed: _Placed, argv: tuple[str, ...], codes: tuple[int, ...] = (0,)) -> Any:
    ran = await run(argv, timeout_s=placed.timeout_s, env=placed.env(), cwd=placed.directory)
    if ran.code not in codes:
        raise ValueError(f"exit code {ran.code}")
    return json.loads(ran.stdout)


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
