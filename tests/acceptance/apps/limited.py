"""Jobs of many owners, with a limit for each: every handler writes down when it begins and when it ends."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from holdfast import App, Context, Job, Limit, stage
from tests.acceptance.apps.orders import LEDGER
from tests.acceptance.ledger import Ledger

AT_ONCE = 2
PER_MINUTE = 5
WORK_S = 0.03


@dataclass
class Piece:
    owner: str
    number: int


def make() -> App:
    return limited(Ledger(os.environ[LEDGER]))


def limited(ledger: Ledger) -> App:
    app = App("limited")

    async def work(kind: str, piece: Piece) -> None:
        ledger.note(f"began {kind} {piece.owner} {piece.number} {os.getpid()}")
        await asyncio.sleep(WORK_S)
        ledger.note(f"ended {kind} {piece.owner} {piece.number} {os.getpid()}")

    @app.job(limit=Limit(per="owner", at_once=AT_ONCE))
    class Crawl(Job[Piece]):
        @stage()
        async def crawl(self, ctx: Context, piece: Piece) -> None:
            await work("crawl", piece)

    @app.job(limit=Limit(per="owner", per_minute=PER_MINUTE))
    class Ping(Job[Piece]):
        @stage()
        async def ping(self, ctx: Context, piece: Piece) -> None:
            await work("ping", piece)

    return app
