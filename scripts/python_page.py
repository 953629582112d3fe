"""The page about the library's Python names, written from their signatures and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import holdfast
from holdfast import kit, testing
from holdfast.contrib import fastapi as contrib_fastapi

GROUPS = {
    "Declare jobs": ("App", "Job", "stage", "Retry", "Provider", "Breaker", "Priority"),
    "Inside a stage": ("Context", "SyncContext", "Cost"),
    "What a stage may answer": ("Done", "Next", "Snooze", "Discard", "Wait"),
    "What comes back": ("Success", "Answered", "Failure", "Category"),
    "Use jobs from your own code": ("Client", "SyncClient"),
    "Enqueue": ("enqueue", "enqueue_many"),
    "In your application": ("console", "Principal"),
}
"""A public name that stands in no group is put into one of its own, at the end."""
REST, ERRORS = "More", "Errors"
WIDTH = 100


def page() -> str:
    names = {group: [name for name in listed if name in holdfast.__all__] for group, listed in GROUPS.items()}
    grouped = {name for listed in names.values() for name in listed}
    errors = [name for name in holdfast.__all__ if _is_error(getattr(holdfast, name))]
    names[REST] = [name for name in holdfast.__all__ if name not in grouped and name not in errors]
    names[ERRORS] = errors
    parts = [
        "# Python",
        "Every public name, from `from holdfast import ...`. What is not on this page is not promised.",
    ]
    for group, listed in names.items():
        if listed:
            parts += [f"## {group}", *(text for name in listed for text in _entry(name, getattr(holdfast, name)))]
    parts += ["## In tests", "From `holdfast.testing`."]
    kit_names = ("world", "World", "HandClock")
    parts += [line for name in kit_names for line in _entry(name, getattr(testing, name))]
    parts += ["## In FastAPI and Starlette", "From `holdfast.contrib.fastapi`."]
    parts += [*_entry("Lifespan", contrib_fastapi.Lifespan)]
    parts += ["## For systems with tables of their own", *_kit()]
    return "\n\n".join(parts)


def _kit() -> Iterator[str]:
    """The kit by its modules: what each is for, and its names with their first sentences."""
    for module in (kit, *(import_module(f"{kit.__name__}.{each.name}") for each in iter_modules(kit.__path__))):
        yield f"### `{module.__name__}`"
        yield inspect.cleandoc(module.__doc__ or "").partition("\n\n")[0]
        yield "\n".join(f"- `{name}`{_first_sentence(getattr(module, name))}" for name in module.__all__)


def _first_sentence(thing: Any) -> str:
    documented = inspect.isfunction(thing) or inspect.ismodule(thing) or inspect.isclass(thing)
    text = " ".join((thing.__doc__ or "").split()) if documented else ""
    if inspect.isclass(thing) and text.startswith(f"{thing.__name__}("):
        return ""  # what a dataclass says of itself is its signature
    sentence = re.split(r"(?<=\.)\s", text)[0]
    return f": {sentence}" if sentence else ""


def _is_error(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, Exception)


def _entry(name: str, thing: Any) -> Iterator[str]:
    yield f"### `{name}`"
    if _is_error(thing):
        yield _doc(thing)
        return
    if (signature := _signature(name, thing)) is not None:
        yield f"```text\n{signature}\n```"
    yield _doc(thing)
    if isinstance(thing, type):
        lines = list(_members(thing))
        if lines:
            yield "\n".join(lines)


def _signature(name: str, thing: Any) -> str | None:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return None
    if isinstance(thing, type) and "_missing_" in dir(thing):
        return None  # an enumeration: its members say it
    given = [_plain(str(each)) for each in signature.parameters.values() if each.name != "self"]
    given = _with_marks(signature, given)
    returns = "" if isinstance(thing, type) or signature.return_annotation is signature.empty else _returns(signature)
    line = f"{name}({', '.join(given)}){returns}"
    return line if len(line) <= WIDTH else f"{name}(\n{''.join(f'    {each},{chr(10)}' for each in given)}){returns}"


def _with_marks(signature: inspect.Signature, given: list[str]) -> list[str]:
    """With the `*` after which names are to be said, where no `*args` says it."""
    kinds = [each.kind for each in signature.parameters.values() if each.name != "self"]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        given.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    return given


def _returns(signature: inspect.Signature) -> str:
    return f" -> {_plain(str(signature.return_annotation))}"


def _plain(text: str) -> str:
    """Without quotes round an annotation and without the modules of types."""
    text = re.sub(r"<class '([\w.]+)'>", r"\1", text)
    text = re.sub(r"<([\w.]+)(?:\.\w+)?(?: object)?(?:: [^>]*| at 0x[^>]*)>", r"\1", text)
    text = re.sub(r"\b(?:holdfast|collections|typing|contextlib)(?:\.\w+)*\.(\w+)", r"\1", text)
    return re.sub(r"^(\*{0,2}\w+): '(.*?)'", r"\1: \2", text).replace("'", '"')


def _doc(thing: Any) -> str:
    own = inspect.getdoc(thing) or ""
    if own.startswith(f"{getattr(thing, '__name__', '')}("):
        own = ""  # what a dataclass writes by itself
    return "\n".join(_escaped(own.splitlines()))


def _escaped(lines: list[str]) -> Iterator[str]:
    """Indented lines are drawings and code; on the page they are fenced."""
    fenced = False
    for number, line in enumerate(lines):
        indented = line.startswith("    ") or (fenced and not line.strip() and _goes_on(lines, number))
        if indented != fenced:
            yield "```text" if indented else "```"
            if not indented and line.strip():
                yield ""
            fenced = indented
        yield line[4:] if fenced else line
    if fenced:
        yield "```"


def _goes_on(lines: list[str], number: int) -> bool:
    following = next((line for line in lines[number:] if line.strip()), "")
    return following.startswith("    ")


def _members(kind: type) -> Iterator[str]:
    if hasattr(kind, "__members__"):
        yield from (f"- `{name}`" for name in kind.__members__)
        return
    fields = {each.name for each in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    for name, member in vars(kind).items():
        if name.startswith("_") or name in fields:
            continue
        if isinstance(member, property):
            yield f"- `{name}`: {_first(member)}"
        elif isinstance(member, classmethod | staticmethod) or inspect.isfunction(member):
            function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            yield f"- `{_one_line(name, function)}`: {_first(function)}"


def _one_line(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    given = [each.name for each in signature.parameters.values() if each.name not in ("self", "cls")]
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    given = [stars.get(signature.parameters[each].kind, "") + each for each in given]
    return f"{'await ' if inspect.iscoroutinefunction(function) else ''}{name}({', '.join(given)})"


def _first(thing: Any) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split()) or "see its signature."
