"""A misspelt keyword argument of any public call, or name of an app, is answered with what was probably meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import pytest

import holdfast
from holdfast import App
from holdfast.contrib.fastapi import Lifespan
from holdfast.core.given import give_names
from holdfast.testing import World, world

pytestmark = pytest.mark.spec("K6")
OPTIONS_OF_A_JOB = ("enqueue", "enqueue_many", "spawn", "gather")
"""These take the options of a job, and answer for them: tests/door/test_enqueues.py."""


def public_calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every function, constructor and method that is public."""
    things = {name: getattr(holdfast, name) for name in holdfast.__all__}
    for name, thing in {**things, "Lifespan": Lifespan, "World": World, "world": world}.items():
        if inspect.isfunction(thing):
            yield name, thing
        elif not issubclass(thing, Enum):
            members = [each for each in dir(thing) if not each.startswith("_")]
            yield from ((f"{name}.{each}", getattr(thing, each)) for each in members)
            yield name, thing


def takes_names(call: Callable[..., Any]) -> bool:
    if not (inspect.isfunction(call) or inspect.ismethod(call) or inspect.isclass(call)):
        return False
    if not getattr(call, "__module__", "").startswith("holdfast"):
        return False
    try:
        parameters = inspect.signature(call).parameters.values()
    except ValueError:
        return False
    return bool(parameters) and not any(each.kind is each.VAR_KEYWORD for each in parameters)


CALLS = dict(public_calls())
NAMED = sorted(name for name, call in CALLS.items() if takes_names(call))


@pytest.mark.parametrize("name", NAMED)
def test_a_misspelt_argument_names_the_call_and_what_it_takes(name: str) -> None:
    call = CALLS[name]
    last = [*inspect.signature(call).parameters][-1]
    with pytest.raises(TypeError) as refused:
        answer = call(**{f"{last}x": None})
        if inspect.iscoroutine(answer):
            answer.send(None)
    assert str(refused.value).partition(";")[0].endswith(f"{name.rpartition('.')[2]}() has no argument '{last}x'")


def test_the_walk_sees_the_surface() -> None:
    assert {"stage", "Provider", "Limit", "App.job", "App.schedule", "Context.effect"} <= {*NAMED}
    assert {"Client.open", "Client.result", "console", "Lifespan", "world", "World.script"} <= {*NAMED}
    assert [name for name in CALLS if name.rpartition(".")[2] in OPTIONS_OF_A_JOB and name in NAMED] == []


def test_the_nearest_name_is_named_and_so_are_all() -> None:
    with pytest.raises(TypeError) as refused:
        holdfast.Limit(per="owner", at_onc=5)  # type: ignore[call-arg]
    assert str(refused.value) == (
        "Limit() has no argument 'at_onc'; did you mean 'at_once'? It takes per, at_once, per_minute."
    )


def test_what_a_call_raises_itself_is_left_as_it_is() -> None:
    @give_names
    def call(*, wanted: int) -> int:
        return wanted + "x"  # type: ignore[operator, no-any-return]

    with pytest.raises(TypeError, match="unsupported operand"):
        call(wanted=1)


def test_a_coroutine_function_is_still_known_as_one() -> None:
    assert inspect.iscoroutinefunction(holdfast.Client.status)
    assert not inspect.iscoroutinefunction(holdfast.SyncClient.status)


def test_a_misspelt_public_name_is_answered_too() -> None:
    with pytest.raises(AttributeError, match="did you mean 'Provider'"):
        holdfast.Provder  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("task", "; declare a job with @app.job() above a class."),
        ("stage", "; write @stage() with `from holdfast import stage`."),
        ("send_task", "; write enqueue(connection, Job, input), or open a Client."),
        ("run", "; a worker is run by `holdfast worker --app module:app`."),
        ("periodic", "; write app.schedule(cron, Job, input)."),
        ("shedule", "; did you mean 'schedule'?"),
        ("wobble", "."),
        ("_repr_html_", "."),
    ],
)
def test_a_name_that_an_app_does_not_have_is_answered_with_the_way_out(name: str, way_out: str) -> None:
    with pytest.raises(AttributeError) as refused:
        getattr(App("shop"), name)
    assert str(refused.value) == f"An App has no '{name}'{way_out}"
