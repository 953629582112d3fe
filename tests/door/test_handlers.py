"""A handler's mistake ends its job at the first attempt, with a sentence that names the stage and the way out."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import App, CallError, Context, Discard, Job, Provider, Retry, Snooze, Wait, stage
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


def answers(answer: Callable[[], Any]) -> Callable[[Context], Any]:
    async def handle(ctx: Context) -> Any:
        return answer()

    handle.__name__ = f"answers_{answer.__code__.co_firstlineno}"
    return handle


async def sends_without_token(ctx: Context) -> None:
    await ctx.effect("charge", send=lambda: charge())  # type: ignore[arg-type,misc]


async def calls_with_an_argument(ctx: Context) -> None:
    await ctx.call(lambda x: charge())  # type: ignore[arg-type,misc]


async def calls_a_provider_by_name(ctx: Context) -> None:
    await ctx.call(charge, provider="bank")  # type: ignore[arg-type]


async def calls_for_no_time(ctx: Context) -> None:
    await ctx.call(charge, timeout_s=-1)


async def pays_a_number(ctx: Context) -> None:
    await ctx.paid_call(charge, answer=str, cost=5)  # type: ignore[arg-type]


async def reports_an_object(ctx: Context) -> None:
    await ctx.progress(done=object())


async def reports_nan(ctx: Context) -> None:
    await ctx.progress(done=float("nan"))


async def emits_an_object(ctx: Context) -> None:
    ctx.emit("orders", {"at": object()})


async def gathers_a_number(ctx: Context) -> None:
    await ctx.gather(ctx.kind.instance.__class__, 5)  # type: ignore[arg-type]


async def spawns_with_an_odd_option(ctx: Context) -> None:
    await ctx.spawn(ctx.kind.instance.__class__, 1, delay=5)


async def spawns_with_a_key(ctx: Context) -> None:
    await ctx.spawn(ctx.kind.instance.__class__, 1, key="a")


async def nests_transactions(ctx: Context) -> None:
    async with ctx.transaction(), ctx.transaction():
        pass


async def calls_in_a_transaction(ctx: Context) -> None:
    async with ctx.transaction():
        await ctx.effect("charge", send=charge)


async def ends_the_program(ctx: Context) -> None:
    await asyncio.sleep(0)
    sys.exit(3)


async def ends_the_program_in_a_call(ctx: Context) -> None:
    await ctx.call(lambda: sys.exit("bye"))


async def fails_by_a_text(ctx: Context) -> None:
    raise CallError("the bank is busy")  # type: ignore[arg-type]


async def fails_without_a_category(ctx: Context) -> None:
    raise CallError.of("network", "BUSY", "the bank is busy")  # type: ignore[arg-type]


async def gathers_what_is_no_job(ctx: Context) -> None:
    await ctx.gather(Retry, [1])  # type: ignore[type-var]


async def spawns_a_number(ctx: Context) -> None:
    await ctx.spawn(7, 1)  # type: ignore[arg-type]


async def names_a_checkpoint_by_half_a_character(ctx: Context) -> None:
    await ctx.checkpoint("page/\ud800", lambda: 1)


async def waits_for_half_a_character(ctx: Context) -> None:
    await ctx.wait_for("approve/\ud800", timeout_s=5)


async def writes_through_a_text(ctx: Context) -> None:
    async with ctx.transaction("orders"):
        pass


INSIDE = "calls ctx.{} inside of its ctx.transaction(), where it would wait for the transaction to end"
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
    (performs_what_is_not_async, "The `send` of the effect 'door::charge' is not async: begin it with async def"),
    (calls_a_coroutine, NO_FUNCTION.format("ctx.call(lambda: ...)")),
    (pays_for_a_coroutine, NO_FUNCTION.format("ctx.paid_call(lambda key: ...)")),
    (performs_a_coroutine, NO_FUNCTION.format("ctx.effect(key, send=lambda token: ...)")),
    (
        returns_another_type,
        "The stage 'run' returned a value that does not fit its annotation: it is a dict; the value: ",
    ),
    (returns_what_cannot_be_stored, "does not fit its annotation: it is a object; "),
    (
        sends_without_token,
        "'<lambda>' is called with one argument, which it does not take: write ctx.effect(key, send=",
    ),
    (calls_with_an_argument, "'<lambda>' is called with no argument, which it does not take: write ctx.call(lambda: "),
    (calls_a_provider_by_name, "This call has a provider of 'bank'; write provider=Provider(...)."),
    (calls_for_no_time, "The timeout_s of -1 of a call must be a number of seconds above 0."),
    (pays_a_number, "The cost of a call is 5: write cost=lambda answer: Cost(...)."),
    (reports_an_object, "The progress cannot be written as JSON: Object of type object"),
    (reports_nan, "The progress cannot be written as JSON: "),
    (emits_an_object, "The message to 'orders' cannot be written as JSON: "),
    (gathers_a_number, "Many jobs of 'door.pay' are asked for with a int: its inputs must be a list"),
    (spawns_with_an_odd_option, "There is no option 'delay' of a job; did you mean 'delay_s'?"),
    (spawns_with_a_key, "A child has no key: it is started once for its place in the stage"),
    (nests_transactions, INSIDE.format("transaction()")),
    (calls_in_a_transaction, INSIDE.format("effect(...)")),
    (ends_the_program, "The stage 'run' called sys.exit(3), which would end the worker; raise an exception."),
    (ends_the_program_in_a_call, "The stage 'run' called sys.exit('bye'), which would end the worker"),
    (fails_by_a_text, "A CallError needs a Failure, not a str: write CallError.of(Category.UPSTREAM, "),
    (fails_without_a_category, "A CallError needs a Category, as Category.NETWORK, not 'network'."),
    (gathers_what_is_no_job, "is no job class; declare one with @app.job() above class YourJob(Job[YourInput])."),
    (spawns_a_number, "An instance of int is no job class; declare one with @app.job() above class"),
    (waits_for_half_a_character, "A key to wait for must not hold a NUL or half of a character; not "),
    (names_a_checkpoint_by_half_a_character, "A checkpoint's name must not hold a NUL or half of a character; not "),
    (writes_through_a_text, "Holdfast cannot write through a str; give it a connection or session of"),
    (answers(lambda: Snooze(-1)), "The delay_s of -1 of a Snooze must be a number of seconds of 0 or more."),
    (answers(lambda: Snooze("5")), "The delay_s of '5' of a Snooze must be a number"),  # type: ignore[arg-type]
    (answers(lambda: Wait("k", within_s=1e300)), "The within_s of 1e+300 of a Wait must be at most a hundred years."),
    (answers(lambda: Wait("", within_s=5)), "The key '' of a Wait must be a text of 1 to 200 characters."),
    (answers(lambda: Discard(5)), "The reason 5 of a Discard must be a text."),  # type: ignore[arg-type]
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


async def test_bytes_that_are_no_text_are_told_how_they_may_be_stored(deploy: Deploy) -> None:
    app = App("door")

    @app.job()
    class Draw(Job[int]):
        @stage()
        async def run(self, ctx: Context, number: int) -> bytes:
            return b"\xff\xfe"

    world = await deploy(app)
    await world.enqueue(Draw, 1)
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    assert "it holds bytes that are no text; declare pydantic's Base64Bytes" in letter["last_error"]


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


async def test_a_misspelt_name_of_a_context_is_answered_with_the_right_one(deploy: Deploy) -> None:
    app = App("door")

    @app.job()
    class Pay(Job[int]):
        @stage(provider=bank, retry=Retry(attempts=1))
        async def run(self, ctx: Context, number: int) -> None:
            await ctx.efect("charge", send=charge)

    world = await deploy(app)
    await world.enqueue(Pay, 1)
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    assert "A Context has no 'efect'; did you mean 'ctx.effect'?" in letter["last_error"]


async def test_what_is_called_beside_a_transaction_waits_for_it(deploy: Deploy) -> None:
    app = App("door")

    @app.job()
    class Pay(Job[int]):
        @stage()
        async def run(self, ctx: Context, number: int) -> str:
            async def report() -> None:
                await ctx.progress(done=1)

            async with ctx.transaction():
                beside = asyncio.create_task(report())
                await asyncio.sleep(0)
            await beside
            return "paid"

    world = await deploy(app)
    job_id = await world.enqueue(Pay, 1)
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded"
