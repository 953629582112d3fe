"""Arguments of a declaration that are of the wrong type are refused where they stand, whatever the argument is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pytest
from pydantic import BaseModel

from holdfast import App, Breaker, CallError, Context, Job, Principal, Provider, Retry, stage
from holdfast.errors import BadDeclaration
from holdfast.transports.seam import Queue

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


async def work(self: Any, ctx: Context, number: int) -> None: ...
async def take_nothing() -> int: ...
def bring_nothing() -> int: ...
def take_at_once(kernel: Any) -> int: ...
async def answer_later(self: Any, *parts: Any) -> Any: ...


def with_body(**body: Any) -> Callable[[App], Any]:
    return lambda app: app.job()(type("Ship", (Job,), {"__orig_bases__": (Job[int],), "pack": stage()(work), **body}))


def with_context_as(context: Any) -> Callable[[App], Any]:
    async def pack(self: Any, ctx: Any, number: int) -> None: ...

    pack.__annotations__["ctx"] = context
    return with_body(pack=stage()(pack))


def step_of(function: Any) -> Callable[[App], Any]:
    return lambda app: app.step(every_s=5)(function)


class Unfinished(BaseModel):
    other: "Nowhere"  # type: ignore[name-defined]  # noqa: F821, UP037


MISTAKES: list[tuple[Callable[[App], Any], str]] = [
    (with_body(send=work), "'Ship.pack' and 'Ship.send' are one function, which keeps one @stage(): write a method"),
    (with_context_as(App), "The stage 'Ship.pack' takes its context, 'ctx', as App: a stage takes (self, ctx: Context"),
    (lambda app: ship(app, {"cpu": "no"}), "The stage 'Ship.pack' has cpu='no'; it must be True or False."),
    (
        lambda app: ship(app, {"retry_on": (BaseException,)}),
        "'Ship.pack' names BaseException in retry_on; name classes",
    ),
    (lambda app: ship(app, {"never": (SystemExit,)}), "names SystemExit in never; name classes of what it may fail"),
    (lambda app: ship(app, {"reads": (5,)}), "reads=(5,) must be fields of the input: write reads=('field',)."),
    (lambda app: ship(app, {"upgrade": take_nothing}), "must be a function that takes a stored result."),
    (
        lambda app: ship(app, version=2, upgrade={"1": lambda old: old}),
        "'Ship' has an upgrade from version '1'; write upgrade={1: function}.",
    ),
    (
        lambda app: ship(app, version=2, upgrade={1: bring_nothing}),
        "The upgrade of 'Ship' from version 1 must take one argument, the stored input.",
    ),
    (lambda app: ship(app, fair_by="owner", weights={None: 2}), "'Ship' gives a weight to None; keys are texts or"),
    (lambda app: app.job()(object()), "@app.job() stands above an instance of object; it must stand above the class."),  # type: ignore[type-var]
    (with_body(on_settled=None), "'Ship.on_settled' must be an async function that takes (self, tx, change)."),
    (with_body(public_failure=answer_later), "'Ship.public_failure' must be a plain function that takes (self, why, "),
    (with_body(log_fields=lambda self: {}), "'Ship.log_fields' must take (self, fields)."),
    (with_body(corrected=lambda *parts: None), "'Ship.corrected' must be an async function that takes (self, kernel"),
    (with_body(on_failure=answer_later), "'Ship.on_failure' is called by nobody; did you mean on_settled(self, tx, "),
    (step_of(take_at_once), "A step of 'shop' must be an async def, and 'take_at_once' is a plain function."),
    (step_of(take_nothing), "A step of 'shop' is 'take_nothing', which must take one argument."),
    (lambda app: app.consume("orders")(work), "A consumer needs the Queue that it takes messages of, not 'orders'."),  # type: ignore[arg-type]
    (
        lambda app: app.consume(Queue("orders"))(take_at_once),  # type: ignore[type-var]
        "The consumer of 'orders' must be an async def, and 'take_at_once' is a plain function.",
    ),
    (
        lambda app: app.job()(type("Ship", (Job,), {"__orig_bases__": (Job[Unfinished],), "pack": stage()(work)})),
        "'Ship' uses a type that cannot be stored as JSON: name 'Nowhere' is not defined; use",
    ),
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
    (scheduled("*/5 * * * * *"), "The schedule '*/5 * * * * *' is not five valid cron fields: Wrong number of fields."),
    (scheduled(overlap=False), "App.schedule() takes overlap as 'allow' or 'skip', not False."),
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


T = TypeVar("T")
S = TypeVar("S")


class Noted(Job[list[T], S], Generic[T, S]):
    """A base of one's own, with what several jobs need and no stage."""

    def note(self, things: list[T]) -> str:
        return f"{len(things)} noted"


class Numbers(Noted[int, S], Generic[S]): ...


def test_a_generic_base_says_what_its_jobs_take() -> None:
    @App("shop").job()
    class Count(Numbers[str]):
        @stage()
        async def count(self, ctx: Context, numbers: list[int]) -> str:
            return self.note(numbers)

    assert Count.__holdfast__.load_input("[1, 2]") == [1, 2]
    with pytest.raises(BadDeclaration, match=r"'Wrong' is a Job that ends with str, but its last stage .* returns int"):

        @App("shop").job()
        class Wrong(Numbers[str]):
            @stage()
            async def count(self, ctx: Context, numbers: list[int]) -> int:
                return len(numbers)


def test_a_job_may_be_a_frozen_dataclass_and_weights_may_be_numbers() -> None:
    @App("shop").job(fair_by="number", weights={7: 3})  # type: ignore[dict-item]
    @dataclass(frozen=True)
    class Ship(Job[dict[str, int]]):
        rate: int = 3

        @stage()
        async def pack(self, ctx: Context, parcel: dict[str, int]) -> int:
            return self.rate

    kind = Ship.__holdfast__
    assert kind.turns is not None and kind.turns.weights == {"7": 3}


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
        (lambda: Provider("bank", lookup=take_nothing), "'bank' has a lookup that must take one argument."),  # type: ignore[arg-type]
        (lambda: Provider("bank", classify=lambda: None), "'bank' has a classify that must take one argument."),  # type: ignore[arg-type,misc]
        (lambda: Principal("ann", "operator"), "The roles of a Principal are a set"),  # type: ignore[arg-type]
        (
            lambda: App("shop").schedule("nightly", "0 3 * * *", ship(App("shop")), 1),  # type: ignore[arg-type, call-arg, misc]
            "App.schedule() takes 4 positional arguments but 5 were given; it takes cron, job, input; by name: name,",
        ),
        (lambda: CallError.of("x", "Y", "z"), "A CallError needs a Category"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_value_of_a_policy_is_named(make: Callable[[], Any], sentence: str) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        make()
    assert sentence in str(refused.value)
