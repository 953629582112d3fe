"""The workload of the family's world: parents that gather, children that fail, loops with checkpoints, questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

from holdfast.core.failure import Failure
from holdfast.core.family import Answered
from holdfast.core.outcome import Discard
from holdfast.core.retry import Retry
from holdfast.kernel.app import App, Job, stage
from holdfast.kernel.context import Context
from holdfast.kernel.running.sync_context import SyncContext
from holdfast.kernel.sealing import Sealer
from holdfast_proof.world import here

app = App("kin", sealer=Sealer(("a key of the simulator's family world",)))
PATIENT = Retry(attempts=8, base_s=1, cap_s=5)
LOOSE_S = 400.0
WAIT_S = 500.0


class Notebook(Protocol):
    """What the handlers write down of themselves, for the checks."""

    def note(self, what: str, job: str, *data: Any) -> None: ...

    def draw(self) -> int: ...


def notebook() -> Notebook:
    return cast(Notebook, here())


@app.job()
class Child(Job[int]):
    @stage(retry=PATIENT)
    async def work(self, ctx: Context, number: int) -> int | Discard:
        notebook().note("child", ctx.job_id, number)
        return Discard("it is odd") if number % 2 else number


@app.job()
class Parent(Job[int]):
    @stage(retry=PATIENT)
    async def fan_out(self, ctx: Context, size: int) -> int:
        outcomes = await ctx.gather(Child, range(size))
        notebook().note("gathered", ctx.job_id, ctx.job.epoch, [_word(one) for one in outcomes])
        return len(outcomes)

    @stage(retry=PATIENT)
    async def again(self, ctx: Context, size: int, fan_out: int) -> int:
        return len(await ctx.gather(Child, range(0, fan_out, 2)))


@app.job()
class Blocking(Job[int]):
    @stage(retry=PATIENT)
    def fan_out(self, ctx: SyncContext, size: int) -> int:
        used = ctx.checkpoint("base", notebook().draw)
        notebook().note("used", ctx.job_id, "base", used)
        return len(ctx.gather(Child, range(size)))

    @stage(retry=PATIENT, cpu=True)
    def count(self, ctx: SyncContext, size: int, fan_out: int) -> int:
        return fan_out


@app.job()
class Loose(Job[int]):
    """Its child is due long after it may have been cancelled."""

    @stage(retry=PATIENT)
    async def go(self, ctx: Context, number: int) -> Any:
        await ctx.spawn(Child, number * 2, delay_s=LOOSE_S)
        return await ctx.wait_for(f"loose/{ctx.job_id}", timeout_s=LOOSE_S + 300)


@dataclass(frozen=True)
class Site:
    """Where to look, how often. The address has a password in it."""

    address: str
    size: int


@app.job(seals=("address",))
class Careful(Job[Site]):
    @stage(retry=PATIENT)
    async def loop(self, ctx: Context, site: Site) -> int:
        notebook().note("address", ctx.job_id, site.address)
        for number in range(site.size):
            used = await ctx.checkpoint(f"step {number}", notebook().draw)
            notebook().note("used", ctx.job_id, f"step {number}", used)
        return site.size


@app.job()
class Asks(Job[str]):
    @stage(retry=PATIENT)
    async def ask(self, ctx: Context, key: str) -> Any:
        reply = await ctx.wait_for(key, timeout_s=WAIT_S)
        notebook().note("answered", ctx.job_id, key, isinstance(reply, Answered))
        return None if reply is None else reply.value


def _word(outcome: object) -> str:
    return outcome.error_class if isinstance(outcome, Failure) else "ok"
