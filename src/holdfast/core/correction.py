"""Corrections of a job's input: fields by their paths, the difference of two inputs, and where a replay must begin.

A path is `field`, `field.inner` or `list.2.inner`. Everything here is pure and works on plain JSON values.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from holdfast.core.redact import MASK, redact

ABSENT = "(absent)"
Path = tuple[str | int, ...]


class BadPath(ValueError):
    """A path leads through nothing that is there."""


class FieldChange(NamedTuple):
    """One value that differs between two inputs, with secrets masked."""

    path: str
    before: Any
    after: Any


class StageInput(NamedTuple):
    """A stage and the fields of the input that it reads; None: any of them."""

    name: str
    reads: frozenset[str] | None


def with_values(document: Any, values: Mapping[str, Any]) -> Any:
    """A copy of the document with these values at these paths. A path must lead through what is there."""
    changed = deepcopy(document)
    for path, value in values.items():
        changed = _with_value(changed, path, value)
    return changed


def _with_value(document: Any, path: str, value: Any) -> Any:
    parts = path.split(".")
    if not all(parts):
        raise BadPath(f"'{path}' is not a path; write field, field.inner or list.0.inner.")
    place = document
    for number, part in enumerate(parts[:-1]):
        place = _child(place, part, ".".join(parts[: number + 1]))
    last = parts[-1]
    if isinstance(place, dict):
        place[last] = value
    elif isinstance(place, list) and _is_index(last, len(place) + 1):
        place[int(last) : int(last) + 1] = [value]
    else:
        raise BadPath(f"'{path}' leads nowhere: what holds '{last}' is {_noun(place)}.")
    return document


def _child(place: Any, part: str, path: str) -> Any:
    if isinstance(place, dict) and part in place:
        return place[part]
    if isinstance(place, list) and _is_index(part, len(place)):
        return place[int(part)]
    raise BadPath(f"The input has no '{path}'.")


def _is_index(part: str, length: int) -> bool:
    return part.isdecimal() and int(part) < length


def _noun(value: Any) -> str:
    return f"a list of {len(value)}" if isinstance(value, list) else "a plain value"


def value_of_text(document: Any, path: str, text: str) -> Any:
    """What a person means who types `path=text`: text where text stands or nothing does, else JSON if it is that."""
    try:
        present = _at(document, tuple(path.split(".")))
    except LookupError:
        present = None
    wants_text = isinstance(present, str) or (present is None and text[:1] not in ("{", "["))
    if wants_text:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def keep_masked(given: Any, original: Any) -> Any:
    """What was given, with every value that came back as it is shown, masked, as it really is."""
    return _unmasked(given, redact(original, emails=False), original)


def _unmasked(given: Any, shown: Any, original: Any) -> Any:
    if given == shown:
        return original
    if isinstance(given, dict) and isinstance(shown, dict) and isinstance(original, dict):
        return {
            key: _unmasked(value, shown[key], original[key]) if key in shown and key in original else value
            for key, value in given.items()
        }
    if isinstance(given, list) and isinstance(shown, list) and isinstance(original, list):
        known = list(zip(given, shown, original, strict=False))
        return [*(_unmasked(*each) for each in known), *given[len(known) :]]
    return given


def unknown_field(given: Any, accepted: Any, original: Any) -> str | None:
    """The path of a field that was given, that the kind's type has dropped, and that was not there before."""
    for path in _paths(given):
        if not _has(accepted, path) and not _has(original, path):
            return ".".join(map(str, path))
    return None


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of all fields; the elements of lists are not fields, but what is in them is looked at."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _paths(inner, (*path, number))


def changes(before: Any, after: Any) -> list[FieldChange]:
    """What differs, in the order of the fields; secrets are masked, addresses are not: they may be what is wrong."""
    shown_before, shown_after = redact(before, emails=False), redact(after, emails=False)
    return [
        FieldChange(
            ".".join(map(str, path)) or "(the input)",
            _shown(before, shown_before, path),
            _shown(after, shown_after, path),
        )
        for path in _differing(before, after, ())
    ]


def _differing(before: Any, after: Any, path: Path) -> Iterator[Path]:
    if is_same(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            if key in before and key in after:
                yield from _differing(before[key], after[key], (*path, key))
            else:
                yield (*path, key)
    elif isinstance(before, list) and isinstance(after, list):
        for number in range(max(len(before), len(after))):
            if number < len(before) and number < len(after):
                yield from _differing(before[number], after[number], (*path, number))
            else:
                yield (*path, number)
    else:
        yield path


def is_same(before: Any, after: Any) -> bool:
    """Whether two inputs are the same JSON; `1`, `1.0` and `true` are three different values."""
    return json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True)


def _shown(raw: Any, shown: Any, path: Path) -> Any:
    if not _has(raw, path):
        return ABSENT
    return _at(shown, path) if _has(shown, path) else MASK


def _has(value: Any, path: Path) -> bool:
    try:
        _at(value, path)
    except LookupError:
        return False
    return True


def _at(value: Any, path: Path) -> Any:
    for part in path:
        if isinstance(value, list) and str(part).isdecimal():
            value = value[int(part)]
        elif isinstance(value, dict):
            value = value[part]
        else:
            raise KeyError(part)
    return value


def changed_fields(before: Any, after: Any) -> frozenset[str]:
    """The outermost fields that differ."""
    return frozenset(str(path[0]) if path else "" for path in _differing(before, after, ()))


def replay_start(stages: Sequence[StageInput], failed: str, changed: frozenset[str]) -> str:
    """The stage a replay begins with: the first one up to the failed stage whose input is another one now.

    A stage that does not say what it reads may have read anything. Of a stage that the kind no longer has, nothing is
    known: then everything runs again."""
    names = [stage.name for stage in stages]
    if failed not in names:
        return names[0]
    for stage in stages[: names.index(failed)]:
        if changed and (stage.reads is None or "" in changed or stage.reads & changed):
            return stage.name
    return failed
