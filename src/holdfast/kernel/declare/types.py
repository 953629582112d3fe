"""The types that a job class names: of its input, of its stages' parameters and of what they return."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from holdfast.errors import BadDeclaration


def declared_types(cls: type[Any]) -> tuple[Any, Any]:
    """The types of the input and of the result; the second is Any where the class says nothing of it."""
    given = _job_arguments(cls, {})
    if given is not None:
        takes, result = (*given, Any)[:2]
        if isinstance(takes, TypeVar):
            raise BadDeclaration(f"'{cls.__name__}' takes {takes}, which stands for any type: write Job[Order].")
        return takes, Any if isinstance(result, TypeVar) else result
    if not isinstance(cls, type):
        raise BadDeclaration(
            f"'{cls.__name__}' is a function; a job is a class: class {cls.__name__.title().replace('_', '')}"
            "(Job[YourInput]), with a method marked @stage()."
        )
    raise BadDeclaration(f"'{cls.__name__}' must say what it takes: class {cls.__name__}(Job[YourInput]).")


def _job_arguments(cls: Any, known: Mapping[Any, Any]) -> tuple[Any, ...] | None:
    """What stands in `Job[...]`, written by the class or by a generic base of it, whose variables are `known`."""
    bases = vars(cls).get("__orig_bases__") or getattr(cls, "__bases__", ())
    for base in bases:
        origin = typing.get_origin(base) or base
        arguments = tuple(_filled(each, known) for each in typing.get_args(base))
        if getattr(origin, "__name__", "") == "Job":
            return arguments or None
        if isinstance(origin, type):
            inherited = _job_arguments(
                origin, dict(zip(getattr(origin, "__parameters__", ()), arguments, strict=False))
            )
            if inherited is not None:
                return inherited
    return None


def _filled(argument: Any, known: Mapping[Any, Any]) -> Any:
    """A type with its variables replaced by what is known of them."""
    if isinstance(argument, TypeVar):
        return known.get(argument, argument)
    variables = getattr(argument, "__parameters__", ())
    return argument[tuple(known.get(each, each) for each in variables)] if variables else argument


def check_type(place: str, parameter: str, hints: dict[str, Any], given: Any, source: str) -> None:
    wanted = hints.get(parameter, Any)
    if not may_hold(wanted, given):
        raise BadDeclaration(
            f"The stage '{place}' takes '{parameter}' as {_spelled(wanted)}, but {source} {_spelled(given)}; "
            "make the two the same."
        )


def check_result(place: str, result: Any, stage: str, returns: Any) -> None:
    if not may_hold(result, returns):
        raise BadDeclaration(
            f"'{place}' is a Job that ends with {_spelled(result)}, but its last stage '{stage}' returns "
            f"{_spelled(returns)}; make the two the same."
        )


def _spelled(type_: Any) -> str:
    return type_.__name__ if isinstance(type_, type) else str(type_)


def may_hold(wanted: Any, given: Any) -> bool:
    """Whether a parameter of the type `wanted` may be given a value of the type `given`. False only if it never can:
    what is hard to judge is left to the type checker."""
    wanted_members, given_members = members_of(wanted), members_of(given)
    return any(_fits(each, value) for each in wanted_members for value in given_members)


def members_of(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of a type, each without its decoration."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated or isinstance(annotation, typing.NewType):
        return members_of(annotation.__origin__ if origin else annotation.__supertype__)
    if origin in (typing.Union, types.UnionType):
        return tuple(member for part in typing.get_args(annotation) for member in members_of(part))
    if origin is typing.Literal:
        return tuple(type(value) for value in typing.get_args(annotation))
    return (dict,) if typing.is_typeddict(annotation) else (annotation,)


def _fits(wanted: Any, given: Any) -> bool:
    wanted_class, given_class = typing.get_origin(wanted) or wanted, typing.get_origin(given) or given
    if Any in (wanted, given) or not isinstance(wanted_class, type) or not isinstance(given_class, type):
        return True
    if wanted_class is given_class:
        pairs = zip(typing.get_args(wanted), typing.get_args(given), strict=False)
        return all(may_hold(*pair) for pair in pairs)
    if wanted_class in (float, complex) and issubclass(given_class, int | float):
        return True
    try:
        return issubclass(given_class, wanted_class) or issubclass(wanted_class, given_class)
    except TypeError:  # a protocol, which has no instances to ask
        return True
