"""What a caller of a public function gives: values that could not work, and names that there are not, in a sentence.

Each function for a value says what is wrong as the end of a sentence, "must be ...", or None. A number that no column
holds is as wrong as one that is negative. `give_names` is put on what is public, where it is handed out, so that every
public call answers a misspelt keyword argument with the names that there are.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from enum import Enum
from functools import partial, wraps
from typing import Any, NoReturn, TypeVar, cast

from holdfast.core.failure import Category, Failure, failure

SECONDS_MAX = 100 * 365.25 * 86_400
COUNT_MAX = 2**31 - 1


class BadValue(ValueError):
    """A value that cannot work. In a handler it is a mistake that no retry fixes."""

    @property
    def failure(self) -> Failure:
        return failure(Category.BUG, "USAGE_ERROR", str(self))


def is_number(value: object) -> bool:
    """Whether it is one that can be reckoned with: neither True nor NaN nor infinity."""
    return math.isfinite(value) if isinstance(value, float) else type(value) is not bool and isinstance(value, int)


def seconds_problem(value: object, *, above_zero: bool = False) -> str | None:
    if is_number(value) and value > SECONDS_MAX:  # type: ignore[operator]
        return "must be at most a hundred years"
    if is_number(value) and (value > 0 if above_zero else value >= 0):  # type: ignore[operator]
        return None
    return f"must be a number of seconds {'above 0' if above_zero else 'of 0 or more'}"


def count_problem(value: object) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        return "must be a whole number of 1 or more"
    return None if value <= COUNT_MAX else f"must be at most {COUNT_MAX}"


def flag_problem(value: object) -> str | None:
    return None if isinstance(value, bool) else "must be True or False"


def is_storable(text: str) -> bool:
    """Whether both databases hold it as it is: a NUL and half of a character (a lone surrogate) would be replaced, and
    two such texts would be one."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text))


def text_problem(value: object, length_max: int) -> str | None:
    if not isinstance(value, str) or not 0 < len(value) <= length_max:
        return f"must be a text of 1 to {length_max} characters"
    return None if is_storable(value) else "must not hold a NUL or half of a character"


def function_problem(function: object, takes: int) -> str | None:
    """What is wrong with a function that will be called with so many arguments. What has no signature to ask passes."""
    if not callable(function):
        return "must be a function"
    try:
        inspect.signature(function).bind(*[None] * takes)
    except (TypeError, ValueError) as error:
        if isinstance(error, TypeError) or isinstance(function, partial):  # a ValueError: too much of it is filled in
            return f"must take {('no argument', 'one argument', 'two arguments', 'three arguments')[takes]}"
    return None


T = TypeVar("T")
_CONSTRUCTORS = ("__init__", "__new__")


class WrongCall(TypeError):
    """Arguments that a public function does not take. In a handler it is a mistake that no retry mends."""

    @property
    def failure(self) -> Failure:
        return failure(Category.BUG, "USAGE_ERROR", str(self))


def nearest(name: str, names: Iterable[str], likeness: float = 0.6) -> str | None:
    """The name that was probably meant, or None if none is like it. `likeness`: how like, up to 1, it must be."""
    near = get_close_matches(name, list(names), n=1, cutoff=likeness)
    return near[0] if near else None


def give_names(public: T, name: str | None = None) -> T:
    """The same function or class, whose calls name the right argument where a wrong one was given. A class is changed
    in place, its constructor and its public methods; other values are returned as they are. `name` is what it is
    known by, where that is not its own name."""
    if inspect.isfunction(public):
        return cast(T, _with_names(public, name or public.__qualname__))
    if isinstance(public, type) and not issubclass(public, Enum):
        for owner in (each for each in public.__mro__ if each.__module__.partition(".")[0] == "holdfast"):
            _name_methods(owner, name if owner is public and name else owner.__qualname__)
    return public


def _name_methods(owner: type, known_as: str) -> None:
    for name, member in list(vars(owner).items()):
        if name.startswith("_") and name not in _CONSTRUCTORS:
            continue
        place = known_as if name in _CONSTRUCTORS else f"{known_as}.{name}"
        if inspect.isfunction(member):
            setattr(owner, name, _with_names(member, place))
        elif isinstance(member, classmethod | staticmethod) and inspect.isfunction(member.__func__):
            setattr(owner, name, type(member)(_with_names(member.__func__, place)))


def _with_names(function: Callable[..., Any], place: str) -> Callable[..., Any]:
    if hasattr(function, "__holdfast_names__"):
        return function

    depth = 1 + _wrappers(function)

    def refuse(error: TypeError, given: dict[str, Any]) -> NoReturn:
        problem = None if isinstance(error, WrongCall) else call_problem(function, place, error, given, depth=depth)
        if problem is None:
            raise error
        raise WrongCall(problem) from None

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            refuse(error, kwargs)

    @wraps(function)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        try:
            return await function(*args, **kwargs)
        except TypeError as error:
            refuse(error, kwargs)

    wrapper: Callable[..., Any] = call_async if inspect.iscoroutinefunction(function) else call
    wrapper.__holdfast_names__ = True  # type: ignore[attr-defined]
    return wrapper


def _wrappers(function: Any) -> int:
    """How many decorators a call goes through before it is the function's own."""
    inner = getattr(function, "__wrapped__", None)
    return 0 if inner is None else 1 + _wrappers(inner)


def call_problem(
    function: Callable[..., Any], place: str, error: TypeError, given: Iterable[str], *, depth: int = 1
) -> str | None:
    """In a sentence, what is wrong with the arguments of a call; None if the error is not about them, but came from
    the function itself. `depth`: how many frames lie between where the error was caught and the call."""
    unknown = _unknown_name(function, place, given)
    if unknown is not None or not _is_of_the_call(error, depth):
        return unknown
    why = str(error).partition("() ")[2]
    return f"{place}() {why}; it takes {_taken(function)}."


def _taken(function: Callable[..., Any]) -> str:
    """What a function takes, what can only be named apart. Those of ours that only catch mistakes are none."""
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name not in ("self", "cls")]
    parameters = [each for each in parameters if each.kind is not each.POSITIONAL_ONLY]
    by_name = [each.kind in (each.KEYWORD_ONLY, each.VAR_KEYWORD) for each in parameters]
    shown = [str(each.replace(annotation=each.empty, default=each.empty)) for each in parameters]
    placed = ", ".join(name for name, is_named in zip(shown, by_name, strict=True) if not is_named)
    named = ", ".join(name for name, is_named in zip(shown, by_name, strict=True) if is_named)
    return "; ".join(filter(None, (placed, f"by name: {named}" if named else ""))) or "no arguments"


def _is_of_the_call(error: TypeError, depth: int) -> bool:
    """Whether no line of the called function has run."""
    frame = error.__traceback__
    for _ in range(depth):
        frame = frame and frame.tb_next
    return frame is None and "() " in str(error)


def _unknown_name(function: Callable[..., Any], place: str, given: Iterable[str]) -> str | None:
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return None
    names = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    names = [name for name in names if name not in ("self", "cls")]
    unknown = next((name for name in given if name not in names), None)
    if unknown is None:
        return None
    near = nearest(unknown, names)
    meant = f"did you mean '{near}'? It takes" if near else "it takes"
    return f"{place}() has no argument '{unknown}'; {meant} {', '.join(names) or 'none by name'}."
