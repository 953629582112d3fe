"""Fetches a submitted changelist from Perforce: `p4 describe -du`, then `p4 print` for the files it names.

    ==== //depot/main/foo.c#3 (text) ====        <- hunks without file headers: those are added here

The allow-list fails closed: every depot path in the output must lie under an allowed prefix, or nothing is
kept, not even the description. With no prefix configured nothing may be fetched at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast import CallError, Category
from holdfast.kit.redaction import redact_text
from holdfast_systems.review.changelist import DIFF_BYTES_MAX, FetchedDiff
from holdfast_systems.review.command import run

CONTENT_BYTES_MAX = 1_000_000
FILES_PRINTED_MAX = 200
_PASSED_ON = ("PATH", "HOME", *(f"P4{name}" for name in ("PORT", "USER", "CLIENT", "PASSWD", "CHARSET")))
_PASSED_ON += ("P4TICKETS", "P4TRUST")


@dataclass(frozen=True, slots=True)
class P4Policy:
    """The depot prefixes that may be read, as '//depot/main/'. None of them: nothing may."""

    depots: tuple[str, ...] = ()

    def allows(self, path: str) -> bool:
        """True for a plain path strictly under a prefix; wildcards and dot segments never pass."""
        if not path.startswith("//") or re.search(r"\.\.\.|[*%]|/\.\.?(/|$)", path):
            return False
        prefixes = [depot.rstrip("/") + "/" for depot in self.depots if re.match(r"//[^/]", depot)]
        return any(path.startswith(prefix) for prefix in prefixes)


@dataclass(frozen=True, slots=True)
class _Entry:
    path: str
    revision: str
    action: str

    @property
    def name(self) -> str:
        """The path as the diff shows it."""
        return self.path.removeprefix("//")


async def fetch_changelist(number: str, *, policy: P4Policy, timeout_s: float) -> FetchedDiff:
    """The diff, description, author and new file contents of a submitted changelist."""
    if not re.fullmatch(r"[1-9][0-9]{0,9}", number):
        message = f"'{number[:40]}' is no changelist number; use digits only."
        raise CallError.of(Category.VALIDATION, "CHANGELIST_INVALID", message)
    text = await _p4("describe", "-du", number, timeout_s=timeout_s)
    entries = list(_entries(text))
    hunks = dict(_differences(text))
    _check_depots({entry.path for entry in entries} | set(hunks), policy)
    title, author = _described(text, number)
    contents: dict[str, str] = {}
    for entry in entries[:FILES_PRINTED_MAX]:
        if entry.action not in ("delete", "move/delete", "purge", "archive"):
            printed = await _print(entry, timeout_s)
            if printed is not None:
                contents[entry.name] = printed
    return FetchedDiff(_unified(entries, hunks, contents), title, author, contents)


async def _p4(*arguments: str, timeout_s: float, stdout_bytes_max: int = DIFF_BYTES_MAX * 2) -> str:
    env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    ran = await run(("p4", *arguments), timeout_s=timeout_s, env=env, stdout_bytes_max=stdout_bytes_max)
    if ran.code != 0 or (not ran.stdout and ran.stderr):
        raise _failed(ran.stderr)
    return ran.stdout.decode("utf-8", "replace").replace("\r\n", "\n")


def _failed(stderr: str) -> CallError:
    said = redact_text(" ".join(stderr.split())[:300])
    if re.search(r"no such changelist|no such file|unknown\.", stderr, re.IGNORECASE):
        return CallError.of(Category.NOT_FOUND, "CHANGELIST_NOT_FOUND", f"p4 has no such changelist. {said}")
    if re.search(r"[Pp]assword|session (has )?expired|protected namespace|don't have permission", stderr):
        return CallError.of(Category.AUTH, "DEPOT_DENIED", f"p4 refused us. {said}")
    if re.search(r"Connect to server failed|TCP (connect|receive|send)|Partner exited", stderr):
        return CallError.of(Category.NETWORK, "DEPOT_UNREACHABLE", f"p4 is unreachable. {said}", faults=True)
    return CallError.of(Category.BUG, "P4_FAILED", f"p4 failed. {said}")


_AFFECTED = re.compile(r"^\.\.\. (?P<path>//.+)#(?P<revision>\d+|none) (?P<action>[a-z/]+)$", re.MULTILINE)
_DIFFERS = re.compile(r"^==== (?P<path>//.+?)#\d+(?: \([^)]*\))? ====[^\n]*(?:\n|\Z)", re.MULTILINE)


def _entries(text: str) -> Iterator[_Entry]:
    """The affected files. They are read from the whole output: a path found anywhere must be allowed."""
    for match in _AFFECTED.finditer(text):
        yield _Entry(match["path"], match["revision"], match["action"])


def _differences(text: str) -> Iterator[tuple[str, str]]:
    """Path -> hunks, for each '==== path ====' section."""
    sections = list(_DIFFERS.finditer(text))
    ends = [section.start() for section in sections[1:]] + [len(text)]
    for section, end in zip(sections, ends, strict=False):
        yield section["path"], text[section.end() : end].strip("\n")


def _check_depots(paths: Iterable[str], policy: P4Policy) -> None:
    found = sorted(paths)
    refused = [path for path in found if not policy.allows(path)]
    if refused or not found:
        what = f"{len(refused)} of its {len(found)} files lie outside" if found else "it names no file in"
        message = f"The changelist is refused: {what} the allowed depots."
        raise CallError.of(Category.POLICY, "DEPOT_REFUSED", message)


def _described(text: str, number: str) -> tuple[str, str]:
    head = re.match(r"Change \d+ by (?P<user>[^@\s]+)@\S+ on [^\n]*\n\s*\n(?P<title>\t[^\n]*)?", text)
    if head is None:
        message = f"p4's description of changelist {number} does not read like one."
        raise CallError.of(Category.VALIDATION, "DIFF_UNREADABLE", message)
    return (head["title"] or "").strip(), head["user"]


async def _print(entry: _Entry, timeout_s: float) -> str | None:
    """The new side of a file, or None when it is binary or too large to be read."""
    try:
        name = f"{entry.path}#{entry.revision}"
        text = await _p4("print", "-q", name, timeout_s=timeout_s, stdout_bytes_max=CONTENT_BYTES_MAX)
    except CallError as error:
        if error.failure.error_class == "COMMAND_OUTPUT_TOO_LARGE":
            return None
        raise
    return None if "\0" in text[:8_000] else text


def _unified(entries: list[_Entry], hunks: dict[str, str], contents: dict[str, str]) -> str:
    """A unified diff with the headers that `describe` leaves out; added files become whole hunks."""
    parts: list[str] = []
    for entry in entries:
        old, new = f"a/{entry.name}", f"b/{entry.name}"
        header = f"diff --git {old} {new}\n"
        if hunks.get(entry.path):
            parts.append(f"{header}--- {old}\n+++ {new}\n{hunks[entry.path]}\n")
        elif entry.action in ("add", "branch", "move/add", "import") and entry.name in contents:
            parts.append(f"{header}new file mode 100644\n{_whole(new, contents[entry.name])}")
        elif entry.action in ("delete", "move/delete"):
            parts.append(f"{header}deleted file mode 100644\n")
        else:
            parts.append(f"{header}Binary files {old} and {new} differ\n")
    return "".join(parts)


def _whole(new: str, text: str) -> str:
    if not text:
        return ""
    lines = text.split("\n")
    ends_plainly = lines[-1] == ""
    body = lines[:-1] if ends_plainly else lines
    added = "".join(f"+{line}\n" for line in body)
    marker = "" if ends_plainly else "\\ No newline at end of file\n"
    return f"--- /dev/null\n+++ {new}\n@@ -0,0 +1,{len(body)} @@\n{added}{marker}"
