"""The smallest app there is: what a worker's memory is measured with."""

from __future__ import annotations

from holdfast import App, Context, Job, stage

app = App("bench")


@app.job()
class Noop(Job[dict[str, int]]):
    @stage()
    async def run(self, ctx: Context, input: dict[str, int]) -> None:
        return None
