"""An app of a careless author: its clients and handlers put secrets into whatever they raise."""

from __future__ import annotations

import logging

from tests.security.planted import PROVIDER, words

from holdfast import App, Breaker, CallError, Category, Context, Job, Provider, Retry, stage

app = App("vault")
careless = Provider("careless", effects="neither", breaker=Breaker(window=4, min_calls=2, cooldown_s=600))
once = Retry(attempts=2, base_s=0, jitter="none")


@app.job()
class Blunder(Job[str]):
    """`how` names what goes wrong."""

    @stage(provider=careless, retry=once)
    async def blunder(self, ctx: Context, how: str) -> None:
        logging.getLogger("vault").warning("asking with %s", words(PROVIDER), extra={"password": PROVIDER["password"]})

        async def call() -> None:
            raise CallError.of(Category.UPSTREAM, "VAULT_BROKEN", words(PROVIDER), faults=True)

        async def send(token: str) -> str:
            raise CallError.of(Category.NETWORK, "VAULT_SILENT", words(PROVIDER), ambiguous=True)

        if how == "call":
            await ctx.call(call)
        if how == "effect":
            await ctx.effect(("vault", how), send=send)
        try:
            raise ConnectionError(words(PROVIDER))
        except ConnectionError as error:
            raise RuntimeError(f"cannot open with password={PROVIDER['password']}") from error
