"""Whether a value can be stored as JSON and read again: checked at the door, because a worker is too late to refuse.

Pydantic takes an instance of a class as it is, writes NaN as null, and may write what it cannot read. So what was
written is read once more, unless the type is made of plain parts only, for which nothing of this can happen.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import fields as fields_of
from dataclasses import is_dataclass
from decimal import Decimal
from io import IOBase
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from holdfast.kernel.declare.change import change

PLAIN = frozenset(
    {
        "bool",
        "date",
        "datetime",
        "default",
        "dict",
        "float",
        "int",
        "list",
        "literal",
        "none",
        "nullable",
        "str",
        "time",
    }
    | {"timedelta", "tuple", "uuid"}
)
KEYS = frozenset({"date", "datetime", "int", "literal", "str", "uuid"})
LONG = 4_000
"""A text of this length may hold an integer with more digits than a reader takes."""
DEPTH_MAX = 100


def is_plain(adapter: TypeAdapter[Any]) -> bool:
    """Whether every value that the type takes can be written and read again. Decided once, at declaration."""
    return _plain(adapter.core_schema)


def read_back(adapter: TypeAdapter[Any], plain: bool, value: object, text: str, *, exact: bool = False) -> str | None:
    """What is wrong with a value that was written as `text`; None if a worker can read it, `exact`: as it was."""
    if "null" in text or "NaN" in text or "Infinity" in text:
        problem = unwritable(value)
        if problem is not None:
            return problem
    if plain and len(text) < LONG:
        return None
    try:
        again = read_json(adapter, text)
    except ValidationError as error:
        return f"{first_problem(error)} (when it is read again, as a worker does)"
    if not exact:
        return None
    return change(value, again, is_stable=adapter.serializer.to_json(again, warnings=False).decode() == text)


def read_json(adapter: TypeAdapter[Any], text: str | bytes) -> Any:
    """A stored value. Its fields are stored under their own names, whatever aliases they have."""
    return adapter.validator.validate_json(text, by_alias=True, by_name=True)


def unwritable(value: object) -> str | None:
    """The first part of a value that JSON has no word for, with its place: a number that is none, half a character."""
    return _unwritable(value, "", 0)


def why_unwritable(value: object, error: Exception) -> str:
    """What to say of a value that could not be written as JSON."""
    why = unwritable(value) or str(error).splitlines()[0]
    if "utf-8" in why:
        return "it holds bytes that are no text; declare pydantic's Base64Bytes, or store them elsewhere"
    return why


def first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the value"
    why = first["msg"].partition("\n")[0].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return f"{where}: {why}"


def missing_await(value: object) -> str | None:
    """What to say of a value that should have been awaited, or that can be read only once."""
    if inspect.isawaitable(value):
        return f"it is a {type(value).__name__}: an `await` is missing"
    if isinstance(value, IOBase):
        return f"it is a {type(value).__name__}, an open file; read it, or pass its path"
    return None


def _plain(schema: Any) -> bool:
    if isinstance(schema, Mapping):
        kind = schema.get("type")
        if isinstance(kind, str) and (kind not in PLAIN or not _names_parts(kind, schema)):
            return False
        if kind == "literal" and not all(type(each) in (str, int, bool) for each in schema["expected"]):
            return False  # an Enum's member is written as its value, and not read as one
        return all(_plain(part) for name, part in schema.items() if name not in ("metadata", "default", "expected"))
    return all(map(_plain, schema)) if isinstance(schema, list | tuple) else True


def _names_parts(kind: str, schema: Mapping[str, Any]) -> bool:
    """Whether a container says what it holds, and under which keys: JSON's are texts."""
    if kind == "dict":
        return "values_schema" in schema and schema.get("keys_schema", {}).get("type") in KEYS
    return kind != "list" or "items_schema" in schema


def _unwritable(value: object, where: str, depth: int) -> str | None:
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        return f"{where or 'the value'}: {value} is not a number that JSON can hold"
    if isinstance(value, str) and not value.isascii() and _has_surrogate(value):
        return f"{where or 'the value'}: it holds half of a character (a lone surrogate)"
    if depth >= DEPTH_MAX:
        return None  # deeper than any reader goes: reading it again refuses it
    for name, part in _parts(value):
        problem = _unwritable(part, f"{where}.{name}" if where else str(name), depth + 1)
        if problem is not None:
            return problem
    return None


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _parts(value: object) -> list[tuple[object, object]]:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return list(enumerate(value))
    if isinstance(value, BaseModel):
        return [*value.__dict__.items(), *(value.__pydantic_extra__ or {}).items()]
    if is_dataclass(value) and not isinstance(value, type):
        return [(each.name, getattr(value, each.name, None)) for each in fields_of(value)]
    return []


def takes_none(adapter: TypeAdapter[Any]) -> bool:
    """Whether None is a value of the type."""
    try:
        adapter.validate_python(None)
    except ValidationError:
        return False
    return True


def misfit(adapter: TypeAdapter[Any], value: object, error: Exception) -> str:
    """The type that came, and the field that does not fit."""
    try:
        adapter.validator.validate_python(value)
    except ValidationError as problem:
        return f"it is a {type(value).__name__}; {first_problem(problem)}"
    return f"it is a {type(value).__name__}; {why_unwritable(value, error)}"
