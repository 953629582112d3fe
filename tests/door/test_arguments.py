"""Arguments of a declaration that are of the wrong type are refused where they stand, whatever the argument is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import App, Breaker, CallError, Context, Job, Principal, Provider, Retry, stage
from holdfast.errors import BadDeclaration

pytestmark = pytest.mark.spec("K6")


def ship(app: App, stage_options: dict[str, Any] | None = None, **options: Any) -> type[Job[int]]:
    @app.job(**options)
    class Ship(Job[int]):
        @stage(**(stage_options or {}))
        async def pack(self, ctx: Context, number: int) -> str: ...

    return Ship


def a_method_named(name: str) -> Callable[[App], Any]:
    async def method(self: Any) -> None: ...

    def declare(app: App) -> None:
        body = {"pack": ship(App("other")).pack, name: method, "__orig_bases__": (Job[int],)}  # type: ignore[attr-defined]
        app.job()(type("Ship", (Job,), body))

    return declare


def two_stages_of_one_name(app: App) -> None:
    class Ship(Job[int]):
        @stage()
        async def pack(self, ctx: Context, number: int) -> str: ...

        @stage()
        async def pack(self, ctx: Context, number: int) -> str: ...  # type: ignore[no-redef]  # noqa: F811


def a_stage_with_the_name_of_a_hook(app: App) -> None:
    @app.job()
    class Ship(Job[int]):
        @stage()
        async def on_settled(self, ctx: Context, number: int) -> None: ...  # type: ignore[override]


def scheduled(cron: Any = "* * * * *", **options: Any) -> Callable[[App], Any]:
    return lambda app: app.schedule(cron, ship(app), 1, **options)


MISTAKES: list[tuple[Callable[[App], Any], str]] = [
    (lambda app: ship(app, deadline_s="x"), "App.job() takes deadline_s as a number or None, not 'x'."),
    (lambda app: ship(app, deadline_s=True), "App.job() takes deadline_s as a number or None, not True."),
    (lambda app: ship(app, priority="high"), "App.job() takes priority as a whole number, not 'high'."),
    (lambda app: ship(app, retries="3"), "App.job() takes retries as a whole number or None, not '3'."),
    (lambda app: ship(app, queue=5), "App.job() takes queue as a text or None, not 5."),
    (lambda app: ship(app, search="id"), "App.job() takes search as a tuple, as ('name',), not 'id'."),
    (lambda app: ship(app, upgrade=[1]), "App.job() takes upgrade as a dictionary or None, not [1]."),
    (
        lambda app: ship(app, version=2, upgrade={1: 5}),
        "'Ship' has an upgrade from version 1 that is no function, but 5.",
    ),
    (lambda app: ship(app, {"reads": "id"}), "reads='id' must be fields of the input: write reads=('field',)."),
    (lambda app: ship(app, {"upgrade": 5}), "upgrade=5 must be a function that takes a stored result."),
    (scheduled(5), "App.schedule() takes cron as a text, not 5."),
    (scheduled(timezone=5), "App.schedule() takes timezone as a text, not 5."),
    (scheduled(jitter_s="x"), "App.schedule() takes jitter_s as a number, not 'x'."),
    (scheduled(name=""), "The schedule of 'shop.ship' has the name ''; it must be 1 to 200 characters."),
    (lambda app: App("shop", schema=5), "The schema '5' must be a small letter"),  # type: ignore[arg-type]
    (two_stages_of_one_name, "has two stages 'pack'; give one of them another name."),
    (a_stage_with_the_name_of_a_hook, "'Ship.on_settled' is a stage, but that is the name of a hook; rename it."),
    (a_method_named("corected"), "'Ship.corected' is called by nobody; did you mean corrected?"),
    (a_method_named("public_failures"), "'Ship.public_failures' is called by nobody; did you mean public_failure?"),
]


@pytest.mark.parametrize(("declare", "sentence"), MISTAKES, ids=[sentence for _, sentence in MISTAKES])
def test_a_wrong_argument_is_named(declare: Callable[[App], Any], sentence: str) -> None:
    with pytest.raises(BadDeclaration) as refused:
        declare(App("shop"))
    assert sentence in str(refused.value)


@pytest.mark.parametrize("name", ["correct", "log", "take", "settle_up"])
def test_methods_of_ones_own_may_have_any_other_name(name: str) -> None:
    a_method_named(name)(App("shop"))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Retry(attempts=2.5), "attempts of 2.5, with the first call, must be a whole number of 1 or more"),  # type: ignore[arg-type]
        (lambda: Breaker(window=2.5), "window of 2.5 must be a whole number of 1 or more"),  # type: ignore[arg-type]
        (lambda: Provider("a\nb"), "needs a name of up to 200 characters, without line breaks"),
        (lambda: Provider("x" * 201), "needs a name of up to 200 characters"),
        (lambda: Principal("ann", "operator"), "The roles of a Principal are a set"),  # type: ignore[arg-type]
        (
            lambda: App("shop").schedule("nightly", "0 3 * * *", ship(App("shop")), 1),  # type: ignore[arg-type, call-arg, misc]
            "App.schedule() takes 4 positional arguments but 5 were given; it takes cron, job, input, name, timezone,",
        ),
        (lambda: CallError.of("x", "Y", "z"), "A CallError needs a Category"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_value_of_a_policy_is_named(make: Callable[[], Any], sentence: str) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        make()
    assert sentence in str(refused.value)
