"""Two releases of one small app, declared side by side: each function is one way in which code changes under its jobs.

The last stage of every kind mails something, so that the provider tells whether it happened once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.core.provider import Provider
from holdfast.core.retry import Retry
from holdfast.kernel.app import App, Job, stage
from holdfast.kernel.context import Context
from holdfast_proof.provider_stub import Dedup
from holdfast_proof.world import here

SHORT = Retry(attempts=50, base_s=1, cap_s=10)
"""Nobody is to die of a provider here: what dies, dies of the deploy."""
RETENTION_S = 86_400.0
mail = Provider("mail", effects="token", timeout_s=10, retention_s=RETENTION_S)
STUBS = {"mail": Dedup.TOKEN}
v1, v2 = App("shop"), App("shop")
RELEASES: Mapping[str, App] = {"v1": v1, "v2": v2}


@dataclass(frozen=True)
class ReleaseOrder:
    name: str


@dataclass(frozen=True)
class Price:
    cents: int


async def _work(ctx: Context) -> str:
    await here().loop.gate()
    return f"{ctx.stage} of {ctx.job_id}"


async def _mail(ctx: Context) -> str:
    key = f"{ctx.kind.name}/{ctx.job_id}"
    return await ctx.effect(key, send=lambda token: here().providers["mail"].send(token, key), provider=mail)


def declare_added() -> None:
    @v1.job(name="shop.added")
    class Before(Job[ReleaseOrder]):
        @stage(retry=SHORT)
        async def pick(self, ctx: Context, order: ReleaseOrder) -> str:
            return await _work(ctx)

        @stage(retry=SHORT)
        async def send(self, ctx: Context, order: ReleaseOrder, pick: str) -> str:
            return await _mail(ctx)

    @v2.job(name="shop.added")
    class After(Job[ReleaseOrder]):
        @stage(retry=SHORT)
        async def pick(self, ctx: Context, order: ReleaseOrder) -> str:
            return await _work(ctx)

        @stage(retry=SHORT)
        async def weigh(self, ctx: Context, order: ReleaseOrder, pick: str) -> str:
            return await _work(ctx)

        @stage(retry=SHORT)
        async def send(self, ctx: Context, order: ReleaseOrder, weigh: str) -> str:
            return await _mail(ctx)


def declare_renamed() -> None:
    @v1.job(name="shop.renamed")
    class Before(Job[ReleaseOrder]):
        @stage(retry=SHORT)
        async def bill(self, ctx: Context, order: ReleaseOrder) -> str:
            return await _work(ctx)

        @stage(retry=SHORT)
        async def send(self, ctx: Context, order: ReleaseOrder, bill: str) -> str:
            return await _mail(ctx)

    @v2.job(name="shop.renamed")
    class After(Job[ReleaseOrder]):
        @stage(retry=SHORT, formerly=("bill",))
        async def invoice(self, ctx: Context, order: ReleaseOrder) -> str:
            return await _work(ctx)

        @stage(retry=SHORT)
        async def send(self, ctx: Context, order: ReleaseOrder, invoice: str) -> str:
            return await _mail(ctx)


def declare_removed() -> None:
    @v1.job(name="shop.removed")
    class Before(Job[ReleaseOrder]):
        @stage(retry=SHORT)
        async def check(self, ctx: Context, order: ReleaseOrder) -> str:
            return await _work(ctx)

        @stage(retry=SHORT)
        async def ask(self, ctx: Context, order: ReleaseOrder, check: str) -> str:
            return await _work(ctx)

        @stage(retry=SHORT)
        async def send(self, ctx: Context, order: ReleaseOrder, check: str) -> str:
            return await _mail(ctx)

    @v2.job(name="shop.removed")
    class After(Job[ReleaseOrder]):
        @stage(retry=SHORT)
        async def check(self, ctx: Context, order: ReleaseOrder) -> str:
            return await _work(ctx)

        @stage(retry=SHORT)
        async def send(self, ctx: Context, order: ReleaseOrder, check: str) -> str:
            return await _mail(ctx)


def declare_moved() -> None:
    @v1.job(name="shop.moved")
    class Before(Job[ReleaseOrder]):
        @stage(retry=SHORT)
        async def start(self, ctx: Context, order: ReleaseOrder) -> str:
            return await _work(ctx)

        @stage(retry=SHORT)
        async def paint(self, ctx: Context, order: ReleaseOrder, start: str) -> str:
            return await _work(ctx)

        @stage(retry=SHORT)
        async def send(self, ctx: Context, order: ReleaseOrder, start: str) -> str:
            return await _mail(ctx)

    @v2.job(name="shop.moved")
    class After(Job[ReleaseOrder]):
        @stage(retry=SHORT)
        async def start(self, ctx: Context, order: ReleaseOrder) -> str:
            return await _work(ctx)

        @stage(retry=SHORT)
        async def send(self, ctx: Context, order: ReleaseOrder, start: str) -> str:
            return await _mail(ctx)

        @stage(retry=SHORT)
        async def paint(self, ctx: Context, order: ReleaseOrder, start: str) -> str:
            return await _work(ctx)


def declare_split() -> None:
    @v1.job(name="shop.split")
    class Before(Job[ReleaseOrder]):
        @stage(retry=SHORT)
        async def make(self, ctx: Context, order: ReleaseOrder) -> str:
            return await _work(ctx)

        @stage(retry=SHORT)
        async def send(self, ctx: Context, order: ReleaseOrder, make: str) -> str:
            return await _mail(ctx)

    @v2.job(name="shop.split")
    class After(Job[ReleaseOrder]):
        @stage(retry=SHORT, formerly=("make",))
        async def cut(self, ctx: Context, order: ReleaseOrder) -> str:
            return await _work(ctx)

        @stage(retry=SHORT, formerly=("make",))
        async def sew(self, ctx: Context, order: ReleaseOrder, cut: str) -> str:
            return await _work(ctx)

        @stage(retry=SHORT)
        async def send(self, ctx: Context, order: ReleaseOrder, sew: str) -> str:
            return await _mail(ctx)


def declare_versioned() -> None:
    @v1.job(name="shop.versioned")
    class Before(Job[ReleaseOrder]):
        @stage(retry=SHORT)
        async def send(self, ctx: Context, order: ReleaseOrder) -> str:
            return await _mail(ctx)

    def priced(order: dict[str, Any]) -> Price:
        return Price(len(order["name"]))

    @v2.job(name="shop.versioned", version=2, upgrade={1: priced})
    class After(Job[Price]):
        @stage(retry=SHORT)
        async def send(self, ctx: Context, price: Price) -> str:
            return await _mail(ctx)


def declare_new() -> None:
    @v2.job(name="shop.new")
    class New(Job[ReleaseOrder]):
        @stage(retry=SHORT)
        async def send(self, ctx: Context, order: ReleaseOrder) -> str:
            return await _mail(ctx)


for declare in (
    declare_added, declare_renamed, declare_removed, declare_moved, declare_split, declare_versioned, declare_new
):  # fmt: skip
    declare()
