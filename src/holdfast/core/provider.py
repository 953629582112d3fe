"""A provider: something outside that may fail, declared once and named everywhere.

Declaring one opens no socket. Its breaker, limits and the history of its calls live in the store, by name,
so that all workers and processes of a deployment share them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, get_args

from holdfast.core.breaker import BreakerPolicy
from holdfast.core.failure import Failure

EffectClass = Literal["token", "lookup", "neither"]
Lookup = Callable[[str], Awaitable[str | None]]
Probe = Callable[[], Awaitable[bool]]
Classifier = Callable[[BaseException], Failure | None]


@dataclass(frozen=True, slots=True)
class Provider:
    """What the kernel needs to know of a provider.

    `effects` says how an ambiguous send is resolved:
      token    it honours idempotency tokens for `retention_s`: sending again with the same token is safe
      lookup   it can be asked whether it has the token: ask after `late_bound_s`, then decide
      neither  nobody can know: an ambiguous send waits for a person
    `lookup` finds what was sent under a token (its provider id, or None). `probe` tells a held breaker that
    the provider is well again. `many_hosts`: its calls go to servers that know nothing of each other, so the
    `Retry-After` of one holds the job that met it and no other. `classify` judges what a call raised before Holdfast
    does; None leaves the judgement to Holdfast.
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

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem is not None:
            raise ValueError(f"The provider '{self.name}' {problem}.")


def _problem(provider: Provider) -> str | None:
    if provider.effects not in get_args(EffectClass):
        return f"has effects '{provider.effects}'; they are one of {', '.join(get_args(EffectClass))}"
    for name in ("per_minute", "concurrency", "timeout_s"):
        value = getattr(provider, name)
        if value is not None and not value > 0:
            return f"has {name} {value}; it must be more than 0, or left out for no limit"
    for name in ("lookup", "probe", "classify"):
        value = getattr(provider, name)
        if value is not None and not callable(value):
            return f"has a {name} that is no function"
    return None
