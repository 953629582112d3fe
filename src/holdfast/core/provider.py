"""A provider: something outside that may fail, declared once and named everywhere.

Declaring one opens no socket. Its breaker, limits and the history of its calls live in the store, by name,
so that all workers and processes of a deployment share them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Literal, get_args

from holdfast.core.breaker import BreakerPolicy
from holdfast.core.failure import Failure
from holdfast.core.given import BadValue, count_problem, flag_problem, function_problem, seconds_problem

NAME_LENGTH_MAX = 200
EffectClass = Literal["token", "lookup", "neither"]
Lookup = Callable[[str], Awaitable[str | None]]
HasId = Callable[[str], Awaitable[bool]]
Probe = Callable[[], Awaitable[bool]]
Classifier = Callable[[BaseException], Failure | None]


@dataclass(frozen=True, slots=True)
class Provider:
    """What the kernel needs to know of a provider.

    `effects` says how an ambiguous send is resolved:
      token    it honours idempotency tokens for `retention_s`: sending again with the same token is safe
      lookup   it can be asked whether it has the token: ask after `late_bound_s`, then decide
      neither  nobody can know: an ambiguous send waits for a person
    `lookup` finds what was sent under a token (its provider id, or None). `has_id` says whether the provider knows one
    of its ids: declare it only where, for `retention_s` after a send, a no proves that nothing was sent, for what is
    marked as sent is then verified now and then. `probe` tells a held breaker, or one that no job is left to
    try, that the provider is well again.
    `many_hosts`: its calls go to servers that know nothing of each other, so the
    `Retry-After` of one holds the job that met it and no other. `classify` judges what a call raised before Holdfast
    does; None leaves the judgement to Holdfast.

    `per_minute` is a limit for any sixty seconds, wherever they begin. With `burst` it is a bucket instead that holds
    so many calls and starts full: a minute may then see up to `per_minute` + `burst` calls. `concurrency` is how many
    run at once. `retry_after_max_s` cuts what the provider may ask for (None: it is waited for in full), and
    `hold_max_s` is for how long in all it may put a job off in one stage before the job is a dead letter (None: until
    its deadline).
    """

    name: str
    breaker: BreakerPolicy | None = None
    per_minute: int | None = None
    concurrency: int | None = None
    timeout_s: float = 60.0
    effects: EffectClass = "neither"
    retention_s: float = 86_400.0
    late_bound_s: float = 60.0
    lookup: Lookup | None = None
    probe: Probe | None = None
    many_hosts: bool = False
    classify: Classifier | None = None
    burst: int | None = None
    retry_after_max_s: float | None = None
    hold_max_s: float | None = None
    has_id: HasId | None = None

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem is not None:
            raise BadValue(f"The provider '{self.name}' {problem}")

    def asked_ms(self, retry_after_ms: int) -> int:
        """For how long it is left alone when it asks for that."""
        most = self.retry_after_max_s
        return retry_after_ms if most is None else min(retry_after_ms, round(most * 1_000))


def _problem(provider: Provider) -> str | None:
    return _wrong_kind(provider) or _wrong_number(provider) or _wrong_function(provider)


def _wrong_kind(provider: Provider) -> str | None:
    if not isinstance(provider.name, str) or not provider.name:
        return "needs a name, which is a text."
    if len(provider.name) > NAME_LENGTH_MAX or not provider.name.isprintable():
        return f"needs a name of up to {NAME_LENGTH_MAX} characters, without line breaks and the like."
    if provider.breaker is not None and not isinstance(provider.breaker, BreakerPolicy):
        return f"has a breaker of {provider.breaker!r}; write breaker=Breaker(...)."
    if provider.effects not in get_args(EffectClass):
        return f"has effects '{provider.effects}'; they are token, lookup or neither."
    return None


def _wrong_number(provider: Provider) -> str | None:
    for name in ("per_minute", "concurrency", "burst"):
        limit = getattr(provider, name)
        if limit is not None and (problem := count_problem(limit)):
            return f"has a {name} of {limit!r}; it {problem}, or None for no limit."
    if provider.burst is not None and provider.per_minute is None:
        return "has a burst without per_minute; a bucket needs a rate that refills it."
    for name in ("timeout_s", "retention_s", "late_bound_s", "retry_after_max_s", "hold_max_s"):
        value = getattr(provider, name)
        if value is None and name in ("retry_after_max_s", "hold_max_s"):
            continue
        if problem := seconds_problem(value, above_zero=name in ("timeout_s", "retention_s")):
            return f"has a {name} of {value!r}; it {problem}."
    if problem := flag_problem(provider.many_hosts):
        return f"has many_hosts of {provider.many_hosts!r}; it {problem}."
    return None


def _wrong_function(provider: Provider) -> str | None:
    for name, takes in (("lookup", 1), ("has_id", 1), ("probe", 0), ("classify", 1)):
        value = getattr(provider, name)
        if value is not None and not callable(value):
            return f"has a {name} of {value!r}, which is no function."
        if value is not None and (problem := function_problem(value, takes)):
            return f"has a {name} that {problem}."
    if iscoroutinefunction(provider.classify):
        return "has a classify that is an async def; it must be a plain function."
    return None
