"""What may stand below and above `@stage()`: a method of its class, with parameters that a worker can fill.

And the hooks that a class may write, which are called by their names."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any

from holdfast.core.given import nearest
from holdfast.errors import BadDeclaration
from holdfast.kernel.declare.types import check_type

MARK = "__holdfast_stage__"
TAKES = "it must be a method that takes (self, ctx, input)"
HOOK = "on_settled"
HOOKS = {HOOK: 0.8, "corrected": 0.9, "taken_back": 0.9, "public_failure": 0.9, "log_fields": 0.9}
"""What a class may write, and how like it a name must be to be taken for it misspelt."""
TAKEN_BY_HOOKS = {
    HOOK: ("tx", "change"),
    "corrected": ("kernel", "tx", "correction"),
    "taken_back": ("kernel", "tx", "lost"),
    "public_failure": ("why", "stage"),
    "log_fields": ("fields",),
}
PLAIN_HOOKS = ("public_failure", "log_fields")
HOOKS_ELSEWHERE = ("on_failure", "on_success", "on_retry", "on_error", "on_complete", "after_return", "before_start")
"""What other libraries call by these names."""
BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def check_method(place: str, method: object) -> None:
    """Refuse what is no plain method: a class, a partial, a static or class method."""
    if not inspect.isfunction(method):
        raise BadDeclaration(f"The stage '{place}' is a {type(method).__name__}; {TAKES}.")
    inner = inspect.unwrap(method)
    if inspect.iscoroutinefunction(inner) and not inspect.iscoroutinefunction(method):
        raise BadDeclaration(
            f"The stage '{place}' is an async def, but a decorator between it and @stage() makes it a plain function; "
            "write the decorator's wrapper as an async def."
        )


def refuse_hidden(cls: type[Any]) -> None:
    """A decorator above `@stage()` that gives back another function hides the stage: it would never run."""
    for name, member in vars(cls).items():
        if (
            not name.startswith("__")
            and not hasattr(member, MARK)
            and any(hasattr(each, MARK) for each in _inside(member))
        ):
            raise BadDeclaration(
                f"The stage '{cls.__name__}.{name}' is hidden by what stands above its @stage(): "
                "put @stage() on top of the other decorators."
            )


def refuse_shared(place: str, marked: Sequence[tuple[str, object]]) -> None:
    """A function keeps one mark, so that two stages of it would have the options of the second."""
    names: dict[int, str] = {}
    for name, method in marked:
        if names.setdefault(id(method), name) != name:
            raise BadDeclaration(
                f"'{place}.{names[id(method)]}' and '{place}.{name}' are one function, which keeps one @stage(): "
                "write a method for each."
            )


def refuse_unmarked(cls: type[Any]) -> None:
    """A method that takes a context as a stage does, and that no other one names, is a stage without its mark."""
    methods = {name: inspect.unwrap(member) for name, member in vars(cls).items() if inspect.isfunction(member)}
    named = _named(cls)
    for name, method in methods.items():
        is_public = not name.startswith("_") and not hasattr(vars(cls)[name], MARK)
        if is_public and name not in named and _takes_context(method):
            raise BadDeclaration(
                f"'{cls.__name__}.{name}' takes a context, but is no stage, and no method of '{cls.__name__}' calls "
                "it: write @stage() above it, or name it with '_' in front."
            )


def _takes_context(method: FunctionType) -> bool:
    code = method.__code__
    second = code.co_varnames[1] if code.co_argcount > 1 else ""
    hint = method.__annotations__.get(second)
    return second == "ctx" or getattr(hint, "__name__", hint) in ("Context", "SyncContext")


def _words(code: CodeType) -> Iterator[str]:
    """The names that a function uses, with those of the functions in it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _words(inner)


def checked_hook(cls: type[Any]) -> Callable[..., Awaitable[None]] | None:
    """The class's own `on_settled`, or None where it has none. A hook that could not be called is refused, and so is a
    method whose name is nearly that of one."""
    for name, method in vars(cls).items():
        is_own = inspect.isfunction(method) and not name.startswith("_") and not hasattr(method, MARK)
        if is_own and name not in HOOKS:
            _refuse_misspelt(cls, name)
        if name in HOOKS and hasattr(method, MARK):
            raise BadDeclaration(f"'{cls.__name__}.{name}' is a stage, but that is the name of a hook; rename it.")
    for name, takes in TAKEN_BY_HOOKS.items():
        method = inspect.getattr_static(cls, name)
        if getattr(method, "__module__", "") != "holdfast.kernel.app":
            _check_hook(f"{cls.__name__}.{name}", method, takes, is_plain=name in PLAIN_HOOKS)
    hook: Callable[..., Awaitable[None]] = getattr(cls, HOOK)
    return None if hook.__module__ == "holdfast.kernel.app" else hook


def _check_hook(place: str, method: object, takes: tuple[str, ...], *, is_plain: bool) -> None:
    form = f"(self, {', '.join(takes)})"
    if not inspect.isfunction(method) or inspect.iscoroutinefunction(method) is is_plain:
        kind = "a plain function" if is_plain else "an async function"
        raise BadDeclaration(f"'{place}' must be {kind} that takes {form}.")
    try:
        inspect.signature(method).bind(None, *takes)
    except TypeError:
        raise BadDeclaration(f"'{place}' must take {form}.") from None


def _refuse_misspelt(cls: type[Any], name: str) -> None:
    meant = next((hook for hook, cutoff in HOOKS.items() if nearest(name, [hook], cutoff)), None)
    if meant is None and name in HOOKS_ELSEWHERE and name not in _named(cls):
        meant = HOOK
    if meant is not None:
        signature = f"{HOOK}(self, tx, change)" if meant == HOOK else meant
        raise BadDeclaration(f"'{cls.__name__}.{name}' is called by nobody; did you mean {signature}?")


def _named(cls: type[Any]) -> set[str]:
    """The names that the methods of a class use."""
    methods = [inspect.unwrap(member) for member in vars(cls).values() if inspect.isfunction(member)]
    return {word for method in methods for word in _words(method.__code__)}


def _inside(member: object) -> Iterator[object]:
    """What a descriptor or a wrapper was made from, as far as can be seen."""
    for attribute in ("__func__", "__wrapped__", "fget", "func"):
        yield getattr(member, attribute, None)
    cells: Sequence[CellType] = getattr(member, "__closure__", None) or ()
    for cell in cells:
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue


def needs_of(
    method: Any, hints: dict[str, Any], place: str, takes: Any, returned: Mapping[str, Any], stages: Sequence[str]
) -> tuple[str, ...]:
    """Which earlier stages' results a stage asks for, by name or else by type."""
    parameters = list(inspect.signature(method).parameters.values())
    if len(parameters) < 3 or any(each.kind not in BY_PLACE for each in parameters[:3]):
        raise BadDeclaration(f"The stage '{place}' must take (self, ctx, input) and then earlier results.")
    check_type(place, parameters[2].name, hints, takes, "the job's input is")
    return tuple(_need(each, hints, place, returned, stages) for each in parameters[3:])


def _need(
    parameter: inspect.Parameter, hints: dict[str, Any], place: str, returned: Mapping[str, Any], stages: Sequence[str]
) -> str:
    name = parameter.name
    if parameter.kind not in BY_PLACE:
        raise BadDeclaration(
            f"The stage '{place}' takes '{parameter}', which is not given by its place; "
            f"write '{name}' before any '*', and one parameter for each earlier result."
        )
    if name in returned:
        check_type(place, name, hints, returned[name], f"the stage '{name}' returns")
        return name
    if name in stages:
        raise BadDeclaration(f"The stage '{place}' asks for '{name}', which does not run before it; move it up.")
    matching = [stage for stage, type_ in returned.items() if type_ == hints.get(name)]
    if len(matching) != 1:
        reason = "no earlier stage returns" if not matching else "several earlier stages return"
        raise BadDeclaration(
            f"The stage '{place}' asks for '{name}', but {reason} that type; "
            "name the parameter after the stage whose result it wants."
        )
    return matching[0]
