"""An app for the pages to be tried on: translations, of which one is dead, and a card that nobody can vouch for."""

from __future__ import annotations

from holdfast import App, Breaker, CallError, Category, Context, Job, Provider, Retry, stage

app = App("desk")
llm = Provider("llm", breaker=Breaker())
post = Provider("post", effects="neither")


@app.job()
class Translate(Job[str]):
    @stage(provider=llm, retry=Retry(attempts=1))
    async def translate(self, ctx: Context, language: str) -> str:
        async def ask() -> str:
            if language == "Klingon":
                raise CallError.of(Category.VALIDATION, "LANGUAGE_UNKNOWN", "There is no dictionary for Klingon.")
            return f"hello in {language}"

        return await ctx.call(ask)


@app.job()
class Post(Job[str]):
    @stage(provider=post, retry=Retry(attempts=3, base_s=0))
    async def post(self, ctx: Context, to: str) -> None:
        async def send(token: str) -> str:
            raise CallError.of(Category.NETWORK, "NETWORK_TIMEOUT", "no answer", ambiguous=True)

        await ctx.effect(("card", to), send=send)
