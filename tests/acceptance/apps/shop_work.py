"""What the handlers of both releases of the shop do: write down that they began, and wait if the test wants it."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from holdfast import Context
from tests.acceptance.apps.orders import LEDGER
from tests.acceptance.ledger import Ledger

LOOK_S = 0.02
HELD = "held"


@dataclass
class Item:
    name: str


async def work(ctx: Context, release: str, name: str, *, only_here: bool = False) -> str:
    """`only_here`: no other release declares the stage. A held item stays there until the ledger says `open`."""
    ledger = Ledger(os.environ[LEDGER])
    ledger.note(f"{release} {ctx.kind.name} {ctx.stage} {name}")
    is_open = name != HELD or not only_here
    while not is_open:
        await asyncio.sleep(LOOK_S)
        is_open = "open" in ledger.notes()
    ledger.close()
    return f"{ctx.stage} of {name}"
