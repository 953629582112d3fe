"""A small app whose provider is down while the test says so."""

from __future__ import annotations

from holdfast import App, Breaker, CallError, Category, Context, Job, Provider, Retry, stage

DEADLINE_S = 1_200
health = {"ok": True}
llm = Provider("llm", breaker=Breaker(window=4, open_above=0.5, cooldown_s=30))
app = App("held")


@app.job(deadline_s=DEADLINE_S)
class Ask(Job[int]):
    @stage(provider=llm, retry=Retry(attempts=50, base_s=1, cap_s=1, jitter="none"))
    async def ask(self, ctx: Context, number: int) -> str:
        return await ctx.call(answer)


async def answer() -> str:
    if not health["ok"]:
        message = "server_overloaded"
        raise CallError.of(Category.NETWORK, "UPSTREAM_UNAVAILABLE", message, faults=True, status=503)
    return "ok"
