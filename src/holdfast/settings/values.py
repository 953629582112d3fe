"""One setting: declared beside its meaning, read from an environment, refused in a sentence. NaN is no number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, field, fields
from math import isfinite
from typing import Any, TypeVar

from holdfast.errors import SettingsError
from holdfast.settings.names import name_in

G = TypeVar("G")
TRUE, FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}
NUMBER_MAX = 10**9
"""What no number without a bound of its own goes beyond: as days it still fits a column once it is milliseconds."""
SHOWN_MAX = 60


def setting(
    env: str,
    default: Any,
    doc: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] | None = None,
    secret: bool = False,
) -> Any:
    """One setting: its environment variable, its default, and what it does."""
    meta = {"env": env, "doc": doc, "minimum": minimum, "maximum": maximum, "choices": choices, "secret": secret}
    return field(default=default, metadata=meta)


def read(group: type[G], env: Mapping[str, str]) -> G:
    """The group's values from an environment; raises `SettingsError` with all that is wrong."""
    values, wrong = _parse(group, env)
    if not wrong:
        made = group(**values)
        wrong = _own_problems(made)
        if not wrong:
            return made
    raise SettingsError(wrong)


def problems(group: type[Any], env: Mapping[str, str]) -> list[str]:
    """Every complaint about this environment, in sentences."""
    try:
        read(group, env)
    except SettingsError as error:
        return error.problems
    return []


def notes(group: type[Any], env: Mapping[str, str]) -> list[str]:
    """What works but leaves a risk, in sentences, if the group has any to tell and its values are fine."""
    if not hasattr(group, "notes") or problems(group, env):
        return []
    told: list[str] = read(group, env).notes()
    return told


def _parse(group: type[Any], env: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for one in fields(group):
        name = name_in(env, one.metadata["env"]) if "env" in one.metadata else None
        if name is None or (env[name] == "" and one.default is None):
            continue
        try:
            values[one.name] = _value(one, env[name])
        except ValueError as error:
            shown = "" if one.metadata["secret"] else f" is '{_short(env[name])}'"
            wrong.append(f"{name}{shown}; {error}.")
    return values, wrong


def _value(one: Field[Any], text: str) -> Any:
    kind: type[Any] = type(one.default) if one.default is not None else str
    if kind is bool:
        if text.lower() not in TRUE | FALSE:
            raise ValueError("write true or false")
        return text.lower() in TRUE
    if kind in (int, float):
        return _number(one, kind, text)
    choices = one.metadata["choices"]
    if choices and text not in choices:
        raise ValueError(f"it must be one of {', '.join(choices)}")
    return text


def _number(one: Field[Any], kind: type[Any], text: str) -> Any:
    try:
        value = kind(text)
    except ValueError:
        raise ValueError("it must be a whole number" if kind is int else "it must be a number") from None
    if kind is float and not isfinite(value):
        raise ValueError("it must be a finite number")
    low, high = one.metadata["minimum"], one.metadata["maximum"]
    low, high = -NUMBER_MAX if low is None else low, NUMBER_MAX if high is None else high
    if value < low:
        raise ValueError(f"it must be at least {low}")
    if value > high:
        raise ValueError(f"it must be at most {high}")
    return value


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def _own_problems(made: object) -> list[str]:
    check = getattr(made, "problems", None)
    return list(check()) if check else []
