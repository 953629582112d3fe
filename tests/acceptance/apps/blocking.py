"""A job that blocks the event loop, as a library that knows nothing of asyncio does, beside one that only waits.

The ledger's note `open` ends what blocks before its time."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass

from holdfast import App, Context, Job, stage
from tests.acceptance.apps.gated import LOOK_S
from tests.acceptance.apps.orders import LEDGER
from tests.acceptance.ledger import Ledger


@dataclass
class Pause:
    name: str
    seconds: float


def make() -> App:
    return blocking(Ledger(os.environ[LEDGER]))


def blocking(ledger: Ledger) -> App:
    app = App("blocking")

    @app.job()
    class Block(Job[Pause]):
        @stage(timeout_s=120)
        async def run(self, ctx: Context, pause: Pause) -> str:
            await asyncio.sleep(0.2)  # let the neighbour begin
            ledger.note(f"began {pause.name}")
            give_up_at = time.monotonic() + pause.seconds
            while time.monotonic() < give_up_at and "open" not in ledger.notes():
                time.sleep(LOOK_S)  # noqa: ASYNC251
            return "blocked"

    @app.job()
    class Neighbour(Job[Pause]):
        @stage(timeout_s=120)
        async def run(self, ctx: Context, pause: Pause) -> str:
            ledger.note(f"began {pause.name}")
            await asyncio.sleep(pause.seconds)
            return "waited"

    return app
