"""A test that waits for work to end is told when it never does."""

from __future__ import annotations

import pytest

from holdfast import App, Context, Job, Snooze, stage
from holdfast.testing import world

app = App("restless")


@app.job()
class Again(Job[str]):
    @stage()
    async def again(self, ctx: Context, text: str) -> Snooze:
        return Snooze(10, "not yet")


async def test_work_that_never_ends_fails_the_test_that_waits_for_it() -> None:
    async with world(app) as w:
        await w.run_until_idle(limit_s=0)
        await w.enqueue(Again, "x")
        with pytest.raises(AssertionError, match="still busy after 60 simulated seconds"):
            await w.run_until_idle(limit_s=60)
