"""Jobs that block and jobs that compute, for tests that run them in real threads and processes."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from holdfast import App, CallError, Category, Job, Provider, Retry, SyncContext, stage

app = App("blocking")
mail = Provider("mail", effects="token")
AT_ONCE = Retry(attempts=2, base_s=0.001, cap_s=0.001)
threads: list[int] = []
sends: list[str] = []
stopped: list[str] = []
begun, gate, ended = threading.Event(), threading.Event(), threading.Event()


class Odd(Exception):
    """Cannot be sent: it holds a lock."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


@app.job()
class Plain(Job[str]):
    @stage(provider=mail)
    def run(self, ctx: SyncContext, text: str) -> str:
        here = threading.get_ident()
        threads.append(here)
        ctx.progress(done=1)
        called = ctx.call(lambda: f"called by {threading.get_ident()}")
        assert called == f"called by {threading.get_ident()}"

        def send(token: str) -> str:
            sends.append(token)
            return f"id-{threading.get_ident() == here}"

        return f"{text} {ctx.effect(('mail', text), send=send)}"

    @stage()
    async def then(self, ctx: object, text: str, run: str) -> str:
        return run.upper()


async def ask_later() -> str:
    return "later"


def interrupt() -> None:
    raise KeyboardInterrupt


def send_slowly(number: int) -> str:
    for _ in range(200):
        os.sched_yield()  # so that others begin meanwhile, if they may
    return f"id {number}"


def in_turn(ctx: SyncContext) -> object:
    """Several threads ask at once; what the ledger then knows of each effect is its own."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: ctx.effect(("all", number), send=lambda token: send_slowly(number)), range(6)))
    return [ctx.effect(("all", number), send=lambda token: "never sent") for number in range(6)]


def after_the_end(ctx: SyncContext) -> None:
    def ask() -> None:
        begun.wait(10)
        try:
            ctx.progress(done=1)
        except BaseException as error:
            stopped.append(str(error))
        ended.set()

    threading.Thread(target=ask, daemon=True).start()


ASKED: dict[str, Callable[[SyncContext], object]] = {
    "in turn": in_turn,
    "inside": lambda ctx: ctx.call(lambda: ctx.call(lambda: ctx.checkpoint("page", lambda: 5))),
    "paid": lambda ctx: [ctx.paid_call(lambda key: len(key), answer=int, name="page") for _ in range(2)],
    "wait": lambda ctx: ctx.call(lambda: ctx.wait_for("nobody", timeout_s=1)),
    "after": after_the_end,
    "async call": lambda ctx: ctx.call(ask_later),
    "async send": lambda ctx: ctx.effect("x", send=lambda token: ask_later()),  # type: ignore[arg-type,return-value]
    "interrupted": lambda ctx: interrupt(),
    "interrupted inside": lambda ctx: ctx.call(interrupt),
}


@app.job()
class Asks(Job[str]):
    @stage(provider=mail, retry=AT_ONCE)
    def run(self, ctx: SyncContext, what: str) -> object:
        return ASKED[what](ctx)


@app.job()
class Fails(Job[str]):
    @stage(retry=AT_ONCE)
    def run(self, ctx: SyncContext, text: str) -> str:
        raise CallError.of(Category.UPSTREAM, "SHOP_CLOSED", text)


@app.job()
class Spins(Job[float]):
    @stage(timeout_s=0.2, retry=Retry(attempts=1))
    def run(self, ctx: SyncContext, seconds: float) -> None:
        try:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                sum(range(100))  # Python 3.13 raises past this `except` what comes at the end of an empty loop
        except BaseException as error:
            stopped.append(type(error).__name__)
            ended.set()
            raise


@app.job()
class Hangs(Job[str]):
    @stage(timeout_s=0.1, retry=Retry(attempts=1))
    def run(self, ctx: SyncContext, text: str) -> None:
        begun.set()
        gate.wait()


@app.job()
class Holds(Job[str]):
    @stage()
    def run(self, ctx: SyncContext, text: str) -> str:
        begun.set()
        gate.wait(30)
        return text


def compute_oddly(self: object, ctx: SyncContext, what: str) -> object:
    if what == "threads":
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda number: ctx.checkpoint(f"{number}", lambda: number), range(8)))
    if what == "fork":
        with contextlib.suppress(ChildProcessError):
            os.fork() and os.wait()
        return os.getppid()
    if what == "stdin":
        return sys.stdin.read()
    if what == "exit":
        sys.exit(7)
    return {"lambda": lambda: 1, "later": ask_later(), "interrupt": 0}[what] or interrupt()


@app.job()
class ComputesOddly(Job[str]):
    run = stage(cpu=True, timeout_s=10, retry=AT_ONCE)(compute_oddly)


@app.job()
class Computes(Job[str]):
    @stage(cpu=True, timeout_s=20, retry=AT_ONCE)
    def run(self, ctx: SyncContext, what: str) -> int:
        print("this goes to standard error")
        if what == "die":
            os._exit(3)
        if what == "odd":
            raise Odd("one")
        if what == "closed":
            raise CallError.of(Category.UPSTREAM, "SHOP_CLOSED", what)
        if what == "effect":
            ctx.effect(("mail", what), send=lambda token: token, provider=mail)
        ctx.progress(attempt=ctx.attempt, left=ctx.budget_s())
        return os.getpid()


@app.job()
class Endless(Job[str]):
    @stage(cpu=True, timeout_s=0.3, retry=Retry(attempts=1))
    def run(self, ctx: SyncContext, what: str) -> None:
        while True:
            pass
