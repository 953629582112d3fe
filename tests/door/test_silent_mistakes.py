"""Code of a handler that used to go wrong without a word, or to be tried again in vain, is a sentence at once."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Context, Discard, Done, Job, Provider, Retry, Snooze, Wait, enqueue, stage
from holdfast.testing import world

pytestmark = pytest.mark.spec("K6", "K12")
Handler = Callable[[Any, Any, int], Any]
app = App("desk")
FILE = Path(__file__).open()  # noqa: SIM115 - the mistake


@app.job()
class Child(Job[int]):
    @stage()
    async def run(self, ctx: Context, number: int) -> int:
        return number


async def raise_an_answer(self: Any, ctx: Any, number: int) -> None:
    raise Snooze(5)  # type: ignore[misc]


async def forget_the_reason(self: Any, ctx: Any, number: int) -> Any:
    return Discard()  # type: ignore[call-arg]


async def forget_the_time(self: Any, ctx: Any, number: int) -> Any:
    return Wait("k")  # type: ignore[call-arg]


async def start_a_loop(self: Any, ctx: Any, number: int) -> None:
    work = asyncio.sleep(0)
    try:
        asyncio.run(work)
    finally:
        work.close()


async def return_a_file(self: Any, ctx: Any, number: int) -> Any:
    return FILE


async def name_two_alike(self: Any, ctx: Any, number: int) -> list[int]:
    return [await ctx.checkpoint("page", lambda page=page: page) for page in range(2)]


async def ask_otherwise_after_a_wait(self: Any, ctx: Any, number: int) -> None:
    await ctx.gather(Child, [1, 2] if ctx.attempt == 1 else [1, 2, 3])


async def keep_on_self(self: Any, ctx: Any, number: int) -> None:
    self.total = number


async def keep_on_the_context(self: Any, ctx: Any, number: int) -> None:
    ctx.total = number


async def set_the_contexts_own(self: Any, ctx: Any, number: int) -> None:
    ctx.job_id = "other"


def keep_on_a_sync_context(self: Any, ctx: Any, number: int) -> None:
    ctx.total = number


async def ask_for_a_result(self: Any, ctx: Any, number: int) -> Any:
    return ctx.results["charge"]


async def enqueue_through_the_context(self: Any, ctx: Any, number: int) -> Any:
    return enqueue(ctx, Child, 1)


async def return_a_policy(self: Any, ctx: Any, number: int) -> Any:
    return Retry(attempts=2)


async def return_a_provider(self: Any, ctx: Any, number: int) -> Any:
    return Provider("bank")


async def return_an_exception(self: Any, ctx: Any, number: int) -> Any:
    return ValueError("no such order")


async def end_with_a_policy(self: Any, ctx: Any, number: int) -> Any:
    return Done(Retry())


bank = Provider("bank", effects="token")


async def fetch(token: str = "") -> dict[str, int]:
    return {"number": 1}


async def forget_an_await(self: Any, ctx: Any, number: int) -> Any:
    page = fetch()
    try:
        return page["number"]  # type: ignore[index]
    finally:
        page.close()


async def loop_over_a_list(self: Any, ctx: Any, number: int) -> Any:
    async for each in [number]:  # type: ignore[attr-defined]
        assert each


async def add_to_an_outcome(self: Any, ctx: Any, number: int) -> Any:
    return [each + 1 for each in await ctx.gather(Child, [number])]


async def look_into_an_answer(self: Any, ctx: Any, number: int) -> Any:
    return (await ctx.wait_for("known", timeout_s=5)).get("by")


async def keep_by_a_key(self: Any, ctx: Any, number: int) -> None:
    ctx["total"] = number


async def write_without_a_session(self: Any, ctx: Any, number: int) -> None:
    async with ctx.transaction() as tx:
        await tx.execute("INSERT INTO orders VALUES (1)")


async def perform_inside_of_itself(self: Any, ctx: Any, number: int) -> Any:
    async def send(token: str) -> Any:
        return await ctx.effect("charge", send=fetch, provider=bank)

    return await ctx.effect("charge", send=send, provider=bank)


async def fill_in_too_much(self: Any, ctx: Any, number: int) -> Any:
    return await ctx.call(functools.partial(fetch, "a", "b"), provider=bank)


async def reckon_wrongly(self: Any, ctx: Any, number: int) -> Any:
    return await ctx.call(fetch, cost=lambda page: page.usage, provider=bank)


async def pay_for_nothing(self: Any, ctx: Any, number: int) -> Any:
    return await ctx.paid_call(lambda key: asyncio.sleep(0), answer=int, provider=bank)


async def name_by_a_number(self: Any, ctx: Any, number: int) -> Any:
    return await ctx.paid_call(fetch, answer=dict, name=5, provider=bank)


async def use_another_loop(self: Any, ctx: Any, number: int) -> None:
    raise RuntimeError("Task got Future <Future pending> attached to a different loop")


async def give_up_by_name(self: Any, ctx: Any, number: int) -> None:
    ctx.cancel()


TAKES = "takes something for what it is not ("
MISTAKES: list[tuple[Handler, str]] = [
    (forget_an_await, f"{TAKES}'coroutine' object is not subscriptable): an `await` is missing before it."),
    (loop_over_a_list, f"{TAKES}'async for' requires an object with __aiter__ method, got list): write a plain `for`."),
    (
        add_to_an_outcome,
        "'Success' and 'int'): what came of a child is its .value, where it is a Success and no",
    ),
    (look_into_an_answer, "'Answered' object has no attribute 'get'): what was answered is its .value."),
    (keep_by_a_key, "'Context' object does not support item assignment): it keeps nothing: what was found out is kept"),
    (write_without_a_session, "): ctx.transaction() is Holdfast's own; write your rows with ctx.transaction(session)."),
    (
        perform_inside_of_itself,
        "'desk::charge' performs the same effect, and would wait for itself; give the",
    ),
    (fill_in_too_much, "is called with no argument, which it does not take: write ctx.call(lambda: ...)."),
    (
        reckon_wrongly,
        "The cost of a call raised AttributeError: 'dict' object has no attribute 'usage'; the call",
    ),
    (
        pay_for_nothing,
        "The answer of 'bank' to a paid call does not fit its declared type (ValidationError); it",
    ),
    (name_by_a_number, "The name of a paid call is 5; it must be a text of 1 to 500 characters."),
    (use_another_loop, "uses what belongs to another event loop than the worker's (Task got Future"),
    (give_up_by_name, "A Context has no 'cancel'; return Discard('why'), or raise an exception."),
    (raise_an_answer, "The stage 'run' raised what is no exception; a Snooze, Discard, Done or Wait is returned."),
    (forget_the_reason, "Discard() missing 1 required positional argument: 'reason'; it takes reason"),
    (forget_the_time, "Wait() missing 1 required positional argument: 'within_s'; it takes key, within_s."),
    (
        start_a_loop,
        "The stage 'run' starts an event loop inside of the worker's (asyncio.run() cannot be called",
    ),
    (return_a_file, "it is a TextIOWrapper, an open file; read it, or pass its path."),
    (name_two_alike, "has the checkpoint 'page' twice, and would get the first one's value again; give each its own"),
    (
        ask_otherwise_after_a_wait,
        "has started 2 children, and now asks for 3: after a wait it runs again",
    ),
    (
        keep_on_the_context,
        "The stage 'run' sets ctx.total, but a context keeps nothing: return what a later stage needs",
    ),
    (set_the_contexts_own, "The stage 'run' sets ctx.job_id, but a context keeps nothing"),
    (keep_on_a_sync_context, "The stage 'run' sets ctx.total, but a context keeps nothing"),
    (
        ask_for_a_result,
        "A Context has no 'results'; what an earlier stage returned is a parameter of that stage's name",
    ),
    (
        enqueue_through_the_context,
        "cannot write through a holdfast.Context; start a job with ctx.spawn(Job, input) in a",
    ),
    (return_a_policy, "The stage 'run' returned a Retry; a policy is no result: give it to @stage(retry=...), and"),
    (return_a_provider, "The stage 'run' returned a Provider; a declaration is no result: give it to @stage"),
    (return_an_exception, "The stage 'run' returned a ValueError; an exception is raised, and not returned."),
    (end_with_a_policy, "The stage 'run' returned a Retry; a policy is no result"),
    (keep_on_self, "'Ask' sets self.total, but all jobs of a class share one instance, and the next stage may run"),
]


def job_of(number: int, handler: Handler) -> type[Job[int]]:
    class Ask(Job[int]):
        run = stage()(handler)

    return app.job(name=f"ask{number}")(Ask)


JOBS = [job_of(number, handler) for number, (handler, _) in enumerate(MISTAKES)]


async def test_each_mistake_is_named_at_the_first_attempt() -> None:
    async with world(app) as w:
        await w.client.answer("known", {"by": "ann"})
        ids = [await w.enqueue(job, 1) for job in JOBS]
        await w.run_until_idle()
        for job_id, (_, sentence) in zip(ids, MISTAKES, strict=True):
            assert sentence in str((await w.client.status(job_id)).error), sentence
            assert "retried" not in await w.events(job_id), sentence


async def test_what_is_no_jobs_own_may_be_kept_on_the_instance() -> None:
    shop = App("shop")

    @shop.job()
    class Count(Job[int]):
        def __init__(self) -> None:
            self.start = 5

        @stage()
        async def run(self, ctx: Context, number: int) -> int:
            self._cache = number
            return self._cache + self.start

    async with world(shop) as w:
        job_id = await w.enqueue(Count, 1)
        await w.run_until_idle()
        assert await w.client.result(Count, job_id) == 6


async def test_a_checkpoint_that_was_not_stored_may_be_tried_again() -> None:
    shop = App("shop")

    @shop.job()
    class Fetch(Job[int]):
        @stage()
        async def run(self, ctx: Context, number: int) -> int:
            try:
                return await ctx.checkpoint("page", lambda: number // 0)
            except ZeroDivisionError:
                return await ctx.checkpoint("page", lambda: number)

    async with world(shop) as w:
        job_id = await w.enqueue(Fetch, 7)
        await w.run_until_idle()
        assert await w.client.result(Fetch, job_id) == 7


async def test_ones_own_classes_of_such_names_are_not_taken_for_ours() -> None:
    shop = App("shop")

    class Success:
        pass

    @shop.job()
    class Fetch(Job[int]):
        @stage(retry=Retry(attempts=2))
        async def run(self, ctx: Context, number: int) -> None:
            Success().value  # type: ignore[attr-defined]  # noqa: B018

    async with world(shop) as w:
        job_id = await w.enqueue(Fetch, 7)
        await w.run_until_idle()
        assert "retried" in await w.events(job_id)


async def test_half_of_a_character_in_an_error_is_no_failure_of_the_ledger() -> None:
    shop = App("shop")

    @shop.job()
    class Fetch(Job[int]):
        @stage(retry=Retry(attempts=1))
        async def run(self, ctx: Context, number: int) -> None:
            raise ValueError("no such page: \ud800")

    async with world(shop) as w:
        job_id = await w.enqueue(Fetch, 7)
        await w.run_until_idle()
        assert str((await w.client.status(job_id)).error).startswith("BUG: ValueError: no such page: ?")


async def test_a_job_of_an_app_that_the_world_does_not_know_is_named() -> None:
    other = App("other")

    @other.job()
    class Fetch(Job[int]):
        @stage()
        async def run(self, ctx: Context, number: int) -> None: ...

    with pytest.raises(AssertionError, match=r"No app of this world declares other.fetch: name theirs too, world\("):
        async with world(app) as w:
            await w.enqueue(Fetch, 1)
            await w.run_until_idle()
