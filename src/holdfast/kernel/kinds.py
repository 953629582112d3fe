"""A job class, read once when it is declared: its stages, what each needs, and how values become JSON and back."""

from __future__ import annotations

import json
import typing
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from holdfast.core.classify import NO_RULES, Rules
from holdfast.core.decide import StagePlan
from holdfast.core.given import COUNT_MAX, seconds_problem
from holdfast.core.job import PRIORITIES
from holdfast.core.outcome import Discard, Done, Next, Snooze, Wait
from holdfast.core.provider import Provider
from holdfast.core.retry import Retry
from holdfast.core.turns import Turns
from holdfast.errors import BadDeclaration, InvalidInput
from holdfast.kernel.declare import declaring
from holdfast.kernel.declare.blocking import handler_of
from holdfast.kernel.declare.fitting import (
    first_problem,
    is_plain,
    misfit,
    missing_await,
    read_back,
    read_json,
    takes_none,
    why_unwritable,
)
from holdfast.kernel.declare.methods import (
    check_method,
    checked_hook,
    needs_of,
    refuse_hidden,
    refuse_shared,
    refuse_unmarked,
)
from holdfast.kernel.declare.size import check_size
from holdfast.kernel.declare.types import check_result, declared_types
from holdfast.kernel.sealing import Sealer


class InvalidResult(ValueError):
    """A stage's result that does not fit what the stage says it returns."""


ANSWERS = (Done, Next, Snooze, Wait, Discard)
Upgrade = Callable[[Any], Any]
"""Turns the stored JSON value of one version into that of the next, or into the value itself."""


@dataclass(frozen=True, slots=True)
class StageMark:
    """What the `stage` decorator leaves on a method."""

    retry: Retry
    provider: Provider | None
    timeout_s: float
    reads: frozenset[str] | None = None
    rules: Rules = NO_RULES
    formerly: tuple[str, ...] = ()
    upgrade: Upgrade | None = None
    cpu: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """`reads`: the fields of the input that it depends on; None: any of them."""

    name: str
    run: Callable[..., Coroutine[Any, Any, Any]]
    provider: Provider | None
    timeout_s: float
    plan: StagePlan
    needs: tuple[str, ...]
    returns: TypeAdapter[Any]
    reads: frozenset[str] | None = None
    rules: Rules = NO_RULES
    plain: bool = False
    formerly: tuple[str, ...] = ()
    upgrade: Upgrade | None = None
    may_be_none: bool = True

    def dump(self, value: object) -> str:
        """A result as JSON. Raises if it is not what the stage says it returns."""
        if value is None:
            return "null"
        problem = missing_await(value)
        if problem is not None:
            raise InvalidResult(problem)
        try:
            text = self.returns.dump_json(value, warnings="error").decode()
        except (PydanticSerializationError, UnicodeError, ValueError, RecursionError) as error:
            raise InvalidResult(misfit(self.returns, value, error)) from None
        problem = read_back(self.returns, self.plain, value, text, exact=True)
        if problem is not None:
            raise InvalidResult(problem)
        check_size(f"The result of the stage '{self.name}'", text)
        return text

    def load(self, text: str) -> Any:
        """A stored result, brought forward if it is one of earlier code. Raises InvalidInput if it does not fit."""
        try:
            return read_json(self.returns, text)
        except ValidationError as error:
            why = f"The stored result of stage '{self.name}' does not fit what it returns here: {first_problem(error)}"
        if self.upgrade is None:
            raise InvalidInput(f"{why}; say how it is brought forward with @stage(upgrade=...).")
        try:
            return read_json(self.returns, to_json(self.upgrade(json.loads(text))))
        except Exception as error:
            raise InvalidInput(f"{why}, and its upgrade raised {type(error).__name__}: {error}.") from None


def declared_key(kind: str, stage: str, version: int) -> str:
    """How the claim spells what a worker declares. A stage is a name in Python, so that no two are spelled alike."""
    return f"{kind} {stage} {version}"


@dataclass(frozen=True, slots=True)
class JobKind:
    """Everything the kernel knows of a kind of job. The database knows only its name."""

    name: str
    queue: str
    takes: TypeAdapter[Any]
    stages: tuple[Stage, ...]
    version: int
    upgrades: Mapping[int, Upgrade]
    deadline_s: float | None
    priority: int
    announce: bool
    instance: Any
    on_settled: Callable[..., Awaitable[None]] | None
    by_name: Mapping[str, Stage] = field(default_factory=dict)
    """Every stage by its name and by those it had."""
    plain: bool = False
    seals: tuple[str, ...] = ()
    """Paths of the addresses in its input whose credentials are kept apart."""
    sealer: Sealer = field(default_factory=Sealer)
    schema: str | None = None
    turns: Turns | None = None
    search: tuple[str, ...] = ()
    """Paths of the fields of its input that a person finds it by."""
    ways: dict[tuple[str, str | None], Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What `declare.path` has found out about places of its jobs: the stage, and what is done."""

    def dump_input(self, value: object) -> str:
        """The input as JSON; refuses what does not fit the declared type, naming the field."""
        problem = missing_await(value)
        if problem is not None:
            raise InvalidInput(f"The input of '{self.name}' does not fit: {problem}.")
        try:
            fitting = self.takes.validator.validate_python(value)
            text = self.takes.serializer.to_json(fitting, warnings=False).decode()
        except ValidationError as error:
            raise InvalidInput(f"The input of '{self.name}' does not fit: {first_problem(error)}.") from None
        except (PydanticSerializationError, UnicodeError, ValueError, RecursionError) as error:
            why = why_unwritable(value, error)
            raise InvalidInput(f"The input of '{self.name}' cannot be written as JSON: {why}.") from None
        problem = read_back(self.takes, self.plain, fitting, text, exact=True)
        if problem is not None:
            raise InvalidInput(f"The input of '{self.name}' does not fit: {problem}.")
        check_size(f"The input of '{self.name}'", text)
        return text

    def load_input(self, text: str, version: int | None = None) -> Any:
        """The stored input, brought forward step by step if it is one of an earlier version."""
        try:
            if version is not None and version < self.version:
                return read_json(self.takes, to_json(self._brought_forward(json.loads(text), version)))
            return read_json(self.takes, text)
        except ValidationError as error:
            raise InvalidInput(f"The input of '{self.name}' does not fit: {first_problem(error)}.") from None

    def load_unversioned(self, text: str) -> Any:
        """A stored input that does not say its version, as a schedule's: this code's, else the newest that fits."""
        try:
            return self.load_input(text)
        except InvalidInput:
            for version in sorted(self.upgrades, reverse=True):
                with suppress(InvalidInput):
                    return self.load_input(text, version)
            raise

    def _brought_forward(self, value: Any, version: int) -> Any:
        for step in range(version, self.version):
            try:
                value = to_jsonable_python(self.upgrades[step](value))
            except Exception as error:
                what = f"The upgrade of the input of '{self.name}' from version {step} to {step + 1}"
                raise InvalidInput(f"{what} raised {type(error).__name__}: {error}.") from None
        return value

    def declares(self) -> dict[str, tuple[str, str, int]]:
        """What a worker of this code may claim: every name of its stages with every version of input it can read."""
        versions = range(min(self.upgrades, default=self.version), self.version + 1)
        triples = [(self.name, stage, version) for stage in self.by_name for version in versions]
        return {declared_key(*triple): triple for triple in triples}


def job_kind(
    queue: str,
    cls: type[Any],
    name: str | None,
    deadline_s: float | None,
    priority: int,
    announce: bool,
    retries: int | None = None,
    never: tuple[type[BaseException], ...] = (),
    version: int = 1,
    upgrade: Mapping[int, Upgrade] | None = None,
    seals: Sequence[str] = (),
    sealer: Sealer | None = None,
    turns: Turns | None = None,
    search: Sequence[str] = (),
) -> JobKind:
    """Read a job class. Every mistake in it is a `BadDeclaration` that names the place."""
    if retries is not None and not 0 <= retries <= COUNT_MAX:
        bound = f"it must be 0 to {COUNT_MAX}, or None for no bound"
        raise BadDeclaration(f"'{cls.__name__}' has retries of {retries}; {bound}.")
    if priority not in PRIORITIES:
        raise BadDeclaration(f"'{cls.__name__}' has priority {priority}; it must be one of {PRIORITIES}.")
    if deadline_s is not None and (problem := seconds_problem(deadline_s, above_zero=True)):
        raise BadDeclaration(f"'{cls.__name__}' has a deadline_s of {deadline_s!r}; it {problem}.")
    upgrades = dict(upgrade or {})
    declaring.check_versions(cls.__name__, version, upgrades)
    given, result = declared_types(cls)
    takes = declaring.adapter_for(given, cls.__name__)
    declaring.check_turns(cls.__name__, turns, given)
    stages = _stages(cls, given, result, retries, never)
    _check_names(cls.__name__, stages)
    return JobKind(
        name=declaring.name_kind(queue, cls.__name__, name),
        queue=queue,
        takes=takes,
        plain=is_plain(takes),
        stages=stages,
        version=version,
        upgrades=upgrades,
        deadline_s=deadline_s,
        priority=priority,
        announce=announce,
        instance=declaring.make_instance(cls),
        on_settled=checked_hook(cls),
        by_name={**_former(stages), **{each.name: each for each in stages}},
        seals=declaring.checked_paths(cls.__name__, "seals", seals, given),
        sealer=sealer or Sealer(),
        turns=turns,
        search=declaring.checked_paths(cls.__name__, "searches", search, given),
    )


def _former(stages: tuple[Stage, ...]) -> dict[str, Stage]:
    """Stages by the names they had. A job that stands at an old name keeps it, so that older code may take it too."""
    former: dict[str, Stage] = {}
    for stage in stages:
        for old in stage.formerly:
            former.setdefault(old, replace(stage, plan=replace(stage.plan, name=old)))
    return former


def _check_names(place: str, stages: tuple[Stage, ...]) -> None:
    names = {stage.name for stage in stages}
    for stage in stages:
        for old in stage.formerly:
            if old in names:
                raise BadDeclaration(f"'{place}.{stage.name}' was formerly '{old}', but that is the name of a stage.")
            if not old.isidentifier() or stage.formerly.count(old) > 1:
                raise BadDeclaration(f"'{place}.{stage.name}' was formerly '{old}', which cannot be: name each once.")


def _stages(
    cls: type[Any], takes: Any, result: Any, retries: int | None, never: tuple[type[BaseException], ...]
) -> tuple[Stage, ...]:
    marked = [(n, m) for n, m in vars(cls).items() if isinstance(getattr(m, "__holdfast_stage__", None), StageMark)]
    names = [name for name, _ in marked]
    declaring.check_inherited(cls, set(names))
    refuse_hidden(cls)
    refuse_shared(cls.__name__, marked)
    refuse_unmarked(cls)
    if not marked:
        raise BadDeclaration(f"'{cls.__name__}' has no stage; mark at least one method with @stage().")
    stages: list[Stage] = []
    returned: dict[str, Any] = {}
    for name, method in marked:
        mark: StageMark = method.__holdfast_stage__
        place = f"{cls.__name__}.{name}"
        check_method(place, method)
        declaring.check_options(place, mark.retry, mark.provider, mark.timeout_s, mark.cpu)
        hints = declaring.hints_of(method, place)
        returns = _plain(hints.get("return", Any))
        stages.append(
            Stage(
                name=name,
                run=handler_of(name, method, mark.cpu, cls, hints),
                provider=mark.provider,
                timeout_s=mark.timeout_s,
                plan=StagePlan(name, mark.provider.name if mark.provider else None, mark.retry, retries),
                needs=needs_of(method, hints, place, takes, returned, names),
                returns=(adapter := declaring.adapter_for(returns, place)),
                plain=is_plain(adapter),
                reads=_reads(mark, takes, place),
                rules=declaring.checked_rules(mark.rules, never, place),
                formerly=mark.formerly,
                upgrade=mark.upgrade,
                may_be_none=takes_none(adapter),
            )
        )
        returned[name] = returns
    check_result(cls.__name__, result, name, returns)
    return tuple(stages)


def _reads(mark: StageMark, takes: Any, place: str) -> frozenset[str] | None:
    fields = getattr(takes, "__dataclass_fields__", None) or getattr(takes, "model_fields", None)
    unknown = sorted(mark.reads - set(fields)) if mark.reads is not None and fields is not None else []
    if unknown:
        raise BadDeclaration(f"The stage '{place}' reads '{unknown[0]}', which the input does not have.")
    return mark.reads


def _plain(returns: Any) -> Any:
    """The stage's value type, without the answers that are not values."""
    args = typing.get_args(returns)
    kept = [arg for arg in args if arg not in ANSWERS]
    if returns in ANSWERS or (args and not kept):
        return Any
    if args and len(kept) < len(args):
        return typing.Union[tuple(kept)]  # noqa: UP007
    return returns
