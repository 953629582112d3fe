"""Declared search fields find a job of any age, are kept by every way in, and hold nothing that is masked elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.kernel.places import Deploy

from holdfast import App, CallError, Category, Context, Job, Retry, stage
from holdfast.errors import BadDeclaration
from holdfast.kernel.declare.search_terms import terms_of
from holdfast.kernel.hands.correct import correct
from holdfast.kernel.submit import submit_many
from holdfast.operator.desk import Desk
from holdfast.operator.jobs import query_jobs
from holdfast.operator.page import ListPage
from holdfast.stores.statement import _statement
from holdfast.system import OpenSystem, System
from holdfast.tables import search

pytestmark = pytest.mark.spec("K17")
app = App("shop")
STALE = "SELECT value FROM holdfast_search WHERE value = 'wrong'"


@dataclass
class Order:
    item: str


@app.job(search=("order_id", "lines.sku"))
class Sell(Job[dict[str, Any]]):
    @stage(retry=Retry(attempts=1))
    async def charge(self, ctx: Context, order: dict[str, Any]) -> str:
        if order.get("fails"):
            raise CallError.of(Category.VALIDATION, "BAD_ORDER", "It cannot be sold.")
        return "paid"

    @stage()
    async def split(self, ctx: Context, order: dict[str, Any]) -> int:
        if "children" not in order:
            return 0
        return len(await ctx.gather(Sell, [{"order_id": f"child-{n}"} for n in range(order["children"])]))


@app.job()
class Pack(Job[dict[str, Any]]):
    @stage()
    async def wrap(self, ctx: Context, order: dict[str, Any]) -> str:
        return "wrapped"


def test_terms_are_values_in_small_letters_of_lists_too_and_never_what_is_masked() -> None:
    document = '{"order_id": 7, "lines": [{"sku": "A-1"}, {"sku": " b-2 "}], "password": "hunter2222", "o": {"x": 1}}'
    assert terms_of(("order_id", "lines.sku", "o", "nothing"), document) == (
        ("order_id", "7"),
        ("lines.sku", "a-1"),
        ("lines.sku", "b-2"),
    )
    assert terms_of(("password",), document) == ()


def test_a_field_that_is_no_field_of_the_input_is_refused() -> None:
    with pytest.raises(BadDeclaration, match="searches 'itme', which is no field"):

        @App("other").job(search=("itme",))
        class Sale(Job[Order]):
            @stage()
            async def charge(self, ctx: Context, order: Order) -> str:
                return "paid"


async def test_a_job_is_found_by_its_declared_fields_whatever_its_age(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await deploy(app)
    desk = Desk([OpenSystem(System("shop", "shop", "DATABASE_URL", lambda env: app), world.kernel, {})])
    old = await world.enqueue(Sell, {"order_id": 7, "lines": [{"sku": "A-1"}]}, owner="ann")
    packed = await world.enqueue(Pack, {"order_id": 7})
    many = await submit_many(world.kernel, Sell, [{"order_id": number} for number in range(100, 400)])
    parent = await world.enqueue(Sell, {"order_id": "parent", "children": 2})
    dead = await world.enqueue(Sell, {"order_id": "wrong", "fails": True})
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    await correct(world.kernel, letter["id"], actor="olga", values={"order_id": "right"})
    async with world.kernel.store.reading() as tx:
        assert not await tx.rows(_statement("stale", {None: STALE})), "what was corrected is not kept"
    monkeypatch.setattr(search, "PAYLOADS_MAX", 1)  # as if a great many had come since

    async def found(text: str) -> set[str]:
        return {item["id"] for item in (await query_jobs(desk, ListPage(), text))["items"]}

    assert await found("kind:shop.sell input.order_id:7") == {old}
    assert await found("input.order_id:7") == {old}
    assert await found("input.lines.sku:a-1 owner:ann") == {old}
    assert await found("input.order_id:7 owner:ben") == set()
    assert await found("input.order_id:7 input.sku:a-1") == {old}
    assert await found("input.order_id:399") == {many[-1]}
    assert len(await found("input.order_id:child-1")) == 1
    assert await found("input.order_id:wrong") == set()
    assert await found("input.order_id:right state:dead") == {dead}
    monkeypatch.undo()
    assert await found("input.order_id:7") == {old, packed}, "kinds that do not declare it are looked into as before"
    assert await found("kind:shop.sell input.order_id:7") == {old}
    assert await found("input.order_id:parent") == {parent}
