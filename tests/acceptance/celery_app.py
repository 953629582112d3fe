"""An app for the Celery tests: three stages, of which the last has an effect that must happen once.

The outside world is a file with a line for each send; the provider can be asked whether it has seen a token.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from pydantic import BaseModel

from holdfast import App, Context, Job, Provider, Retry, stage

app = App("errands")
post = Provider("post", effects="lookup", timeout_s=2, late_bound_s=0.5)


class Errand(BaseModel):
    number: int
    pause_ms: int = 0


def sent() -> list[str]:
    """Every send that reached the outside world, by token."""
    path = Path(os.environ["SENT_FILE"])
    return path.read_text().split() if path.exists() else []


async def send(token: str) -> str:
    write_down(token)
    return f"sent-{token}"


def write_down(token: str) -> None:
    with Path(os.environ["SENT_FILE"]).open("a") as file:
        file.write(f"{token}\n")


async def look_up(token: str) -> str | None:
    return f"sent-{token}" if token in sent() else None


@app.job()
class Run(Job[Errand]):
    @stage(timeout_s=10)
    async def fetch(self, ctx: Context, errand: Errand) -> int:
        await asyncio.sleep(errand.pause_ms / 1_000)
        return errand.number

    @stage(retry=Retry(attempts=5, base_s=0.05), timeout_s=10)
    async def double(self, ctx: Context, errand: Errand, fetch: int) -> str:
        if errand.number % 10 == 0 and ctx.failures == 0:
            raise ConnectionError("the first try of every tenth fails")
        return str(fetch * 2)

    @stage(provider=post, retry=Retry(attempts=5, base_s=0.05), timeout_s=10)
    async def tell(self, ctx: Context, errand: Errand, double: str) -> str:
        return await ctx.effect(("errand", errand.number), send=send, lookup=look_up)
