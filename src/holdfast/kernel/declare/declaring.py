"""What is wrong with a declaration, said when it is made: one sentence that names the place."""

from __future__ import annotations

import inspect
import re
import sys
import typing
from asyncio import CancelledError
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter

from holdfast.core.classify import Rules
from holdfast.core.given import count_problem, flag_problem, function_problem, seconds_problem
from holdfast.core.provider import Provider
from holdfast.core.retry import Retry
from holdfast.core.turns import OWNER, Limit, Turns
from holdfast.errors import BadDeclaration
from holdfast.transports.seam import Queue

U = TypeVar("U")
UNJUDGED = frozenset({BaseException, CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit})
"""What no rule of a stage can speak of: all exceptions at once, and those that end what runs the stage."""
KIND = re.compile(r"[\w.:-]{1,200}\Z")


def refuse_bare(decorator: str, decorated: object) -> None:
    """A decorator that was written without its parentheses is given what it stands above."""
    if decorated is None:
        return
    if not callable(decorated):
        hint = ", as in name=..." if decorator == "app.job" else "; a stage is called as its method is"
        raise BadDeclaration(f"@{decorator}({decorated!r}) takes nothing by its place: name its options{hint}.")
    name = getattr(decorated, "__name__", repr(decorated))
    raise BadDeclaration(f"@{decorator} above '{name}' lacks its parentheses: write @{decorator}().")


def name_kind(queue: str, place: str, name: object) -> str:
    """What a job kind is called: in the database, in labels and in log lines."""
    called = f"{queue}.{snake(place)}" if name is None else name
    if not isinstance(called, str) or not KIND.match(called):
        raise BadDeclaration(f"'{place}' has the name {called!r}; it must be up to 200 letters, digits, '_', '-', '.'.")
    return called


def adapter_for(type_: Any, place: str) -> TypeAdapter[Any]:
    if isinstance(type_, str | typing.ForwardRef):
        name = getattr(type_, "__forward_arg__", type_)
        raise BadDeclaration(f"'{place}' names its type by the text '{name}'; write the class itself, above it.")
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(type_)
        adapter.rebuild()
        return adapter
    except Exception as error:
        why = str(error).partition("\n")[0].partition(". ")[0].partition("; you should")[0].rstrip(".")
        advice = "use a dataclass, a pydantic model or what JSON has"
        raise BadDeclaration(f"'{place}' uses a type that cannot be stored as JSON: {why}; {advice}.") from None


def make_instance(cls: type[Any]) -> Any:
    """The instance that all stages of a kind run on; it is made once, and without arguments."""
    try:
        instance = cls()
    except TypeError as error:
        way_out = "it is made without arguments, once for all jobs: give what it needs by its module or its app"
        raise BadDeclaration(f"'{cls.__name__}' cannot be made: {error}; {way_out}.") from None
    object.__setattr__(instance, "_holdfast_shared", True)  # from here on no stage leaves anything on it
    return instance


def check_formerly(formerly: object) -> tuple[str, ...]:
    """The names that a stage had. A text alone would be read letter by letter."""
    if isinstance(formerly, str) or not isinstance(formerly, Sequence) or not all(isinstance(n, str) for n in formerly):
        raise BadDeclaration(f"formerly={formerly!r} must be the names that the stage had: write formerly=('old',).")
    return tuple(formerly)


def check_reads(reads: object) -> frozenset[str]:
    if isinstance(reads, str) or not isinstance(reads, Iterable) or not all(isinstance(each, str) for each in reads):
        raise BadDeclaration(f"reads={reads!r} must be fields of the input: write reads=('field',).")
    return frozenset(reads)


def check_upgrade(upgrade: U) -> U:
    if upgrade is not None and function_problem(upgrade, 1):
        raise BadDeclaration(f"upgrade={upgrade!r} must be a function that takes a stored result.")
    refuse_async("An upgrade", upgrade)
    return upgrade


def refuse_async(what: str, function: object) -> None:
    """What is called while a job is read or judged is called plainly: a coroutine would be taken for its answer."""
    if inspect.iscoroutinefunction(function):
        raise BadDeclaration(f"{what} must be a plain function, and '{function.__name__}' is an async def.")


def check_every(every_s: object) -> None:
    if problem := seconds_problem(every_s, above_zero=True):
        raise BadDeclaration(f"A step cannot run every {every_s!r} s; it {problem}.")


def check_repeated(what: str, function: object, takes: int) -> None:
    """A function that the worker awaits again and again, with so many arguments."""
    name = getattr(function, "__name__", repr(function))
    if inspect.isfunction(function) and not inspect.iscoroutinefunction(function):
        raise BadDeclaration(f"{what} must be an async def, and '{name}' is a plain function.")
    if problem := function_problem(function, takes):
        raise BadDeclaration(f"{what} is '{name}', which {problem}.")


def check_consumer(queue: object, function: object) -> None:
    if not isinstance(queue, Queue):
        raise BadDeclaration(f"A consumer needs the Queue that it takes messages of, not {queue!r}.")
    check_repeated(f"The consumer of '{queue.name}'", function, 2)


def check_class(cls: object) -> None:
    if not isinstance(cls, type) and not inspect.isfunction(cls):
        name = type(cls).__name__
        raise BadDeclaration(f"@app.job() stands above an instance of {name}; it must stand above the class.")


def check_markable(thing: object) -> None:
    """A mark cannot be left on a property, which keeps nothing."""
    if not callable(thing) and not hasattr(thing, "__dict__"):
        raise BadDeclaration(f"@stage() stands above a {type(thing).__name__}; it must stand above a method.")


def refuse_again(cls: type[Any], kind: str, known: Mapping[str, Any]) -> None:
    """A kind is declared once, and a class is one kind."""
    if kind in known:
        raise BadDeclaration(f"The job kind '{kind}' is declared twice.")
    declared = vars(cls).get("__holdfast__")
    if declared is not None:
        raise BadDeclaration(
            f"'{cls.__name__}' is declared as '{declared.name}' already, and cannot be '{kind}' too; "
            "write a class for each."
        )


def refuse_second(function: object) -> None:
    """A class that writes two stages of one name has only the second; the first would be lost without a word."""
    name = getattr(function, "__name__", "")
    body = sys._getframe(2).f_locals  # where the stage is written, which is the class while it is made
    if "__qualname__" in body and hasattr(body.get(name), "__holdfast_stage__"):
        raise BadDeclaration(f"'{body['__qualname__']}' has two stages '{name}'; give one of them another name.")


def check_provider(place: str, provider: object) -> None:
    if not isinstance(provider, Provider):
        raise BadDeclaration(f"{place} has a provider of {provider!r}; write provider=Provider(...).")


def check_options(place: str, retry: object, provider: object, timeout_s: object, cpu: object) -> None:
    if problem := flag_problem(cpu):
        raise BadDeclaration(f"The stage '{place}' has cpu={cpu!r}; it {problem}.")
    if not isinstance(retry, Retry):
        raise BadDeclaration(f"The stage '{place}' has a retry of {retry!r}; write retry=Retry(attempts=...).")
    if provider is not None:
        check_provider(f"The stage '{place}'", provider)
    if problem := seconds_problem(timeout_s, above_zero=True):
        raise BadDeclaration(f"The stage '{place}' has a timeout_s of {timeout_s!r}; it {problem}.")


def checked_rules(rules: Rules, never: tuple[type[BaseException], ...], place: str) -> Rules:
    """The stage's word on exceptions, refused unless it is made of exception classes that do not contradict; the
    app's `never` stands behind it."""
    for option, classes in (("retry_on", rules.retry_on), ("never", rules.never)):
        if not isinstance(classes, tuple) or not all(map(_is_exception, classes)):
            raise BadDeclaration(f"The stage '{place}' has a {option} that is not a tuple of exception classes.")
        for each in classes:
            if each in UNJUDGED:
                raise BadDeclaration(
                    f"The stage '{place}' names {each.__name__} in {option}; name classes of what it may fail with."
                )
    both = sorted(each.__name__ for each in {*rules.retry_on} & {*rules.never})
    if both:
        raise BadDeclaration(f"The stage '{place}' names {', '.join(both)} in retry_on and in never.")
    if not isinstance(never, tuple) or not all(map(_is_exception, never)):
        raise BadDeclaration(f"The app of '{place}' has a never that is not a tuple of exception classes.")
    return Rules(rules.retry_on, (*rules.never, *(each for each in never if each not in rules.retry_on)))


def _is_exception(candidate: object) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, BaseException)


def check_versions(place: str, version: int, upgrades: Mapping[int, Any]) -> None:
    if count_problem(version):
        raise BadDeclaration(f"'{place}' has version {version}; versions count from 1.")
    odd = [step for step in upgrades if not isinstance(step, int)]
    if odd:
        raise BadDeclaration(f"'{place}' has an upgrade from version {odd[0]!r}; write upgrade={{1: function}}.")
    missing = [step for step in range(min(upgrades, default=version), version) if step not in upgrades]
    if missing:
        raise BadDeclaration(f"'{place}' has version {version} but no upgrade from version {missing[0]}.")
    for step, upgrade in upgrades.items():
        if not callable(upgrade):
            raise BadDeclaration(f"'{place}' has an upgrade from version {step} that is no function, but {upgrade!r}.")
        refuse_async(f"The upgrade of '{place}' from version {step}", upgrade)
        if problem := function_problem(upgrade, 1):
            raise BadDeclaration(f"The upgrade of '{place}' from version {step} {problem}, the stored input.")
    beyond = [step for step in upgrades if not 1 <= step < version]
    if beyond:
        raise BadDeclaration(f"'{place}' has version {version}; an upgrade from version {beyond[0]} leads nowhere.")


def check_inherited(cls: type[Any], own: set[str]) -> None:
    for base in cls.__mro__[1:]:
        for name, method in vars(base).items():
            if hasattr(method, "__holdfast_stage__") and name not in own:
                raise BadDeclaration(
                    f"'{cls.__name__}' inherits the stage '{name}' from '{base.__name__}', but stages are those that a "
                    f"class writes itself, in their order: write '{name}' in '{cls.__name__}', with @stage() above it."
                )


def declared_turns(
    place: str, fair_by: str | None, weights: Mapping[str, int] | None, limit: Limit | None
) -> Turns | None:
    """How a kind takes turns; None if it does not."""
    if limit is not None and not isinstance(limit, Limit):
        raise BadDeclaration(f"'{place}' has a limit of {limit!r}; write limit=Limit(per=..., at_once=...).")
    by = fair_by if limit is None else limit.per
    if by is None:
        if weights:
            raise BadDeclaration(f"'{place}' has weights, but no fair_by that says of what.")
        return None
    if fair_by is not None and fair_by != by:
        raise BadDeclaration(f"'{place}' is fair by '{fair_by}' but limited per '{by}'; they must be the same.")
    odd = [key for key in weights or {} if not isinstance(key, str | int)]
    if odd:
        raise BadDeclaration(f"'{place}' gives a weight to {odd[0]!r}; keys are texts or whole numbers.")
    return Turns(by, {str(key): weight for key, weight in (weights or {}).items()}, limit)


def check_turns(place: str, turns: Turns | None, takes: Any) -> None:
    """Turns by something that a job of this kind has, with weights and limits that mean something."""
    if turns is None:
        return
    fields = _fields_of(takes)
    if turns.by != OWNER and (not isinstance(turns.by, str) or (fields is not None and turns.by not in fields)):
        raise BadDeclaration(
            f"'{place}' takes turns by '{turns.by}', which is neither 'owner' nor a field of its input."
        )
    for key, weight in turns.weights.items():
        if count_problem(weight):
            raise BadDeclaration(
                f"'{place}' gives '{key}' a weight of {weight!r}; it must be a whole number of 1 or more."
            )
    limits = () if turns.limit is None else (turns.limit.at_once, turns.limit.per_minute)
    if any(number is not None and count_problem(number) for number in limits) or (limits and not any(limits)):
        raise BadDeclaration(f"'{place}' needs a limit with at_once or per_minute, a whole number of 1 or more.")


def _fields_of(takes: Any) -> Mapping[str, Any] | None:
    """The fields that an input of this type has: none in a number, a text or a list. None: that cannot be seen."""
    fields = getattr(takes, "__dataclass_fields__", None) or getattr(takes, "model_fields", None)
    if fields is not None:
        return dict(fields)
    if hasattr(takes, "__required_keys__"):  # a TypedDict, of whichever module
        return dict.fromkeys(takes.__required_keys__ | takes.__optional_keys__)
    shape = typing.get_origin(takes) or takes
    has_none = getattr(shape, "__module__", "") == "builtins" and shape not in (dict, object)
    return {} if has_none else None


def checked_paths(place: str, verb: str, paths: Sequence[str], takes: Any) -> tuple[str, ...]:
    """The paths of fields in an input. The first part of each must be a field of it, where that can be seen."""
    fields = _fields_of(takes)
    for path in paths:
        if not isinstance(path, str):
            raise BadDeclaration(f"'{place}' {verb} {path!r}, which is no path of a field; write ('field',).")
        first = path.split(".")[0]
        names = None if fields is None else {*fields, *(getattr(field, "alias", None) for field in fields.values())}
        if not all(path.split(".")) or (names is not None and first not in names):
            raise BadDeclaration(
                f"'{place}' {verb} '{path}', which is no field of its input; write field or field.inner."
            )
    return tuple(paths)


def check_schedule_name(kind: str, name: str | None) -> None:
    if name is not None and not (0 < len(name) <= 200 and name.isprintable()):
        raise BadDeclaration(f"The schedule of '{kind}' has the name {name!r}; it must be 1 to 200 characters.")


def hints_of(method: Any, place: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(method)
    except NameError as error:
        raise BadDeclaration(f"The stage '{place}' is annotated with a type that cannot be found: {error}.") from None


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def unchanged(value: Any) -> Any:
    """The upgrade of an input whose shape is the same, but which older code could not run."""
    return value
