"""Something to break where nobody has brought an app: postcards that are printed and posted, each exactly once.

The post office keeps a book of its own and checks nothing: whoever posts a card twice is seen to have done so.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass

from holdfast.core.breaker import BreakerPolicy
from holdfast.core.provider import Provider
from holdfast.core.retry import Retry
from holdfast.kernel.app import App, Job, stage
from holdfast.kernel.context import Context
from holdfast.playground.book import Book

NAME = "postcards"
PRINT_S, POST_S = 0.3, 0.2
"""How long the printer and the post office take: long enough to be killed in the middle."""
CALL_S = 8.0
"""Slower than a slow provider: how long an answer is waited for, and how soon after a lost one is looked for it."""
BREAKER = BreakerPolicy(cooldown_s=5)


@dataclass(frozen=True)
class PlaygroundCard:
    to: str = "Ann, 1 Sea Road"
    words: str = "The weather is rough, and nothing was lost."


def postcards_app(book: Book) -> App:
    """The app; its post office writes into `book`."""
    app = App(NAME)
    printer = Provider("printer", breaker=BREAKER, timeout_s=CALL_S)

    async def find(token: str) -> str | None:
        return await asyncio.to_thread(book.delivered, token)

    post_office = Provider(
        "post office", breaker=BREAKER, effects="lookup", timeout_s=CALL_S, late_bound_s=1, lookup=find
    )

    async def post(token: str) -> str:
        await asyncio.sleep(POST_S)
        receipt = f"card-{uuid.uuid4()}"
        await asyncio.to_thread(book.deliver, token, receipt)
        return receipt

    @app.job(name="postcards.send")
    class SendPostcard(Job[PlaygroundCard]):
        @stage(provider=printer, retry=Retry(attempts=10, base_s=0.5, cap_s=5))
        async def print(self, ctx: Context, card: PlaygroundCard) -> str:
            async def printing() -> str:
                await asyncio.sleep(PRINT_S)
                return f"To {card.to}: {card.words}"

            return await ctx.call(printing)

        @stage(provider=post_office, retry=Retry(attempts=10, base_s=0.5, cap_s=5))
        async def post(self, ctx: Context, card: PlaygroundCard, print: str) -> str:
            return await ctx.effect(("postcard", ctx.job_id), send=post)

    return app
