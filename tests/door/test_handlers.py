"""A handler's mistake ends its job at the first attempt, with a sentence that names the stage and the way out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import App, Context, Job, Provider, Retry, stage
from tests.kernel.places import Deploy

pytestmark = pytest.mark.spec("K6")
bank = Provider("bank", effects="token")


async def charge(token: str = "") -> str:
    return f"charge-{token}"


def charge_at_once(token: str = "") -> str:
    return f"charge-{token}"


async def charge_twice() -> Any:
    yield "charge"


async def calls_without_await(ctx: Context) -> None:
    ctx.call(charge)  # type: ignore[unused-coroutine]


async def performs_without_await(ctx: Context) -> None:
    ctx.effect("charge", send=charge)  # type: ignore[unused-coroutine]


async def pays_without_await(ctx: Context) -> None:
    ctx.paid_call(charge, answer=str)  # type: ignore[unused-coroutine]


async def reports_without_await(ctx: Context) -> None:
    await ctx.call(charge)
    ctx.progress(done=1)  # type: ignore[unused-coroutine]


async def forgets_one_among_many(ctx: Context) -> None:
    ctx.effect("charge", send=charge)  # type: ignore[unused-coroutine]
    for number in range(250):
        await ctx.progress(done=number)
    assert len(ctx.promised) <= 100, "what was awaited is kept for ever"


async def returns_without_await(ctx: Context) -> Any:
    return ctx.effect("charge", send=charge)


async def calls_what_is_not_async(ctx: Context) -> None:
    await ctx.call(charge_at_once)  # type: ignore[arg-type]


async def pays_for_what_is_not_async(ctx: Context) -> None:
    await ctx.paid_call(charge_at_once, answer=str)  # type: ignore[arg-type]


async def calls_a_generator(ctx: Context) -> None:
    await ctx.call(charge_twice)


async def performs_what_is_not_async(ctx: Context) -> None:
    await ctx.effect("charge", send=charge_at_once)  # type: ignore[arg-type]


async def calls_a_coroutine(ctx: Context) -> None:
    await ctx.call(charge())  # type: ignore[arg-type]


async def pays_for_a_coroutine(ctx: Context) -> None:
    await ctx.paid_call(charge(), answer=str)  # type: ignore[arg-type]


async def performs_a_coroutine(ctx: Context) -> None:
    await ctx.effect("charge", send=charge())  # type: ignore[arg-type]


async def returns_another_type(ctx: Context) -> Any:
    return {"paid": True}


async def returns_what_cannot_be_stored(ctx: Context) -> Any:
    return object()


NOT_AWAITED = (
    "The stage 'run' of 'door.pay' called ctx.{}(...) without awaiting it, so that it did nothing; write `await`"
)
NOT_ASYNC = "A call of 'bank' was given a function that is not async: it returned a {} instead of something to await."
NO_FUNCTION = "A function to call is needed here, not a coroutine: write {}."
MISTAKES: list[tuple[Callable[[Context], Any], str]] = [
    (calls_without_await, NOT_AWAITED.format("call")),
    (performs_without_await, NOT_AWAITED.format("effect")),
    (pays_without_await, NOT_AWAITED.format("paid_call")),
    (reports_without_await, NOT_AWAITED.format("progress")),
    (returns_without_await, NOT_AWAITED.format("effect")),
    (forgets_one_among_many, NOT_AWAITED.format("effect")),
    (calls_what_is_not_async, NOT_ASYNC.format("str")),
    (pays_for_what_is_not_async, NOT_ASYNC.format("str")),
    (calls_a_generator, NOT_ASYNC.format("async_generator")),
    (performs_what_is_not_async, "The `send` of the effect 'door::charge' is not async: write 'async def send(token)'"),
    (calls_a_coroutine, NO_FUNCTION.format("ctx.call(lambda: ...)")),
    (pays_for_a_coroutine, NO_FUNCTION.format("ctx.paid_call(lambda key: ...)")),
    (performs_a_coroutine, NO_FUNCTION.format("ctx.effect(key, send=lambda token: ...)")),
    (
        returns_another_type,
        "The stage 'run' returned a value that does not fit its annotation: it is a dict; the value: ",
    ),
    (returns_what_cannot_be_stored, "does not fit its annotation: it is a object; "),
]


@pytest.mark.parametrize(("handle", "sentence"), MISTAKES, ids=[handle.__name__ for handle, _ in MISTAKES])
async def test_a_handlers_mistake_is_named_and_not_repeated(
    deploy: Deploy, handle: Callable[[Context], Any], sentence: str
) -> None:
    app = App("door")

    @app.job()
    class Pay(Job[int]):
        @stage(provider=bank, retry=Retry(attempts=5))
        async def run(self, ctx: Context, number: int) -> str | None:
            return await handle(ctx)  # type: ignore[no-any-return]

    world = await deploy(app)
    await world.enqueue(Pay, 1)
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    assert sentence in letter["last_error"]
    assert letter["attempts_made"] == 1


async def test_what_is_awaited_together_is_awaited(deploy: Deploy) -> None:
    app = App("door")

    @app.job()
    class Pay(Job[int]):
        @stage(provider=bank)
        async def run(self, ctx: Context, number: int) -> list[str]:
            return await asyncio.gather(ctx.call(charge), ctx.effect("charge", send=charge))

    world = await deploy(app)
    job_id = await world.enqueue(Pay, 1)
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded"
