"""How an attempt can end. A handler answers with the first group; the kernel adds the second.

A handler that returns a plain value means: this stage is done, here is its result. Raising means it failed.
Nothing else can happen, and `decide` matches every case.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.budget import Standing
from holdfast.core.failure import Failure
from holdfast.core.given import BadValue, seconds_problem, text_problem

KEY_LENGTH_MAX = 200


@dataclass(frozen=True, slots=True)
class Done:
    """The job is finished now, whatever stages would follow."""

    value: object = None


@dataclass(frozen=True, slots=True)
class Next:
    """The stage is done; the next one, if any, may run. A plain return value means this."""

    value: object = None


@dataclass(frozen=True, slots=True)
class Snooze:
    """Run this stage again later. Costs nothing of its budget."""

    delay_s: float
    reason: str = "snoozed"

    def __post_init__(self) -> None:
        if problem := seconds_problem(self.delay_s):
            raise BadValue(f"The delay_s of {self.delay_s!r} of a Snooze {problem}.")
        _check_reason("Snooze", self.reason)


@dataclass(frozen=True, slots=True)
class Wait:
    """Sleep until somebody calls back with `key`, or fail when `within_s` has passed."""

    key: str
    within_s: float

    def __post_init__(self) -> None:
        if problem := text_problem(self.key, KEY_LENGTH_MAX):
            raise BadValue(f"The key {self.key!r} of a Wait {problem}.")
        if problem := seconds_problem(self.within_s, above_zero=True):
            raise BadValue(f"The within_s of {self.within_s!r} of a Wait {problem}.")


@dataclass(frozen=True, slots=True)
class Discard:
    """Give up at once: a dead letter that no retry can fix."""

    reason: str
    error_class: str = "DISCARDED"

    def __post_init__(self) -> None:
        _check_reason("Discard", self.reason)
        if problem := text_problem(self.error_class, KEY_LENGTH_MAX):
            raise BadValue(f"The error_class {self.error_class!r} of a Discard {problem}.")


def _check_reason(answer: str, reason: object) -> None:
    if not isinstance(reason, str):
        raise BadValue(f"The reason {reason!r} of a {answer} must be a text.")


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised. `standings`: if providers' calls are behind it, how each stands to its breaker."""

    failure: Failure
    standings: tuple[Standing, ...] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """The provider's breaker or limit said no before anything was called. With `parks` it waits for room, not for a
    time. With `asked` the provider itself wants to be called later: for `hold_max_ms` in all, at most."""

    provider: str
    reason: str
    retry_at: int
    parks: bool = False
    asked: bool = False
    hold_max_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Back:
    """The code has a stage before the present one that the job has not done: it goes there first."""

    stage: str
    provider: str | None


@dataclass(frozen=True, slots=True)
class Unfit:
    """What is stored does not fit the code of this worker; that of another may. Costs nothing."""

    reason: str


@dataclass(frozen=True, slots=True)
class Parked:
    """Inside of the stage the handler waits for what `key` names. Until then, or until a time, nobody works on the job;
    then the stage runs again and finds it."""

    key: str
    until: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """What a parked job waited for has come, or its time is over."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease expired: the worker died, stalled, or lost the database."""


@dataclass(frozen=True, slots=True)
class Released:
    """The worker is stopping and gives the job back."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """The deadline passed, or nobody called back in time. Not `begun`: it had passed before the handler was called."""

    error_class: str = "DEADLINE_EXCEEDED"
    begun: bool = True


@dataclass(frozen=True, slots=True)
class Called:
    """The callback that a waiting job waited for."""

    body: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Somebody cancelled the job."""

    actor: str


Answer = Done | Next | Snooze | Wait | Discard
Outcome = Answer | Failed | Held | Back | Unfit | Parked | Resumed | Lost | Released | Overdue | Called | Withdrawn
