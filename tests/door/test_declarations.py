"""A declaration that cannot work is refused when it is made, in one sentence that names the thing and the way out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import new_class
from typing import Annotated, Any, Literal, NewType, TypedDict

import pytest

from holdfast import App, Context, Discard, Job, Provider, stage
from holdfast.errors import BadDeclaration
from holdfast.kernel.declare.types import may_hold

pytestmark = pytest.mark.spec("K6")


@dataclass
class Order:
    id: int


class Page(TypedDict):
    text: str


UserId = NewType("UserId", int)


def stage_without_parentheses(app: App) -> None:
    class Ship(Job[Order]):
        @stage  # type: ignore[arg-type]
        async def pack(self, ctx: Context, order: Order) -> None: ...


def job_without_parentheses(app: App) -> None:
    @app.job  # type: ignore[arg-type]
    class Ship(Job[Order]):
        @stage()
        async def pack(self, ctx: Context, order: Order) -> None: ...


def inherited_stage(app: App) -> None:
    class Base(Job[Order]):
        @stage()
        async def pack(self, ctx: Context, order: Order) -> str:
            return ""

    @app.job()
    class Ship(Base):
        @stage()
        async def send(self, ctx: Context, order: Order, pack: str) -> None: ...


def stage_replaced_without_its_mark(app: App) -> None:
    class Base(Job[Order]):
        @stage()
        async def pack(self, ctx: Context, order: Order) -> str:
            return ""

    @app.job()
    class Ship(Base):
        async def pack(self, ctx: Context, order: Order) -> str:
            return ""

        @stage()
        async def send(self, ctx: Context, order: Order) -> None: ...


def result_of_another_type(app: App) -> None:
    @app.job()
    class Ship(Job[Order]):
        @stage()
        async def pack(self, ctx: Context, order: Order) -> str:
            return ""

        @stage()
        async def send(self, ctx: Context, order: Order, pack: int) -> None: ...


def input_of_another_type(app: App) -> None:
    @app.job()
    class Ship(Job[Order]):
        @stage()
        async def pack(self, ctx: Context, order: str) -> None: ...


def input_before_the_context(app: App) -> None:
    @app.job()
    class Ship(Job[Order]):
        @stage()
        async def pack(self, order: Order, ctx: Context) -> None: ...


def sync_stage(app: App) -> None:
    @app.job()
    class Ship(Job[Order]):
        @stage()  # type: ignore[type-var]
        def pack(self, ctx: Context, order: Order) -> None: ...


def job_without_input(app: App) -> None:
    @app.job()
    class Ship(Job):  # type: ignore[type-arg]
        @stage()
        async def pack(self, ctx: Context, order: Order) -> None: ...


def stage_without_context(app: App) -> None:
    @app.job()
    class Ship(Job[Order]):
        @stage()
        async def pack(self, order: Order) -> None: ...


def job_without_stage(app: App) -> None:
    @app.job()
    class Ship(Job[Order]): ...


def result_of_nobody(app: App) -> None:
    @app.job()
    class Ship(Job[Order]):
        @stage()
        async def pack(self, ctx: Context, order: Order, label: bytes) -> None: ...


def two_results_alike(app: App) -> None:
    @app.job()
    class Ship(Job[Order]):
        @stage()
        async def pack(self, ctx: Context, order: Order) -> str:
            return ""

        @stage()
        async def label(self, ctx: Context, order: Order) -> str:
            return ""

        @stage()
        async def send(self, ctx: Context, order: Order, text: str) -> None: ...


def stage_with(**options: Any) -> Callable[[App], None]:
    def declare(app: App) -> None:
        @app.job()
        class Ship(Job[Order]):
            @stage(**options)
            async def pack(self, ctx: Context, order: Order) -> None: ...

    declare.__name__ = f"stage_with_{'_'.join(options)}"
    return declare


def declared(app: App) -> type[Job[Order]]:
    @app.job()
    class Ship(Job[Order]):
        @stage()
        async def pack(self, ctx: Context, order: Order) -> None: ...

    return Ship


def declared_twice(app: App) -> None:
    declared(app)
    declared(app)


def two_providers_of_one_name(app: App) -> None:
    app.provider(Provider("bank"))
    app.provider(Provider("bank", per_minute=5))


def schedule_with_a_wrong_input(app: App) -> None:
    app.schedule("0 3 * * *", declared(app), {"id": "many"}, name="nightly")  # type: ignore[arg-type]


def schedule_of_an_undeclared_job(app: App) -> None:
    class Ship(Job[Order]):
        @stage()
        async def pack(self, ctx: Context, order: Order) -> None: ...

    app.schedule("0 3 * * *", Ship, Order(1))


def schedule_twice(app: App) -> None:
    ship = declared(app)
    app.schedule("0 3 * * *", ship, Order(1), name="nightly")
    app.schedule("0 4 * * *", ship, Order(2), name="nightly")


def bad_cron(app: App) -> None:
    app.schedule("61 * * * *", declared(app), Order(1))


def hook_with(hook: Callable[..., Any], name: str = "on_settled") -> Callable[[App], None]:
    def declare(app: App) -> None:
        @stage()
        async def pack(self: Any, ctx: Context, order: Order) -> None: ...

        app.job()(new_class("Ship", (Job[Order],), {}, lambda body: body.update({"pack": pack, name: hook})))

    declare.__name__ = f"hook_{hook.__name__}_as_{name}"
    return declare


async def taking_a_kernel(self: Any, kernel: Any, tx: Any, change: Any) -> None: ...
async def taking_both(self: Any, tx: Any, change: Any) -> None: ...
def not_async(self: Any, tx: Any, change: Any) -> None: ...


def another_result_than_the_last_stage(app: App) -> None:
    @app.job()
    class Ship(Job[Order, int]):
        @stage()
        async def pack(self, ctx: Context, order: Order) -> str:
            return ""


def class_method(app: App) -> None:
    @app.job()
    class Ship(Job[Order]):
        @stage()
        @classmethod
        async def pack(cls, ctx: Context, order: Order) -> None: ...


def instance_with_arguments(app: App) -> None:
    @app.job()
    class Ship(Job[Order]):
        def __init__(self, mailer: str) -> None: ...

        @stage()
        async def pack(self, ctx: Context, order: Order) -> None: ...


def name_with_spaces(app: App) -> None:
    @app.job(name="ship it")
    class Ship(Job[Order]):
        @stage()
        async def pack(self, ctx: Context, order: Order) -> None: ...


def former_name_as_text(app: App) -> None:
    @app.job()
    class Ship(Job[Order]):
        @stage(formerly="wrap")
        async def pack(self, ctx: Context, order: Order) -> None: ...


def schedule_of_another_app(app: App) -> None:
    @App("stock").job()
    class Ship(Job[Order]):
        @stage()
        async def pack(self, ctx: Context, order: Order) -> None: ...

    app.schedule("0 3 * * *", Ship, Order(1))


MISTAKES: list[tuple[Callable[[App], Any], str]] = [
    (class_method, "The stage 'Ship.pack' is a classmethod; it must be a method that takes (self, ctx, input)."),
    (instance_with_arguments, "argument: 'mailer'; it is made without arguments, once for all jobs"),
    (name_with_spaces, "'Ship' has the name 'ship it'; it must be up to 200 letters, digits, '_', '-', '.'."),
    (former_name_as_text, "formerly='wrap' must be the names that the stage had: write formerly=('old',)."),
    (schedule_of_another_app, "'stock.ship' is not a job of the app 'shop'; schedule it in its own app."),
    (stage_without_parentheses, "@stage above 'pack' lacks its parentheses: write @stage()."),
    (job_without_parentheses, "@app.job above 'Ship' lacks its parentheses: write @app.job()."),
    (inherited_stage, "'Ship' inherits the stage 'pack' from 'Base', "),
    (stage_replaced_without_its_mark, "write 'pack' in 'Ship', with @stage() above it."),
    (result_of_another_type, "The stage 'Ship.send' takes 'pack' as int, but the stage 'pack' returns str; "),
    (input_of_another_type, "The stage 'Ship.pack' takes 'order' as str, but the job's input is Order; "),
    (input_before_the_context, "The stage 'Ship.pack' takes its context, 'order', as Order: a stage takes (self, ctx:"),
    (sync_stage, "The stage 'Ship.pack' is a plain def: its ctx is a SyncContext, whose methods are not awaited; "),
    (job_without_input, "'Ship' must say what it takes: class Ship(Job[YourInput])."),
    (stage_without_context, "The stage 'Ship.pack' takes its context, 'order', as Order: a stage takes (self, ctx: "),
    (job_without_stage, "'Ship' has no stage; mark at least one method with @stage()."),
    (result_of_nobody, "The stage 'Ship.pack' asks for 'label', but no earlier stage returns that type; name the"),
    (two_results_alike, "The stage 'Ship.send' asks for 'text', but several earlier stages return that type; name"),
    (stage_with(retry=3), "The stage 'Ship.pack' has a retry of 3; write retry=Retry(attempts=...)."),
    (stage_with(provider="bank"), "The stage 'Ship.pack' has a provider of 'bank'; write provider=Provider(...)."),
    (stage_with(timeout_s=0), "The stage 'Ship.pack' has a timeout_s of 0; it must be a number of seconds above 0."),
    (stage_with(retry_on=[OSError]), "The stage 'Ship.pack' has a retry_on that is not a tuple of exception classes."),
    (stage_with(reads=["price"]), "The stage 'Ship.pack' reads 'price', which the input does not have."),
    (declared_twice, "The job kind 'shop.ship' is declared twice."),
    (two_providers_of_one_name, "Two different providers are named 'bank'."),
    (schedule_with_a_wrong_input, "The schedule 'nightly' cannot run: The input of 'shop.ship' does not fit: id: "),
    (schedule_of_an_undeclared_job, "The job class 'Ship' is not declared; write @app.job() above it."),
    (schedule_twice, "The schedule 'nightly' is declared twice; give one of them another name=."),
    (hook_with(taking_a_kernel), "'Ship.on_settled' must take (self, tx, change)."),
    (hook_with(not_async), "'Ship.on_settled' must be an async function that takes (self, tx, change)."),
    (hook_with(taking_both, "settled"), "'Ship.settled' is called by nobody; did you mean on_settled(self, tx, "),
    (hook_with(taking_both, "on_setled"), "'Ship.on_setled' is called by nobody; did you mean on_settled(self, "),
    (another_result_than_the_last_stage, "'Ship' is a Job that ends with int, but its last stage 'pack' returns str; "),
    (bad_cron, "The schedule '61 * * * *' is not five valid cron fields: "),
]


@pytest.mark.parametrize(("declare", "sentence"), MISTAKES, ids=[each.__name__ for each, _ in MISTAKES])
def test_a_mistake_in_a_declaration_is_named(declare: Callable[[App], Any], sentence: str) -> None:
    with pytest.raises(BadDeclaration) as refused:
        declare(App("shop"))
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("wanted", "given", "fits"),
    [
        (str, str, True),
        (str, int, False),
        (float, int, True),
        (int, float, False),
        (Any, int, True),
        (object, int, True),
        (str | None, str, True),
        (str, str | None, True),
        (str, None | int, False),
        (dict[str, Any], Page, True),
        (Page, str, False),
        (Mapping[str, int], dict[str, int], True),
        (list[int], list[str], False),
        (list[int], list[int | None], True),
        (Literal["a", "b"], str, True),
        (Literal["a"], int, False),
        (UserId, int, True),
        (UserId, str, False),
        (Annotated[int, "positive"], int, True),
        (Order, dict[str, Any], False),
        (BaseException, ValueError, True),
    ],
)
def test_only_types_that_never_fit_are_refused(wanted: Any, given: Any, fits: bool) -> None:
    assert may_hold(wanted, given) is fits


def test_an_answer_besides_the_value_is_no_part_of_the_result() -> None:
    app = App("answers")

    @app.job()
    class Ship(Job[Order]):
        @stage()
        async def pack(self, ctx: Context, order: Order) -> str | Discard:
            return ""

        @stage()
        async def send(self, ctx: Context, order: Order, pack: str) -> None: ...

    assert app.kinds["answers.ship"].stages[1].needs == ("pack",)
