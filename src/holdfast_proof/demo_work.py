"""What the demo works on: an app whose provider can be switched off. Nothing here reaches a network."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from holdfast import App, Breaker, CallError, Category, Context, Job, Provider, Retry, stage

DESK = "postcards"
TRANSLATOR = "translator"
CALL_S = 0.08


@dataclass(frozen=True)
class Postcard:
    number: int
    language: str


@dataclass(frozen=True)
class Translated:
    text: str


@dataclass
class Translator:
    """A provider in this process: it goes down at its `falls_at`-th call, and it knows only some languages."""

    falls_at: int
    up: bool = True
    languages: set[str] = field(default_factory=lambda: {"Danish", "Finnish"})
    calls: int = 0

    async def translate(self, card: Postcard) -> Translated:
        self.calls += 1
        if self.calls == self.falls_at:
            self.up = False
        well = self.up
        await asyncio.sleep(CALL_S)
        if not well:
            raise CallError.of(Category.NETWORK, "UPSTREAM_UNAVAILABLE", "503 from the translator", faults=True)
        if card.language not in self.languages:
            raise CallError.of(Category.VALIDATION, "LANGUAGE_UNKNOWN", f"There is no dictionary for {card.language}.")
        return Translated(f"greetings number {card.number} in {card.language}")


@dataclass(frozen=True)
class PostcardDesk:
    """The demo's own app, its job, the provider that fails, and what the post office has taken."""

    app: App
    job: type[Job[Postcard]]
    translator: Translator
    posted: dict[str, str]


def build_desk(falls_at: int) -> PostcardDesk:
    """Two stages: translate a card (by a provider that fails), post it (an effect that happens once)."""
    app, translator, posted = App(DESK), Translator(falls_at), dict[str, str]()
    outside = Provider(TRANSLATOR, breaker=Breaker(window=8, min_calls=4, open_above=0.5, cooldown_s=2.5, trials=2))
    post_office = Provider("post-office", effects="token")

    @app.job(deadline_s=300)
    class SendCard(Job[Postcard]):
        @stage(provider=outside, retry=Retry(attempts=4, base_s=0.3, cap_s=1.0), timeout_s=5)
        async def translate(self, ctx: Context, card: Postcard) -> Translated:
            return await ctx.call(lambda: translator.translate(card))

        @stage(provider=post_office, timeout_s=5)
        async def post(self, ctx: Context, card: Postcard, translated: Translated) -> None:
            async def send(token: str) -> str:
                posted.setdefault(token, translated.text)
                return f"card-{token[:8]}"

            await ctx.effect(("card", card.number), send=send)

    return PostcardDesk(app, SendCard, translator, posted)


def cards(count: int) -> list[Postcard]:
    """The last card is in a language that the translator does not know yet."""
    known = [Postcard(number, ("Danish", "Finnish")[number % 2]) for number in range(1, count)]
    return [*known, Postcard(count, "Welsh")]
