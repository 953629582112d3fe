"""A changelist: what a change does to which files, read from a unified diff.

A review that silently leaves lines out is worse than none, so the reader is strict: text that yields no
files, a hunk shorter or longer than its header says, a header without hunks, and combined diffs are all
DIFF_UNREADABLE. Bytes that are not UTF-8 are replaced, never refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk as PatchHunk
from unidiff.patch import PatchedFile, PatchSet

from holdfast import CallError, Category

DIFF_BYTES_MAX = 5_000_000
FILES_MAX = 3_000
SYMLINK_MODE = "120000"
SUBMODULE_MODE = "160000"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a hunk. `kind` is '+', '-' or ' '; a line that is not on a side has no number there."""

    kind: str
    text: str
    old_no: int | None
    new_no: int | None


@dataclass(frozen=True, slots=True)
class Hunk:
    """One changed place of a file."""

    header: str
    lines: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file of a change. Added lines carry their number in the new file and no line end."""

    path: str
    old_path: str | None
    added_lines: tuple[tuple[int, str], ...]
    is_binary: bool = False
    is_new: bool = False
    is_deleted: bool = False
    lacks_final_newline: bool = False
    mode: str | None = None
    hunks: tuple[Hunk, ...] = ()

    @property
    def is_rename(self) -> bool:
        return self.old_path is not None and self.old_path != self.path

    @property
    def is_text(self) -> bool:
        """True when the added lines are content: not a link's target, not a submodule's commit."""
        return not self.is_binary and not self.is_deleted and self.mode not in (SYMLINK_MODE, SUBMODULE_MODE)

    @property
    def line_numbers(self) -> frozenset[int]:
        return frozenset(number for number, _ in self.added_lines)


@dataclass(frozen=True, slots=True)
class Changelist:
    """A change under review. `diff` is the text it was read from."""

    id: str
    title: str
    author: str
    files: tuple[ChangedFile, ...]
    diff: str

    def named(self, id: str, title: str, author: str) -> Changelist:
        """The same change under the names its source gives it."""
        return replace(self, id=id, title=title, author=author)


@dataclass(frozen=True, slots=True)
class FetchedDiff:
    """What a source gave: the diff and, where it can, the new side of the changed files.

    `contents` has text files within the limits only; `sizes` has every changed file whose size is known.
    """

    diff: str
    title: str
    author: str
    contents: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)


def parse_diff(text: str | bytes, *, bytes_max: int = DIFF_BYTES_MAX, files_max: int = FILES_MAX) -> Changelist:
    """Read a unified diff. An empty text is an empty change; anything else must yield files."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if len(data) > bytes_max:
        raise CallError.of(
            Category.VALIDATION,
            "DIFF_TOO_LARGE",
            f"The diff has {len(data)} bytes, the limit is {bytes_max}; take smaller ranges.",
        )
    diff = _with_plain_line_ends(data.decode("utf-8", "replace"))
    lines = diff.split("\n")
    _check_headers(lines)
    patches = _parse(diff)
    if not patches and diff.strip():
        raise _unreadable("it is not empty, and no file was found in it")
    if len(patches) > files_max:
        message = f"The diff changes {len(patches)} files, the limit is {files_max}; take smaller ranges."
        raise CallError.of(Category.VALIDATION, "DIFF_TOO_LARGE", message)
    _check_nothing_was_skipped(patches, lines)
    return Changelist(id="", title="", author="", files=tuple(_file(patch) for patch in patches), diff=diff)


_CRLF_HEADER = re.compile(r"^(?:@@|\+\+\+) .*\r$", re.MULTILINE)


def _with_plain_line_ends(text: str) -> str:
    """Undo a CRLF conversion of the whole diff; CRLF files inside a plain diff keep their line ends."""
    text = text.removeprefix("\ufeff")
    if _CRLF_HEADER.search(text) and not re.search(r"^@@ [^\r\n]*\n", text, re.MULTILINE):
        return text.replace("\r\n", "\n")
    return text


_GIT_HEADER = re.compile(r"diff --git \"?a/[^\t]+ \"?b/[^\t]")
_JOINS_MAX = 20


def _check_headers(lines: list[str]) -> None:
    """Refuse headers that no program writes: the parser's own expressions would take hours for some of them."""
    for number, line in enumerate(lines, 1):
        if line.startswith("diff --git "):
            two_addresses = line.count("://") == 2 and line.count(" ") == 3
            odd = "://" in line and not two_addresses and _GIT_HEADER.match(line) is None
        else:
            odd = line.startswith("Binary file") and line.count(" and ") > _JOINS_MAX
        if odd:
            raise _unreadable(f"line {number} is no header that can be read")


def _parse(diff: str) -> PatchSet:
    try:
        return PatchSet.from_string(diff)
    except (UnidiffParseError, ValueError) as error:
        raise _unreadable(str(error).strip()[:200]) from error


def _unreadable(reason: str) -> CallError:
    return CallError.of(Category.VALIDATION, "DIFF_UNREADABLE", f"The diff cannot be read: {reason}.")


def _check_nothing_was_skipped(patches: PatchSet, lines: list[str]) -> None:
    """The parser takes what it does not know for commentary; refuse where that would hide a change."""
    starts = [patch.diff_line_no or 1 for patch in patches] + [len(lines) + 1]
    for patch, start, end in zip(patches, starts, starts[1:], strict=False):
        for hunk in patch:
            after = max((line.diff_line_no or 0 for line in hunk), default=0)
            while lines[after : after + 1] and lines[after][:1] in ("", "\\"):
                after += 1  # blank lines and the no-newline marker may follow a hunk
            if _continues(lines[after : after + 1]):
                raise _unreadable(f"line {after + 1} belongs to no hunk of '{patch.path}'")
        header = lines[start - 1 : end - 1]
        if not patch and not patch.is_binary_file and any(line.startswith("+++ ") for line in header):
            raise _unreadable(f"'{patch.path}' is announced but has no hunk (a combined or cut diff)")


def _continues(following: list[str]) -> bool:
    if not following or following[0][:1] not in ("+", "-", " "):
        return False
    # The signature of a mailed patch and the header of the next file also start with a dash.
    return not (following[0].rstrip() == "--" or following[0].startswith("--- "))


def _file(patch: PatchedFile) -> ChangedFile:
    hunks = tuple(_hunk(hunk) for hunk in patch)
    added = tuple(
        (line.new_no, line.text)
        for hunk in hunks
        for line in hunk.lines
        if line.kind == "+" and line.new_no is not None
    )
    old, new = _plain_path(patch.source_file), _plain_path(patch.target_file)
    return ChangedFile(
        path=new or old or "",
        old_path=old,
        added_lines=added,
        is_binary=patch.is_binary_file,
        is_new=patch.is_added_file or old is None,
        is_deleted=patch.is_removed_file or new is None,
        lacks_final_newline=_lacks_final_newline(patch),
        mode=patch.target_mode,
        hunks=hunks,
    )


def _hunk(hunk: PatchHunk) -> Hunk:
    lines = tuple(
        DiffLine(line.line_type or " ", line.value.removesuffix("\n"), line.source_line_no, line.target_line_no)
        for line in hunk
        if line.line_type in ("+", "-", " ")
    )
    return Hunk(str(hunk).partition("\n")[0], lines)


def _lacks_final_newline(patch: PatchedFile) -> bool:
    """True when the new side ends without a newline by this change: the marker follows an added line."""
    for hunk in patch:
        for line, marker in pairwise(hunk):
            if marker.line_type == "\\" and line.is_added:
                return True
    return False


_ESCAPE = re.compile(r'\\(?:([0-7]{3})|([abtnvfr"\\]))')
_ESCAPED = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}


def _plain_path(name: str) -> str | None:
    """A header's name without quotes and side prefix; None for the absent side."""
    name = name.rstrip("\r")
    if len(name) > 1 and name.startswith('"') and name.endswith('"'):
        name = _unquoted(name[1:-1])
    if name == "/dev/null":
        return None
    return name[2:] if re.match(r"[abciow12]/", name) else name


def _unquoted(name: str) -> str:
    """Undo git's C-style quoting, whose octal escapes are bytes of UTF-8."""
    out = bytearray()
    end = 0
    for match in _ESCAPE.finditer(name):
        out += name[end : match.start()].encode("utf-8", "replace")
        out.append(int(match[1], 8) & 0xFF if match[1] else _ESCAPED[match[2]])
        end = match.end()
    out += name[end:].encode("utf-8", "replace")
    return out.decode("utf-8", "replace")
