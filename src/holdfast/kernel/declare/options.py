"""What a caller says of a job that is enqueued, besides its input; what cannot work is refused in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypedDict

from holdfast.core.given import nearest, seconds_problem, text_problem
from holdfast.errors import InvalidInput

KEY_LENGTH_MAX = 255


class Options(TypedDict, total=False):
    """What may be said of a job when it is enqueued, besides its key.

    It is due after `delay_s`; a higher `priority` goes first; it is given up `deadline_s` from now. `owner` is the user
    who may see it. `trace` is the W3C traceparent it continues; the current one unless given."""

    delay_s: float
    priority: int | None
    deadline_s: float | None
    owner: str | None
    trace: str | None


OPTIONS = ("key", *Options.__annotations__)
_LATER = "say in how many seconds: delay_s=60"
_ONCE = "the same key is the same job: key='order:7'"
ELSEWHERE = {
    **dict.fromkeys(("eta", "run_at", "at", "countdown", "schedule_at", "start_after"), _LATER),
    **dict.fromkeys(("unique", "idempotency_key", "dedupe_key", "job_id", "task_id", "lock"), _ONCE),
    "queue": "a kind has one: @app.job(queue='cpu')",
    **dict.fromkeys(("timeout", "timeout_s", "time_limit"), "a stage has one: @stage(timeout_s=20)"),
    **dict.fromkeys(("retry", "max_retries", "attempts"), "a stage has them: @stage(retry=Retry(attempts=5))"),
}
"""What other libraries say of a job when it is enqueued, and where it is said here."""


def check_options(options: Mapping[str, object]) -> None:
    """Refuse an option that a job does not have."""
    if not options.keys() <= Options.__annotations__.keys():
        raise InvalidInput(_unknown_option(next(name for name in options if name not in Options.__annotations__)))


def _unknown_option(name: str) -> str:
    if name == "key":
        return "A child has no key: it is started once for its place in the stage, whatever is retried."
    if name in ELSEWHERE:
        return f"There is no option '{name}' of a job; {ELSEWHERE[name]}."
    near = nearest(name, OPTIONS)
    meant = f"did you mean '{near}'? They are" if near else "they are"
    return f"There is no option '{name}' of a job; {meant} {', '.join(OPTIONS)}."


def check_times(delay_s: float, deadline_s: float | None) -> None:
    if problem := seconds_problem(delay_s):
        raise InvalidInput(f"The delay_s of {delay_s!r} {problem}.")
    if deadline_s is not None and (problem := seconds_problem(deadline_s, above_zero=True)):
        raise InvalidInput(f"The deadline_s of {deadline_s!r} {problem}.")
    if deadline_s is not None and delay_s >= deadline_s:
        raise InvalidInput(
            f"The delay_s of {delay_s!r} is not over before the deadline_s of {deadline_s!r} is, so that the job could "
            "never run; both count from now."
        )


def check_texts(kind: str, key: str | None, owner: str | None, trace: str | None) -> None:
    for name, text in (("key", key), ("owner", owner), ("trace", trace)):
        if text is not None and (problem := text_problem(text, KEY_LENGTH_MAX)):
            given = f"text of {len(text)} characters" if isinstance(text, str) else type(text).__name__
            raise InvalidInput(f"The {name} of '{kind}' is a {given}; it {problem}.")


def each_of(kind: str, inputs: object) -> Iterator[Any]:
    """The inputs of many jobs, one by one. A text or a mapping is one input, and not many."""
    if isinstance(inputs, str | bytes | Mapping) or not isinstance(inputs, Iterable):
        way_out = "its inputs must be a list, or anything else that gives them one by one"
        raise InvalidInput(f"Many jobs of '{kind}' are asked for with a {type(inputs).__name__}: {way_out}.")
    return iter(inputs)
