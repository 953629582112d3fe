"""The kernel's own workload: jobs of one to three stages, effects of all three classes, messages, callbacks, poison.

Declared once; every handler finds its seed's providers by `here()`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from holdfast.core.breaker import BreakerPolicy
from holdfast.core.failure import Category
from holdfast.core.outcome import Discard, Snooze, Wait
from holdfast.core.provider import Provider
from holdfast.core.retry import Retry
from holdfast.errors import CallError
from holdfast.kernel.app import App, Job, Schedule, stage
from holdfast.kernel.context import Context
from holdfast.kernel.intake import called_back, once
from holdfast.kernel.kernel import Kernel
from holdfast.stores.statement import Migration, Statement
from holdfast.transports.seam import Delivery, Queue
from holdfast_proof.provider_stub import Dedup
from holdfast_proof.world import here

BREAKER = BreakerPolicy(
    window=6, min_calls=4, open_above=0.5, cooldown_s=15, trials=2, trial_lease_s=30, cooldown_max_s=60
)
SHORT = Retry(attempts=4, base_s=1, cap_s=10)
STUBS = {
    "llm": Dedup.NEITHER,
    "oracle": Dedup.NEITHER,
    "mail.token": Dedup.TOKEN,
    "mail.lookup": Dedup.LOOKUP,
    "mail.neither": Dedup.NEITHER,
    "tutor": Dedup.TOKEN,
}
EVENTS = Queue("sim.events")
CALLBACKS = Queue("sim.callbacks")
CALLBACK_KEPT_MS = 60_000
ESSAY_RUNS = 2


def _look(name: str) -> Callable[[str], Awaitable[str | None]]:
    async def lookup(token: str) -> str | None:
        return await here().providers[name].lookup(token)

    return lookup


llm = Provider("llm", breaker=BREAKER, timeout_s=10)
oracle = Provider("oracle", timeout_s=10)
by_token = Provider("mail.token", effects="token", timeout_s=10, retention_s=600)
by_lookup = Provider(
    "mail.lookup", breaker=BREAKER, effects="lookup", timeout_s=10, late_bound_s=25, lookup=_look("mail.lookup")
)
tutor = Provider("tutor", timeout_s=10)
by_nothing = Provider("mail.neither", effects="neither", timeout_s=10)

app = App(
    "sim",
    migrations=[Migration("sim", 1, "CREATE TABLE sim_consumed (seq /*identity*/, message_id TEXT, body TEXT)")],
    queues=[EVENTS, CALLBACKS],
)
clock = App("clock")
CONSUMED = Statement(
    "consumed",
    "INSERT INTO sim_consumed (message_id, body) VALUES (:message_id, :body)",
    "INSERT INTO sim_consumed (message_id, body) VALUES ($1, $2)",
    ("message_id", "body"),
)
TOLD_CONSUMED = {"consumed": ("INSERT ON sim_consumed", "new.message_id", "new.seq")}


@dataclass(frozen=True)
class Order:
    """One order. `fails`: how often each flaky stage raises before it succeeds. `secret` must be seen nowhere else."""

    name: str
    fails: int = 0
    group: str = ""
    secret: str = ""


async def _call(ctx: Context, provider: Provider) -> str:
    token = f"{ctx.job_id}/{ctx.stage}"
    return await ctx.call(lambda: here().providers[provider.name].send(token, ctx.attempt), provider=provider)


async def _mail(ctx: Context, provider: Provider, key: str | tuple[str, ...]) -> str:
    return await ctx.effect(key, send=lambda token: here().providers[provider.name].send(token, key), provider=provider)


async def _buy(ctx: Context, run: int) -> str:
    question = (ctx.job_id, ctx.stage, ctx.job.epoch, run)
    return await ctx.paid_call(lambda key: here().providers["tutor"].send(key, question), answer=str)


def notice_key(group: str) -> tuple[str, ...]:
    """The groups' keys read alike when they are joined, and are different effects all the same."""
    return {"a": ("notice", "x/y"), "b": ("notice", "x", "y")}.get(group, ("notice", group))


def _tell(ctx: Context, what: str, *, fixed: bool = False) -> None:
    identity = str(uuid.uuid5(uuid.UUID(ctx.job_id), what)) if fixed else None
    ctx.emit(EVENTS.name, {"job": ctx.job_id, "what": what}, type=what, message_id=identity)


@app.job()
class Summary(Job[Order]):
    """One stage, one guarded call."""

    @stage(retry=SHORT, provider=llm, timeout_s=20)
    async def think(self, ctx: Context, order: Order) -> str:
        return await _call(ctx, llm)


@app.job(retries=4)
class Digest(Job[Order]):
    """Three stages, each with a budget of its own and one for them all, the last with an effect under a token."""

    @stage(retry=Retry(attempts=3, base_s=1, cap_s=5), timeout_s=20)
    async def fetch(self, ctx: Context, order: Order) -> str:
        here().maybe_fail(ctx, order.fails)  # type: ignore[attr-defined]
        _tell(ctx, "fetched", fixed=True)
        return "page"

    @stage(retry=Retry(attempts=3, base_s=1, cap_s=5), timeout_s=20)
    async def think(self, ctx: Context, order: Order, fetch: str) -> str:
        here().maybe_fail(ctx, order.fails)  # type: ignore[attr-defined]
        return await _call(ctx, oracle)

    @stage(retry=SHORT, provider=by_token, timeout_s=25)
    async def notify(self, ctx: Context, order: Order, think: str) -> str:
        sent = await _mail(ctx, by_token, f"digest/{ctx.job_id}")
        _tell(ctx, "done")
        return sent


@app.job(priority=1)
class Letter(Job[Order]):
    """An effect that can be looked up."""

    @stage(retry=SHORT, provider=by_lookup, timeout_s=25)
    async def send(self, ctx: Context, order: Order) -> str:
        sent = await _mail(ctx, by_lookup, f"letter/{ctx.job_id}")
        _tell(ctx, "done", fixed=True)
        return sent


@app.job(priority=3)
class Parcel(Job[Order]):
    """An effect that nobody can ask about: after any doubt a person decides."""

    @stage(retry=SHORT, provider=by_nothing, timeout_s=25)
    async def send(self, ctx: Context, order: Order) -> str:
        await ctx.progress(share=0.5)
        sent = await _mail(ctx, by_nothing, f"parcel/{ctx.job_id}")
        _tell(ctx, "done")
        return sent


@app.job()
class Notice(Job[Order]):
    """Several jobs with one effect between them, as a rerun has."""

    @stage(retry=SHORT, provider=by_token, timeout_s=25)
    async def send(self, ctx: Context, order: Order) -> str:
        sent = await _mail(ctx, by_token, notice_key(order.group))
        _tell(ctx, "done")
        return sent


@app.job()
class Essay(Job[Order]):
    """Asks twice for what costs money, and may fail after that."""

    @stage(retry=SHORT, provider=tutor, timeout_s=25)
    async def grade(self, ctx: Context, order: Order) -> str:
        answers = [await _buy(ctx, run) for run in range(ESSAY_RUNS)]
        here().maybe_fail(ctx, min(2, order.fails))  # type: ignore[attr-defined]
        return " ".join(answers)

    @stage(retry=SHORT, provider=llm, timeout_s=20)
    async def close(self, ctx: Context, order: Order, grade: str) -> str:
        return await _call(ctx, llm)


@app.job()
class Poison(Job[Order]):
    """Kills whoever runs it."""

    @stage(retry=SHORT)
    async def bite(self, ctx: Context, order: Order) -> str:
        await here().loop.die()
        return "never"


@app.job(deadline_s=8)
class Hasty(Job[Order]):
    """Its deadline is as near as its provider is slow."""

    @stage(retry=SHORT, provider=oracle, timeout_s=20)
    async def think(self, ctx: Context, order: Order) -> str:
        answer = await _call(ctx, oracle)
        _tell(ctx, "done")
        return answer


@app.job(deadline_s=150)
class Question(Job[Order]):
    """Asks somebody outside and sleeps until they call back."""

    @stage(retry=SHORT)
    async def ask(self, ctx: Context, order: Order) -> dict[str, Any] | Wait:
        await here().loop.gate()
        here().ask_desk(f"answer/{ctx.job_id}")  # type: ignore[attr-defined]
        return Wait(f"answer/{ctx.job_id}", within_s=60)

    @stage(retry=SHORT)
    async def close(self, ctx: Context, order: Order, ask: dict[str, Any]) -> str:
        _tell(ctx, "done")
        return str(ask["answer"])


@app.job()
class Moody(Job[Order]):
    """Snoozes, then fails, then gives up or succeeds."""

    @stage(retry=Retry(attempts=3, base_s=1, cap_s=5))
    async def try_it(self, ctx: Context, order: Order) -> str | Snooze | Discard:
        if here().first_time(ctx, "snooze"):  # type: ignore[attr-defined]
            return Snooze(3, "not in the mood")
        here().maybe_fail(ctx, order.fails)  # type: ignore[attr-defined]
        if order.group == "discard":
            return Discard("no use")
        _tell(ctx, "done")
        return "well"


@app.job()
class Tick(Job[Order]):
    """Enqueued by the clock."""

    @stage(retry=SHORT)
    async def tock(self, ctx: Context, order: Order) -> str:
        _tell(ctx, "done")
        return "tock"


# Not by `app.schedule`: the host that plays the clock announces it alone, so that ticks can end before the seed does.
clock.schedules.append(Schedule("clock.Tick", "*/3 * * * *", Tick, Order("tick"), "UTC", 0.0, "allow"))


def transient(message: str) -> CallError:
    return CallError.of(Category.NETWORK, "SIM_TRANSIENT", message)


@app.consume(EVENTS)
async def note_event(kernel: Kernel, delivery: Delivery) -> None:
    """A consumer with an effect of its own: one row per message, if the inbox does its work."""
    assert delivery.message_id is not None
    async with once(kernel, "sim", delivery.message_id, delivery.body) as (tx, first):
        if first:
            await tx.rows(CONSUMED, message_id=delivery.message_id, body=delivery.body.decode())


@app.consume(CALLBACKS)
async def note_callback(kernel: Kernel, delivery: Delivery) -> None:
    """A callback that nobody waits for may be early: it is offered again for a while."""
    body = json.loads(delivery.body)
    assert delivery.message_id is not None
    taken = await called_back(kernel, body["key"], delivery.message_id, delivery.body.decode())
    if not taken and here().loop.now_ms - body["at_ms"] < CALLBACK_KEPT_MS:
        raise transient("nobody waits for this yet")
