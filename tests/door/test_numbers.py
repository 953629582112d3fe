"""NaN and infinity are no numbers, wherever one is given: in settings, declarations and commands."""

from __future__ import annotations

from dataclasses import fields
from math import inf, nan

import pytest

from holdfast import App, Breaker, Context, Job, Provider, Retry, stage
from holdfast.errors import BadDeclaration, InvalidInput
from holdfast.kernel.kernel import Tuning
from holdfast.kernel.upkeep.schedule import check_cron
from holdfast.main import load_systems
from holdfast.settings import Settings, problems
from tests.command_line import invoke

pytestmark = pytest.mark.spec("K30")
ODD = [nan, inf, -inf]


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "-Infinity", "1e999", "1e308", "9" * 19, "1" + "0" * 400])
def test_no_setting_of_any_group_takes_one_or_what_becomes_one(text: str) -> None:
    groups = [Settings, *(group for system in load_systems() for group in system.settings)]
    numbers = [(group, each) for group in groups for each in fields(group) if type(each.default) in (int, float)]
    assert len(numbers) > 60
    answers = {each.metadata["env"]: problems(group, {each.metadata["env"]: text}) for group, each in numbers}
    assert [name for name, answer in answers.items() if not answer] == []
    assert max(len(sentence) for answer in answers.values() for sentence in answer) < 300


@pytest.mark.parametrize("odd", ODD)
def test_no_declaration_takes_one(odd: float) -> None:
    app = App("odd")
    for values in (Retry, Breaker, Tuning):
        for each in fields(values):
            if each.type in ("float", float):
                assert _refuses(values, **{each.name: odd}), f"{values.__name__}.{each.name}"
    assert _refuses(Provider, name="p", timeout_s=odd) and _refuses(app.step, every_s=odd)
    with pytest.raises(BadDeclaration):
        check_cron("* * * * *", jitter_s=odd)
    with pytest.raises(BadDeclaration):

        @app.job(deadline_s=odd)
        class Late(Job[str]):
            @stage()
            async def only(self, ctx: Context, input: str) -> None: ...

    with pytest.raises(BadDeclaration):

        @app.job()
        class Slow(Job[str]):
            @stage(timeout_s=odd)
            async def only(self, ctx: Context, input: str) -> None: ...


def _refuses(make: object, **given: object) -> bool:
    assert callable(make)
    try:
        made = make(**given)
    except (BadDeclaration, InvalidInput, ValueError):
        return True
    return bool(made.problems()) if isinstance(made, Tuning) else False


@pytest.mark.parametrize(
    "command",
    [
        "token --user a --role learner --hours {}",
        "schedules add a * x {{}} --jitter-sec {}",
        "dead bulk replay --kind x --per-minute {}",
        "simulate --minutes {}",
    ],
)
@pytest.mark.parametrize("text", ["nan", "inf", "1e300"])
def test_no_command_takes_one(command: str, text: str) -> None:
    ran = invoke(command.format(text).split(" "))
    assert ran.exit_code == 2 and "Invalid value" in ran.output, ran.output


def test_the_least_of_a_bound_is_taken_and_less_is_not() -> None:
    app = App("least")

    @app.job(retries=0)
    class Never(Job[str]):
        @stage()
        async def only(self, ctx: Context, input: str) -> None: ...

    assert app.kinds["least.never"].stages[0].plan.retries_in_all == 0
    assert _refuses(app.step, every_s=0) and _refuses(app.step, every_s=-1.0)
    for wrong in ({"retries": -1}, {"priority": 4}, {"deadline_s": 0}):
        assert _refuses(lambda wrong=wrong: app.job(**wrong)(Never)), wrong
