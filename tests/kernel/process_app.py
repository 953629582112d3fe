"""A worker process for the tests of real signals: `python process_app.py URL FOLDER`.

Each attempt writes a line into FOLDER/ran when it begins; a `Gated` one then waits for FOLDER/go.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from holdfast import App, Context, Job, stage
from holdfast.engines.run import Duties, prepare, run
from holdfast.engines.stopping import stop_on_signals
from holdfast.kernel.failpoint import no_failpoint, parse_failpoints
from holdfast.kernel.kernel import Kernel, Registry, Tuning
from holdfast.main import open_store

app = App("process")
LEASE_S = float(os.environ.get("LEASE_S", "1.2"))
TUNING = Tuning(lease_s=LEASE_S, renew_s=0.3, reap_s=0.1, poll_s=0.05)


def folder() -> Path:
    return Path(sys.argv[2])


def begin(ctx: Context) -> None:
    with (folder() / "ran").open("a") as lines:
        lines.write(f"{ctx.job_id} {ctx.attempt} {os.getpid()}\n")


@app.job()
class Gated(Job[int]):
    @stage()
    async def wait(self, ctx: Context, number: int) -> int:
        begin(ctx)
        while not (folder() / "go").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return os.getpid()


@app.job()
class Short(Job[int]):
    @stage()
    async def first(self, ctx: Context, number: int) -> int:
        begin(ctx)
        await ctx.progress(half=True)
        return number

    @stage()
    async def second(self, ctx: Context, number: int, first: int) -> int:
        return first * 2


async def main() -> None:
    with stop_on_signals() as stop:
        await work_until(stop)


async def work_until(stop: asyncio.Event) -> None:
    (folder() / f"heeds-{os.getpid()}").touch()
    failpoints = os.environ.get("HOLDFAST_FAILPOINTS", "")
    kernel = Kernel(
        store=open_store(sys.argv[1]),
        registry=Registry([app]),
        tuning=TUNING,
        failpoint=parse_failpoints(failpoints) if failpoints else no_failpoint,
    )
    await prepare(kernel)
    await run(kernel, Duties(relay=False, consume=False, concurrency=8, grace_s=float(os.environ["GRACE_S"])), stop)
    await kernel.store.close()


if __name__ == "__main__":
    asyncio.run(main())
