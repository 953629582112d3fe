"""What stands above or below `@stage()` and is no method that a worker could run is refused where it is declared."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import new_class
from typing import Any

import pytest

from holdfast import App, Context, Job, SyncContext, stage
from holdfast.errors import BadDeclaration

pytestmark = pytest.mark.spec("K6")


@dataclass
class Order:
    id: int


async def pack(self: Any, ctx: Context, order: Order) -> str:
    return ""


def declare(**body: Any) -> Any:
    return App("shop").job()(new_class("Ship", (Job[Order],), {}, lambda names: names.update(body)))


def hide(function: Callable[..., Any]) -> Any:
    async def wrapper(*args: Any) -> Any:
        return await function(*args)

    return wrapper


def make_plain(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


async def with_rest(self: Any, ctx: Context, order: Order, *parts: str) -> None: ...
async def with_rest_alone(self: Any, ctx: Context, *parts: str) -> None: ...
async def by_name_only(self: Any, ctx: Context, order: Order, *, label: str) -> None: ...
async def of_a_later(self: Any, ctx: Context, order: Order, send: str) -> None: ...


async def send(self: Any, ctx: Any, order: Order, pack: str) -> None: ...
def send_at_once(self: Any, context: SyncContext, order: Order) -> None: ...


async def pack_and_send(self: Any, ctx: Context, order: Order) -> None:
    await asyncio.gather(*[self.send(ctx, order, part) for part in "ab"])


def marked(function: Any = pack) -> Any:
    return stage()(function)


HIDDEN = "The stage 'Ship.pack' is hidden by what stands above its @stage(): put @stage() on top"
MISTAKES: list[tuple[Callable[[], object], str]] = [
    (lambda: declare(pack=marked(functools.partial(pack))), "The stage 'Ship.pack' is a partial; it must be a method"),
    (lambda: declare(pack=marked(staticmethod(pack))), "The stage 'Ship.pack' is a staticmethod; it must be a method"),
    (lambda: marked(property(pack)), "@stage() stands above a property; it must stand above a method."),
    (lambda: declare(pack=staticmethod(marked())), HIDDEN),
    (lambda: declare(pack=classmethod(marked())), HIDDEN),
    (lambda: declare(pack=property(marked())), HIDDEN),
    (lambda: declare(pack=hide(marked()), send=marked(of_a_later)), HIDDEN),
    (lambda: declare(pack=marked(make_plain(pack))), "a decorator between it and @stage() makes it a plain function;"),
    (lambda: declare(pack=marked(with_rest)), "The stage 'Ship.pack' takes '*parts: 'str'', which is not given by its"),
    (lambda: declare(pack=marked(with_rest_alone)), "The stage 'Ship.pack' must take (self, ctx, input)"),
    (lambda: declare(pack=marked(by_name_only)), "write 'label' before any '*'"),
    (lambda: declare(pack=marked(of_a_later), send=marked()), "asks for 'send', which does not run before it; move it"),
    (lambda: App("stock").job()(declare(pack=marked())), "'Ship' is declared as 'shop.ship' already, and cannot be"),
    (
        lambda: declare(pack=marked(), send=send),
        "'Ship.send' takes a context, but is no stage, and no method of 'Ship'",
    ),
    (lambda: declare(pack=marked(), send=send_at_once), "'Ship.send' takes a context, but is no stage"),
    (lambda: new_type("Order"), "'Ship' names its type by the text 'Order'; write the class itself, above it."),
    (lambda: App("shop").provider("bank"), "The app 'shop' has a provider of 'bank'; write provider=Provider(...)."),  # type: ignore[arg-type]
    (lambda: App("shop").job(seals=[1])(new_ship()), "'Ship' seals 1, which is no path of a field; write ('field',)."),  # type: ignore[list-item]
]


def new_ship() -> Any:
    return new_class("Ship", (Job[Order],), {}, lambda names: names.update(pack=marked()))


def new_type(name: str) -> object:
    body: dict[str, Any] = {"pack": marked()}
    return App("shop").job()(new_class("Ship", (Job[name],), {}, lambda names: names.update(body)))  # type: ignore[valid-type]


@pytest.mark.parametrize(("make", "sentence"), MISTAKES, ids=[sentence[:50] for _, sentence in MISTAKES])
def test_what_cannot_be_run_as_a_stage_is_named(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(BadDeclaration) as refused:
        make()
    assert sentence in str(refused.value)


def test_a_method_that_a_stage_calls_or_that_is_private_is_no_forgotten_stage() -> None:
    declared = declare(pack=marked(pack_and_send), send=send, _later=send)
    assert [each.name for each in declared.__holdfast__.stages] == ["pack"]


def test_a_decorator_that_keeps_the_mark_hides_nothing() -> None:
    def keep(function: Callable[..., Any]) -> Any:
        return functools.wraps(function)(hide(function))

    assert [each.name for each in declare(pack=keep(marked())).__holdfast__.stages] == ["pack"]
