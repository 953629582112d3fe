"""A job that works until the ledger says `open`: it is in flight for as long as a test wants."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from holdfast import App, Context, Job, stage
from tests.acceptance.apps.orders import LEDGER
from tests.acceptance.ledger import Ledger

LOOK_S = 0.02


@dataclass
class Name:
    name: str


def make() -> App:
    return gated(Ledger(os.environ[LEDGER]))


def gated(ledger: Ledger) -> App:
    app = App("gated")

    @app.job()
    class Long(Job[Name]):
        @stage(timeout_s=60)
        async def work(self, ctx: Context, one: Name) -> None:
            ledger.note(f"began {one.name}")
            while True:
                if "open" in ledger.notes():
                    return
                await asyncio.sleep(LOOK_S)

    return app
