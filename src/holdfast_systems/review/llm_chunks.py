"""Cuts a change into prompts: redacted first, numbered second, split last.

The order matters. Redaction sees whole files, so that a key spread over lines or hunks is still one key; the
line numbers come after it, so that they break no pattern; the split comes last, so that no cut leaves half a
secret unrecognised. A line is sent only if it stands in the redacted text: what cannot be matched is masked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from holdfast import CallError, Category
from holdfast.kit.redaction import MASK, redact_text
from holdfast_systems.review.changelist import ChangedFile, Changelist, DiffLine

Redact = Callable[[str], str]
CHARS_PER_TOKEN = 4
LINE_CHARS_MAX = 1_000
CHUNKS_MAX = 40


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a change that fits one prompt. `paths` maps what the model sees to the real path."""

    text: str
    paths: tuple[tuple[str, str], ...]


def estimated_tokens(text: str) -> int:
    """Four characters a token: near enough for a budget, and it needs no vocabulary."""
    return len(text) // CHARS_PER_TOKEN + 1


def plan_chunks(
    changelist: Changelist, *, tokens_max: int, chunks_max: int = CHUNKS_MAX, redact: Redact = redact_text
) -> tuple[Chunk, ...]:
    """The prompts of a change, each within `tokens_max`: whole files together, else hunks, else lines."""
    chars_max = tokens_max * CHARS_PER_TOKEN
    parts = [
        part for file in changelist.files if file.is_text and file.hunks for part in _parts_of(file, chars_max, redact)
    ]
    chunks = tuple(_packed(parts, chars_max))
    if len(chunks) > chunks_max:
        message = f"The change needs {len(chunks)} prompts, the limit is {chunks_max}; take smaller ranges."
        raise CallError.of(Category.VALIDATION, "DIFF_TOO_LARGE", message)
    return chunks


def safely(redact: Redact, text: str) -> str:
    """The redacted text, or an error that keeps everything here."""
    try:
        return redact(text)
    except Exception as error:  # whatever went wrong, nothing unredacted may leave
        message = "A text could not be redacted, so nothing was sent."
        raise CallError.of(Category.BUG, "REDACTION_FAILED", message) from error


@dataclass(frozen=True, slots=True)
class _Part:
    shown_path: str
    path: str
    text: str


def _parts_of(file: ChangedFile, chars_max: int, redact: Redact) -> Iterator[_Part]:
    """The file as one part if it fits, else its hunks, else pieces of them."""
    shown = safely(redact, file.path)
    state = "new file" if file.is_new else "renamed" if file.is_rename else "changed"
    head = f"FILE {shown} ({state})\n"
    hunks = _numbered(file, redact)
    room = max(chars_max - len(head), LINE_CHARS_MAX * 2)
    if sum(map(len, hunks)) <= room:
        yield _Part(shown, file.path, head + "".join(hunks))
        return
    for hunk in hunks:
        for piece in _pieces(hunk, room):
            yield _Part(shown, file.path, head + piece)


def _pieces(text: str, chars_max: int) -> Iterator[str]:
    piece: list[str] = []
    size = 0
    for line in text.splitlines(keepends=True):
        if piece and size + len(line) > chars_max:
            yield "".join(piece)
            piece, size = [], 0
        piece.append(line)
        size += len(line)
    if piece:
        yield "".join(piece)


def _packed(parts: Sequence[_Part], chars_max: int) -> Iterator[Chunk]:
    group: list[_Part] = []
    for part in parts:
        if group and sum(len(each.text) for each in group) + len(part.text) > chars_max:
            yield _chunk(group)
            group = []
        group.append(part)
    if group:
        yield _chunk(group)


def _chunk(group: Sequence[_Part]) -> Chunk:
    paths = tuple(sorted({(part.shown_path, part.path) for part in group}))
    return Chunk("\n".join(part.text for part in group), paths)


def _numbered(file: ChangedFile, redact: Redact) -> list[str]:
    """Each hunk as lines 'number sign text', with nothing in the text that redaction took out."""
    lines = [line for hunk in file.hunks for line in hunk.lines]
    new = _clean_side(lines, "-", redact)
    old = _clean_side(lines, "+", redact)
    clean = [_safer(new.get(index), old.get(index)) for index in range(len(lines))]
    out: list[str] = []
    start = 0
    for hunk in file.hunks:
        texts = clean[start : start + len(hunk.lines)]
        start += len(hunk.lines)
        out.append("".join(map(_shown, hunk.lines, texts)) + "    ...\n")
    return out


def _shown(line: DiffLine, text: str) -> str:
    number = "" if line.new_no is None else str(line.new_no)
    # One visible line each: a stray carriage return or separator must not look like a line of ours.
    flat = re.sub(r"[\x00-\x08\x0a-\x1f\x85\u2028\u2029]", " ", text)[:LINE_CHARS_MAX]
    return f"{number:>6} {line.kind} {flat}\n"


def _clean_side(lines: Sequence[DiffLine], other: str, redact: Redact) -> dict[int, str]:
    """Index -> redacted text, for the lines on one side of the change."""
    indexes = [index for index, line in enumerate(lines) if line.kind != other]
    before = [lines[index].text for index in indexes]
    after = _aligned(before, safely(redact, "\n".join(before)).split("\n"))
    return dict(zip(indexes, _without_key_material(after), strict=True))


def _safer(new: str | None, old: str | None) -> str:
    """A context line is on both sides; it is masked if either side masks it."""
    if new is None or old is None:
        return new if new is not None else (old or "")
    return new if new == old else MASK


def _aligned(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """One text for each line of `before`, taken from `after` only.

    A masked line of `after` may stand for several lines; they are masked up to the next line that is found
    again. Where nothing is found again the rest is masked.
    """
    if len(before) == len(after):
        return list(after)
    out: list[str] = []
    at = 0
    while len(out) < len(before):
        if at < len(after) and before[len(out)] == after[at]:
            out.append(after[at])
            at += 1
            continue
        while at < len(after) and MASK in after[at]:
            at += 1
        anchor = after[at] if at < len(after) else None
        end = next((n for n in range(len(out) + 1, len(before)) if before[n] == anchor), len(before))
        out += [MASK] * (end - len(out))
    return out


_KEY_MATERIAL = re.compile(r"\s*[A-Za-z0-9+/]{40,}={0,2}\s*")
_KEY_TAIL = re.compile(r"\s*[A-Za-z0-9+/]+={0,2}\s*")


def _without_key_material(lines: Sequence[str]) -> list[str]:
    """Mask bare base64: the middle of a key whose first and last lines lie outside the diff."""
    out: list[str] = []
    inside = False
    for line in lines:
        is_material = _KEY_MATERIAL.fullmatch(line) is not None
        is_tail = inside and _KEY_TAIL.fullmatch(line) is not None
        out.append(MASK if is_material or is_tail else line)
        inside = is_material
    return out
