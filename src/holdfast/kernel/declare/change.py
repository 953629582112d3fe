"""Whether a value is the same when a worker has read it: a difference that nobody is told of is found much later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

from pydantic import BaseModel

SCALARS = (str, int, float, type(None))


def change(value: object, again: object, *, is_stable: bool, where: str = "") -> str | None:
    """The first part of a value that was not read `again` as it was, in words; None if there is none. A tuple may
    come back as a list. `is_stable`: what was read is written with the same text, so that its type rounds it by a rule
    of its own (a time to the millisecond), once."""
    if _equal(value, again):
        return None
    here = where or "the value"
    parts = _pairs(value, again)
    if parts is not None:
        problems = (
            change(
                mine,
                theirs,
                is_stable=is_stable and not _is_left_out(value, name),
                where=f"{where}.{name}" if where else name,
            )
            for name, mine, theirs in parts
        )
        return next(filter(None, problems), None)
    if isinstance(value, Mapping) and isinstance(again, Mapping):
        odd = next((key for key in value if key not in again), None)
        return f"{here}: its key {odd!r} is a {type(odd).__name__}, and would be read again as a text; declare its type"
    if (isinstance(again, SCALARS) and not isinstance(value, type(again))) or _is_other_scalar(value, again):
        kinds = f"it is a {type(value).__name__}, and would be read again as a {type(again).__name__}"
        return f"{here}: {kinds}; declare its type"
    if type(value) is not type(again) and (is_dataclass(again) or isinstance(again, BaseModel | list | dict)):
        way_out = "; declare its type" if isinstance(again, dict) else ""
        return f"{here}: it is a {type(value).__name__}, and would be read again as a {type(again).__name__}{way_out}"
    is_rounded = is_stable and not hasattr(value, "get_secret_value")  # stars in place of a secret are no rounding
    if is_rounded or type(value).__eq__ is object.__eq__:  # of the latter nobody can say
        return None
    return f"{here}: it would be another value when it is read again; its type must take what it has written"


def _is_other_scalar(value: object, again: object) -> bool:
    """Whether a plain value of a union would come back as another member of it."""
    return type(value) in SCALARS and not isinstance(again, type(value))


def _is_left_out(value: object, name: str) -> bool:
    """Whether a field is not written at all, so that what was read is its default and no rounding."""
    fields = getattr(type(value), "model_fields", None) or getattr(type(value), "__pydantic_fields__", {})
    return bool(getattr(fields.get(name), "exclude", False))


def _equal(value: object, again: object) -> bool:
    try:
        return bool(value == again)
    except Exception:  # a comparison of theirs, which may raise what it likes
        return False


def _pairs(value: Any, again: Any) -> list[tuple[str, object, object]] | None:
    """What lies in both, by name; None where they are not of one shape."""
    if isinstance(value, list | tuple) and isinstance(again, list | tuple) and len(value) == len(again):
        return [(str(place), *both) for place, both in enumerate(zip(value, again, strict=True))]
    if isinstance(value, Mapping) and isinstance(again, Mapping) and value.keys() == again.keys():
        return [(str(name), part, again[name]) for name, part in value.items()]
    mine, theirs = _fields(value), _fields(again)
    if mine is None or theirs is None or mine.keys() != theirs.keys() or not isinstance(value, type(again)):
        return None
    return [(name, part, theirs[name]) for name, part in mine.items()]


def _fields(value: object) -> dict[str, object] | None:
    if isinstance(value, BaseModel):
        return {**value.__dict__, **(value.__pydantic_extra__ or {})}
    if is_dataclass(value):
        return {name: getattr(value, name, None) for name in value.__dataclass_fields__}
    return None
