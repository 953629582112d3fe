"""What a process has loaded: apps that fit together, in one schema."""

from __future__ import annotations

import pytest

from holdfast import App, Context, Job, Provider, stage
from holdfast.errors import BadDeclaration
from holdfast.kernel.kernel import Registry

pytestmark = pytest.mark.spec("K1")


def declared(app: App, name: str = "shop.order") -> type[Job[str]]:
    @app.job(name=name)
    class Order(Job[str]):
        @stage()
        async def run(self, ctx: Context, text: str) -> None: ...

    return Order


def test_two_apps_declare_no_kind_and_no_provider_twice() -> None:
    first, second = App("shop"), App("stall")
    declared(first), declared(second)
    with pytest.raises(BadDeclaration, match=r"Two loaded apps declare the job kind 'shop\.order'\."):
        Registry([first, second])
    for app, timeout_s in ((first, 1.0), (second, 2.0)):
        app.kinds.clear()
        app.provider(Provider("bank", timeout_s=timeout_s))
    with pytest.raises(BadDeclaration, match=r"different providers named 'bank'\."):
        Registry([first, second])
    second.providers.clear()
    assert Registry([first, second]).providers["bank"].timeout_s == 1


def test_apps_and_their_kinds_are_in_one_schema() -> None:
    shop, stall = App("shop", schema="trade"), App("stall", schema="trade")
    order = declared(shop)
    declared(stall, "stall.order")
    registry = Registry([shop, stall])
    assert (registry.schema, order.__holdfast__.schema, registry.kinds["stall.order"].schema) == ("trade",) * 3
    assert Registry([App("plain")]).schema is None is Registry([]).schema
    with pytest.raises(BadDeclaration, match="must name one schema: 'shop' in trade, 'plain' in no schema"):
        Registry([shop, App("plain")])
