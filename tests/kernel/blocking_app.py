"""Jobs that block and jobs that compute, for tests that run them in real threads and processes."""

from __future__ import annotations

import os
import threading
import time

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
