"""The apps the bench runs, and a kernel over them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bench.stopwatch import Figures, postgres_url
from holdfast import App, Context, Job, Provider, stage
from holdfast.engines.collecting import collect_seldom
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.submit import JobToEnqueue, prepare
from holdfast.main import open_store
from holdfast.operator.audit import audit

CONCURRENCY = 800
CALLERS = 32
app = App("bench")
remote = Provider("remote", effects="token", timeout_s=30.0)


@app.job()
class Noop(Job[dict[str, int]]):
    @stage()
    async def run(self, ctx: Context, input: dict[str, int]) -> None:
        return None


@app.job()
class Three(Job[int]):
    """Three stages, an effect in each, every result stored: what a workflow of three steps does elsewhere."""

    @stage(provider=remote)
    async def first(self, ctx: Context, number: int) -> str:
        return await ctx.effect(f"first/{number}", send=_sent)

    @stage(provider=remote)
    async def second(self, ctx: Context, number: int, first: str) -> str:
        return await ctx.effect(f"second/{number}", send=_sent)

    @stage(provider=remote)
    async def third(self, ctx: Context, number: int, second: str) -> str:
        return await ctx.effect(f"third/{number}", send=_sent)


async def _sent(token: str) -> str:
    return token


@asynccontextmanager
async def kernel_over(apps: Sequence[App] = (app,), url: str | None = None) -> AsyncIterator[Kernel]:
    """A kernel on this run's own database, in a process that collects garbage as `holdfast worker` does; closed at the
    end."""
    kernel = Kernel(open_store(url or postgres_url()), Registry(list(apps)))
    await kernel.migrate()
    try:
        with collect_seldom(CONCURRENCY):
            yield kernel
    finally:
        await kernel.store.close()


def orders(kernel: Kernel, count: int) -> list[JobToEnqueue]:
    kind = Noop.__holdfast__
    return [prepare(kind, {"n": n}, job_id=kernel.new_id(), now=kernel.now()) for n in range(count)]


async def audited(kernel: Kernel, figures: Figures) -> Figures:
    """The figures, with how many broken promises the audit found in what was left behind."""
    return figures | {"broken_promises": len(await audit(kernel))}
