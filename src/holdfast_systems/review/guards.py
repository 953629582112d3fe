"""What a change takes away: an early exit on a missing value, a narrow `except`, tests that go with their code.

A linter sees only what is there. These remarks are few by design: a guard counts as removed only where little else
changed around it, its condition stands nowhere in the change's new lines, and what it checked is still read below it.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import PurePosixPath

from holdfast_systems.review.changelist import ChangedFile, Changelist, DiffLine, Hunk
from holdfast_systems.review.findings import Finding
from holdfast_systems.review.path_kinds import is_test, path_kind

CRITIC = "guards"
_GUARD = re.compile(
    r"^\s*+(?:}?\s*+else\s++)?(?:if|elif|unless)\b(?P<condition>.*"
    r"(?:is (?:not )?None|[!=]==? ?(?:null|undefined|nil|None)|\bnot \w|!\w|\blen\(|\.length\b|[<>]=? ?\w).*)$"
)
_EXIT = re.compile(r"^\s*(?:return|raise|throw|continue|break|panic|abort|assert)\b")
_INLINE_EXIT = re.compile(r"[:{)]\s*(?:return|raise|throw|continue|break)\b")
_ANSWER = re.compile(r"\breturn\s+(?!(?:None|null|undefined|nil|[Tt]rue|[Ff]alse|\d+)\b)(?P<value>\S.*)", re.DOTALL)
_ENDS = string.whitespace + ";"
_NARROW = re.compile(r"^\s*except\s+\(?(?!Exception\b|BaseException\b)[\w.]+")
_WIDE = re.compile(r"^\s*except(?:\s*:|\s+\(?(?:Exception|BaseException)\b)")
_BOUND = re.compile(r"\bas (\w+)\s*:")
_RAISE = re.compile(r"^\s*raise\b")
_TEST_NAME = re.compile(
    r"^\s*(?:async )?(?:def (test_(?!suite\b)\w+)|func (Test\w+)|(?:[a-z]\w{0,7}\.)?(?:it|test)\(\s*['\"`](.+?)['\"`])"
)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_DRESS = re.compile(r"[\s'\"`()]+")
_COMMENT = re.compile(r"\s(?:#|//) .*$")
_CONDITION = re.compile(r"^\s*+(?:}?\s*+else\s++)?(?:if|elif|unless)\b")
_SIGNATURE = re.compile(
    r"^\s*+(?:async )?(?:def|function|func)\b|^\s*+(?!(?:if|for|while|switch|catch)\b)[\w ]++\(.*\)\s*+\{$"
)
_FUNCTION = re.compile(r"^\s*(?:export |async |public |private |static )*(?:def|function|func|class)\b|.*=> {$")
_JOINT = re.compile(r"\s(?:and|or|&&|\|\|)\s")
_PART_MIN = 10
# What a condition asks about, with its owner: `self.rows`, `request.host`; not the words it asks with.
_NAME = re.compile(r"(?<![\w.'\"])[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*")
_ASKING = re.compile(
    r"(?:if|elif|else|unless|and|or|not|is|in|None|True|False|null|undefined|nil|true|false|typeof|instanceof"
    r"|len|isinstance|hasattr|getattr|str|int|float|bool|any|all|self|this|new)"
)
_WHOLE_FILES_MAX = 2
_AROUND_MAX = 4  # more new lines than this in one place are a rewrite, not a removal


def removed_guards(changelist: Changelist) -> Iterator[Finding]:
    """The remarks on what is gone."""
    new = {_plain(text) for file in changelist.files for _, text in file.added_lines}
    for file in changelist.files:
        if file.is_binary or path_kind(file.path) == "foreign":
            continue
        if not file.is_deleted and not is_test(file.path):
            for hunk in file.hunks:
                yield from _guards(file, hunk, new)
                yield from _widened(file, hunk)
    yield from _tests(changelist)


def _plain(text: str) -> str:
    """Without what a formatter changes: spaces, kinds of quotes, brackets round a condition; and without a comment."""
    return _DRESS.sub("", _COMMENT.sub("", text)).rstrip("{:")


def _guards(file: ChangedFile, hunk: Hunk, new: set[str]) -> Iterator[Finding]:
    signatures = [
        line.text for each in file.hunks for line in each.lines if line.kind == "+" and _SIGNATURE.match(line.text)
    ]
    reworded = any(line.kind == "+" and _CONDITION.match(line.text) for line in hunk.lines)
    for gone, added in _places(hunk.lines):
        if len(added) > _AROUND_MAX or len(gone) > 6:
            continue
        for index, line in enumerate(gone):
            match = _GUARD.match(line.text)
            if match is None or _stands(match["condition"], new):
                continue
            if reworded:
                continue  # it may be: only a reader of meaning can say
            if not _is_still_read(match["condition"], line, hunk, signatures):
                continue
            following = gone[index + 1].text if index + 1 < len(gone) else ""
            if _is_kept(following, new) or any(_FUNCTION.match(other.text) for other in gone[:index]):
                continue  # it leaves by the same words elsewhere, or its whole function is gone
            if _is_answered(line.text if _INLINE_EXIT.search(line.text) else following, line, hunk):
                continue
            if _EXIT.match(following) or _INLINE_EXIT.search(line.text):
                message = (
                    f"A check that left early (line {line.old_no} before the change) is gone, and nothing replaces it."
                )
                yield _finding(file, added, "warning", "removed-guard", message)


def _stands(condition: str, new: set[str]) -> bool:
    """Whether a condition, or a part of it that says something of its own, is asked in the new lines."""
    whole, *parts = (_plain(part) for part in (condition, *_JOINT.split(condition)))
    asked = [whole, *(part for part in parts if len(part) > _PART_MIN)]
    return any(part in text for part in asked for text in new)


def _is_still_read(condition: str, guard: DiffLine, hunk: Hunk, signatures: Iterable[str]) -> bool:
    """Whether what was checked is read in the lines that follow, and comes from where it came from before: no changed
    line gives it another value, and no function that takes it was declared anew."""
    at = next(index for index, line in enumerate(hunk.lines) if line is guard)
    following = [line.text for line in hunk.lines[at + 1 :] if line.kind != "-"]
    changed = [line.text for line in hunk.lines if line.kind != " "]
    asked = _INLINE_EXIT.split(_QUOTED.sub("", condition))[0]
    names = {name for name in _NAME.findall(asked) if not _ASKING.fullmatch(name)}
    for name in sorted(names):
        read = re.compile(rf"(?:(?<![\w$.])|(?<=\.\.\.)){re.escape(name)}(?![\w$])")
        held = _held_in(name)
        given = re.compile(rf"(?<![\w$.])(?:{held})(?:\s*:[^=]+)?\s*:?=(?!=)|\b(?:for|as)\s+(?:{held})\b")
        taken = any(re.search(rf"\b{re.escape(name)}\b", signature) for signature in signatures)
        if any(map(read.search, following)) and not taken and not any(map(given.search, changed)):
            return True
    return False


def _held_in(name: str) -> str:
    """A pattern of a name and of its owners: who gives one of them another value gives one to all that it holds."""
    parts = name.split(".")
    return "|".join(re.escape(".".join(parts[: count + 1])) for count in range(len(parts)))


def _is_answered(leaving: str, guard: DiffLine, hunk: Hunk) -> bool:
    """Whether what the guard answered with stands in the lines that follow: they may come to the same answer."""
    match = _ANSWER.search(leaving.rstrip(_ENDS).rpartition(";")[2])
    if match is None:
        return False
    at = next(index for index, line in enumerate(hunk.lines) if line is guard)
    return any(match["value"] in line.text for line in hunk.lines[at + 1 :] if line.kind != "-")


def _is_kept(leaving: str, new: set[str]) -> bool:
    """Whether the way out, if it says something of its own, stands in the new lines."""
    return len(leaving.strip()) > 15 and _plain(leaving) in new


def _widened(file: ChangedFile, hunk: Hunk) -> Iterator[Finding]:
    for gone, added in _places(hunk.lines):
        wide = [line for line in added if _WIDE.match(line.text) and not _is_explained(line, hunk)]
        if (
            wide
            and any(_NARROW.match(line.text) for line in gone)
            and not any(_NARROW.match(line.text) for line in added)
        ):
            message = "This catches more than before: errors that nobody expected will be taken for expected ones."
            yield Finding(file.path, wide[0].new_no or 0, "warning", "widened-except", message, CRITIC)


def _is_explained(wide: DiffLine, hunk: Hunk) -> bool:
    """Whether a handler begins with a comment, lets the error go on, or keeps it: who widened it knew."""
    lines = [line.text for line in hunk.lines if line.kind != "-"]
    after = lines[lines.index(wide.text) + 1 :]
    handler = list(takewhile(lambda text: _indent(text) > _indent(wide.text), after))
    bound = _BOUND.search(wide.text)
    kept = re.compile(rf"=\s*{bound[1]}\s*$|set_exception\({bound[1]}\b") if bound else _RAISE
    return bool(handler) and (
        handler[0].lstrip().startswith("#") or any(_RAISE.match(text) or kept.search(text) for text in handler)
    )


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _places(lines: Iterable[DiffLine]) -> Iterator[tuple[list[DiffLine], list[DiffLine]]]:
    """What goes and what comes, between two lines that stay."""
    gone: list[DiffLine] = []
    added: list[DiffLine] = []
    for line in lines:
        if line.kind == " ":
            if gone:
                yield gone, added
            gone, added = [], []
        else:
            (gone if line.kind == "-" else added).append(line)
    if gone:
        yield gone, added


def _tests(changelist: Changelist) -> Iterator[Finding]:
    """Tests that are gone while the code they may have held is changed in the same change."""
    if not any(not is_test(file.path) and path_kind(file.path) == "product" for file in changelist.files):
        return
    kept = {name for file in changelist.files for _, text in file.added_lines if (name := _test_name(text))}
    without: dict[str, int] = {}
    whole = [file for file in changelist.files if is_test(file.path) and file.is_deleted]
    subjects = {_stem(file.path) for file in changelist.files if file.is_deleted and not is_test(file.path)}
    for file in changelist.files:
        if not is_test(file.path) or _stem(file.path) in subjects or path_kind(file.path) == "foreign":
            continue
        if file in whole and len(whole) > _WHOLE_FILES_MAX:
            continue  # a suite that goes elsewhere
        lines = [line for hunk in file.hunks for line in hunk.lines if line.kind == "-"]
        gone = {name for line in lines if (name := _test_name(line.text))} - kept
        renamed = {name for _, text in file.added_lines if (name := _test_name(text))}
        if len(gone) > len(renamed) and not file.is_new:
            without[file.path] = len(gone)
    if without:
        tests = f"{sum(without.values())} test{'' if sum(without.values()) == 1 else 's'}"
        files = f" of {len(without)} files" if len(without) > 1 else ""
        message = f"{tests}{files} went with this change: what held the old behaviour holds the new one no more."
        yield Finding(next(iter(without)), 0, "info", "removed-tests", message, CRITIC)


def _stem(path: str) -> str:
    """The name of a module, and of what tests it."""
    name = PurePosixPath(path).name.partition(".")[0]
    return name.removeprefix("test_").removesuffix("_test")


def _test_name(text: str) -> str:
    match = _TEST_NAME.match(text)
    return next((name for name in match.groups() if name), "") if match else ""


def _finding(file: ChangedFile, added: list[DiffLine], severity: str, rule: str, message: str) -> Finding:
    line = added[0].new_no or 0 if added else 0
    return Finding(file.path, line, "warning" if severity == "warning" else "info", rule, message, CRITIC)
