"""What a handler asks wrongly of its context is a sentence at the first attempt: no retry mends the code."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import App, Context, Job, Provider, SyncContext, stage
from holdfast.kernel.declare import size
from holdfast.testing import world

pytestmark = pytest.mark.spec("K6", "K12")
app = App("desk")
bank = Provider("bank", effects="token")
LARGE = "x" * 5_000_000


async def send(token: str) -> str:
    return "id"


@app.job()
class Child(Job[int]):
    @stage()
    async def run(self, ctx: Context, number: int) -> None: ...


MISTAKES: list[tuple[Callable[[Any], Any], str]] = [
    (
        lambda ctx: ctx.effect("k"),
        "ctx.effect() missing 1 required keyword-only argument: 'send'; it takes key; by name: send,",
    ),
    (lambda ctx: ctx.effect("k", send), "ctx.effect() takes 2 positional arguments but 3 were given"),
    (lambda ctx: ctx.call(send, timeout=3), "ctx.call() has no argument 'timeout'; did you mean 'timeout_s'?"),
    (lambda ctx: ctx.wait_for("k"), "ctx.wait_for() missing 1 required keyword-only argument: 'timeout_s'"),
    (lambda ctx: ctx.gather(Child), "ctx.gather() missing 1 required positional argument: 'inputs'"),
    (lambda ctx: ctx.emit("q"), "ctx.emit() missing 1 required positional argument: 'body'"),
    (lambda ctx: ctx.progress(5), "; it takes by name: **data."),
    (lambda ctx: ctx.transaction(1, 2), "positional arguments but 3 were given; it takes session."),
    (
        lambda ctx: ctx.budget_s(1),
        "1 positional argument but 2 were given; it takes no arguments.",
    ),
    (lambda ctx: ctx.efect("k", send=send), "has no 'efect'; did you mean 'ctx.effect'?"),
    (lambda ctx: ctx.checkpoint("x", 5), "not a int: write ctx.checkpoint(name, lambda: ...)."),
    (lambda ctx: ctx.checkpoint("x", lambda: float("nan")), "'x' cannot be stored: the value: nan is not a number"),
    (lambda ctx: ctx.effect("k", send=send, lookup=5), "write ctx.effect(key, send=..., lookup=lambda token: ...)."),
    (lambda ctx: ctx.emit("", {}), "The destination of a message is ''; it must be a text of 1 to 500 characters."),
    (lambda ctx: ctx.emit("q", {}, message_id=5), "The message_id of a message is 5; it must be a text"),
    (lambda ctx: ctx.emit("q", {}, headers=[1]), "The headers of a message are [1]; they must be texts:"),
    (lambda ctx: ctx.emit("q", {}, headers={"a": 1}), "The headers of a message are {'a': 1}; they must be texts:"),
    (lambda ctx: ctx.callback_url(5), "A key to wait for must be a text of 1 to 200 characters; not 5."),
    (lambda ctx: ctx.callback_url("k", expires_s="x"), "The expires_s of 'x' of a callback URL must be a number"),
    (lambda ctx: ctx.gather(Child, [1, "x"]), "Input number 2 of many: The input of 'desk.child' does not fit:"),
    (lambda ctx: ctx.emit("q", LARGE), "The message to 'q' is 5,000,002 bytes; the limit is 4,194,304 (HOLDFAST_VALUE"),
    (lambda ctx: ctx.progress(text=LARGE), "The progress is 5,000,011 bytes; the limit is 4,194,304"),
    (lambda ctx: ctx.checkpoint("x", lambda: LARGE), "The value of the checkpoint 'x' is 5,000,002 bytes; the limit"),
    (lambda ctx: LARGE, "The result of the stage 'run' is 5,000,002 bytes; the limit is 4,194,304"),
]


@app.job()
class Ask(Job[int]):
    @stage(provider=bank)
    async def run(self, ctx: Context, number: int) -> str | None:
        asked = MISTAKES[number][0](ctx)
        answer: str | None = await asked if inspect.isawaitable(asked) else asked
        return answer


@app.job()
class AskPlainly(Job[int]):
    @stage(provider=bank)
    def run(self, ctx: SyncContext, number: int) -> str | None:
        answer: str | None = MISTAKES[number][0](ctx)
        return answer


@pytest.mark.parametrize("job", [Ask, AskPlainly])
async def test_a_wrong_call_of_the_context_is_named_and_not_tried_again(job: type[Job[int]]) -> None:
    async with world(app) as w:
        ids = [await w.enqueue(job, number) for number in range(len(MISTAKES))]
        await w.run_until_idle()
        for job_id, (_, sentence) in zip(ids, MISTAKES, strict=True):
            assert sentence in str((await w.client.status(job_id)).error), sentence
            assert "retried" not in await w.events(job_id), sentence


async def test_the_largest_value_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(size.NAME, "10")
    size.bytes_max.cache_clear()
    try:
        assert size.size_problem('"12345678"') is None
        assert size.size_problem('"ééééé"') == f"is 12 bytes; the limit is 10 ({size.NAME})"
    finally:
        monkeypatch.undo()
        size.bytes_max.cache_clear()
