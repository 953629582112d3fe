"""Arguments of a declaration that are of another type than it says, refused where it is made.

Judged are texts, numbers, mappings and lists of texts; what is none of these has its own sentence in `declaring`.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, wraps
from inspect import Signature, signature
from numbers import Integral, Real
from types import NoneType
from typing import Any, ParamSpec, TypeVar

from holdfast.errors import BadDeclaration
from holdfast.kernel.declare.types import members_of

P = ParamSpec("P")
T = TypeVar("T")
WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "True or False", NoneType: "None"}


def checks_types(declare: Callable[P, T]) -> Callable[P, T]:
    """Refuse arguments that are plainly of another type than their annotation."""

    @wraps(declare)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        shape, hints = _shape(declare)
        try:
            given = shape.bind(*args, **kwargs).arguments
        except TypeError:
            return declare(*args, **kwargs)  # which says what is wrong
        for name, value in given.items():
            if name in hints and not _fits(value, hints[name]):
                raise BadDeclaration(f"{declare.__qualname__}() takes {name} as {_spell(hints[name])}, not {value!r}.")
        return declare(*args, **kwargs)

    return call


@lru_cache
def _shape(declare: Callable[..., Any]) -> tuple[Signature, dict[str, Any]]:
    shape = signature(declare)
    by_name = {each.name for each in shape.parameters.values() if each.kind is not each.POSITIONAL_ONLY}
    return shape, {name: hint for name, hint in typing.get_type_hints(declare).items() if name in by_name}


def _fits(value: object, hint: Any) -> bool:
    return any(_is_a(value, member) for member in members_of(hint))


def _is_a(value: object, member: Any) -> bool:
    kind = typing.get_origin(member) or member
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    if kind is Sequence:
        return isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if kind in (str, bool, NoneType, Mapping):
        return isinstance(value, kind)
    return True


def _spell(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(map(repr, typing.get_args(hint)))
    return " or ".join(_word(member) for member in members_of(hint))


def _word(member: Any) -> str:
    kind = typing.get_origin(member) or member
    if kind is Sequence:
        return "a tuple, as ('name',)"
    return WORDS.get(kind, "a dictionary" if kind is Mapping else str(kind))
