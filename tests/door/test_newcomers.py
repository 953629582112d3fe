"""What somebody new gets wrong in the first days: none of it passes in silence, and none of it goes on for ever."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Client, Context, Discard, InvalidInput, Job, Provider, Retry, Snooze, SyncClient, Wait, stage
from holdfast.errors import BadDeclaration, SchemaMismatch
from holdfast.kernel.compose import children
from holdfast.kernel.running import eager
from holdfast.testing import world
from tests.kernel.places import Deploy

pytestmark = pytest.mark.spec("K6")
bank = Provider("bank", concurrency=1)
archive = Provider("archive", effects="lookup")


async def charge(token: str = "") -> str:
    return f"charge-{token}"


async def catches_a_wait(ctx: Context) -> Any:
    try:
        await ctx.wait_for("never", timeout_s=10)
    except BaseException:
        return "done"


async def collects_a_wait(ctx: Context) -> Any:
    await asyncio.gather(ctx.wait_for("nobody", timeout_s=10), return_exceptions=True)


async def catches_its_children(ctx: Context) -> Any:
    try:
        await ctx.gather(ctx.kind.instance.__class__, [1])
    except BaseException:
        return "done"


async def forgets_async(ctx: Context) -> Any:
    with ctx.transaction():  # type: ignore[attr-defined]
        pass


async def awaits_a_text(ctx: Context) -> Any:
    await ctx.emit("orders", {})  # type: ignore[misc]


async def calls_inside_of_a_call(ctx: Context) -> Any:
    await ctx.call(lambda: ctx.call(charge))


async def performs_inside_of_a_call(ctx: Context) -> Any:
    await ctx.call(lambda: asyncio.create_task(ctx.effect("charge", send=charge)))


async def has_no_lookup(ctx: Context) -> Any:
    await ctx.effect("letter", send=charge, provider=archive)


def returns(answer: object) -> Callable[[Context], Any]:
    async def handle(ctx: Context) -> Any:
        return answer

    return handle


def asks_for(name: str) -> Callable[[Context], Any]:
    async def handle(ctx: Context) -> Any:
        getattr(ctx, name)

    return handle


CAUGHT = "caught what leaves it at ctx.wait_for or ctx.gather, and went on as if nothing were to come; catch Exception"
INSIDE = "'bank' is called inside of a call of itself, and its concurrency of 1 may leave no second place"
HANDLERS: list[tuple[Callable[[Context], Any], str]] = [
    (catches_a_wait, CAUGHT),
    (collects_a_wait, CAUGHT),
    (catches_its_children, CAUGHT),
    (forgets_async, "write `async with` for what is async, and plain `with` for what is not."),
    (awaits_a_text, "take the `await` away, or give it a coroutine."),
    (calls_inside_of_a_call, INSIDE),
    (performs_inside_of_a_call, INSIDE),
    (has_no_lookup, "The provider 'archive' has effects='lookup' and no lookup: give it one"),
    (returns(Snooze), "The stage 'run' returned the class Snooze itself; write Snooze(...)."),
    (returns(Discard), "returned the class Discard itself"),
    (asks_for("enqueue"), "A Context has no 'enqueue'; start a job with ctx.spawn(Job, input)"),
    (asks_for("sleep"), "return Snooze(seconds), and no worker is held meanwhile."),
    (asks_for("logger"), "log with logging.getLogger(__name__)."),
    (asks_for("session"), "write your rows with ctx.transaction(session)."),
    (asks_for("wobble"), "A Context has no 'wobble'."),
]


async def test_each_of_these_handlers_ends_its_job_at_once_with_a_sentence() -> None:
    app = App("new")

    @app.job()
    class Work(Job[int]):
        @stage(provider=bank, retry=Retry(attempts=5))
        async def run(self, ctx: Context, number: int) -> object:
            return await HANDLERS[number][0](ctx)

    for number, (handle, sentence) in enumerate(HANDLERS):
        async with world(app) as w:
            job = await w.enqueue(Work, number)
            await w.run_until_idle()
            letter = next(each for each in await w.dead_letters() if each["job_id"] == job)
            assert sentence in letter["last_error"], (handle.__name__, letter["last_error"])
            assert letter["attempts_made"] == 1


async def test_tasks_of_a_group_that_all_wait_are_a_wait() -> None:
    app = App("new")

    @app.job()
    class Both(Job[int]):
        @stage()
        async def run(self, ctx: Context, number: int) -> bool:
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(ctx.wait_for(key, timeout_s=60)) for key in ("ann", "bob")]
            return all(each.result() for each in asked)

    @app.job()
    class Fail(Job[int]):
        @stage(retry=Retry(attempts=1))
        async def run(self, ctx: Context, number: int) -> None:
            waits = await asyncio.gather(ctx.wait_for("carla", timeout_s=60), return_exceptions=True)
            raise BaseExceptionGroup("both", [*waits, ValueError("a failure beside a wait is a failure")])

    async with world(app) as w:
        job, failing = await w.enqueue(Both, 1), await w.enqueue(Fail, 1)
        for key in ("ann", "bob"):
            await w.tick()
            await w.client.answer(key, key)
        await w.run_until_idle()
        assert (await w.results(job))["run"] == "true"
        assert await w.events(failing) == ["created", "claimed", "buried"]


@pytest.mark.spec("K24")
@pytest.mark.parametrize("inside", [True, False])
async def test_a_key_that_another_job_waits_for_is_named_with_that_job(deploy: Deploy, inside: bool) -> None:
    app = App("new")

    @app.job()
    class Approve(Job[int]):
        @stage()
        async def run(self, ctx: Context, number: int) -> object:
            return bool(await ctx.wait_for("approve", timeout_s=60)) if inside else Wait("approve", within_s=60)

    w = await deploy(app)
    first = await w.enqueue(Approve, 1)
    await w.work()
    second = await w.enqueue(Approve, 2)
    await w.work()
    (letter,) = await w.dead_letters()
    assert letter["job_id"] == second and letter["error_class"] == "USAGE_ERROR"
    assert f"Job {first} waits for 'approve' already, and an answer is given to one job" in letter["last_error"]
    assert await w.state(first) == "waiting"


@pytest.mark.spec("K24")
async def test_a_line_of_jobs_that_start_each_other_ends(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "LINE_MAX", 3)
    app = App("new")

    @app.job()
    class Loose(Job[int]):
        @stage()
        async def run(self, ctx: Context, number: int) -> None:
            await ctx.spawn(Loose, number + 1)

    @app.job()
    class Waiting(Job[int]):
        @stage()
        async def run(self, ctx: Context, number: int) -> int:
            (child,) = await ctx.gather(Waiting, [number + 1])
            return getattr(child, "value", number)

    w = await deploy(app)
    await w.enqueue(Loose, 0)
    job = await w.enqueue(Waiting, 0)
    await w.run_until_idle()
    letters = await w.dead_letters()
    assert sorted(each["kind"] for each in letters) == ["new.loose", "new.waiting"]
    assert all("stands at the end of 3 jobs that have each started the next" in each["last_error"] for each in letters)
    assert (await w.results(job))["run"] == "2", "the third child's failure is a value of the second"


@pytest.mark.spec("K6")
async def test_a_handler_that_catches_its_cancellation_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "CLEAN_UP_S", 0.05)
    app, over, cleaned = App("new"), asyncio.Event(), list[str]()

    @app.job()
    class Stubborn(Job[int]):
        @stage(timeout_s=0.02, retry=Retry(attempts=1))
        async def run(self, ctx: Context, number: int) -> None:
            while not over.is_set():
                try:
                    await over.wait()
                except BaseException as error:
                    if isinstance(error, GeneratorExit):
                        cleaned.append("stubborn")
                        raise

    @app.job()
    class Tidy(Job[int]):
        @stage(timeout_s=0.02, retry=Retry(attempts=1))
        async def run(self, ctx: Context, number: int) -> None:
            try:
                await over.wait()
            finally:
                await asyncio.sleep(0.01)
                cleaned.append("tidy")

    @app.job()
    class Patient(Job[int]):
        @stage(timeout_s=60)
        async def run(self, ctx: Context, number: int) -> str:
            try:
                async with asyncio.timeout(0.01):
                    await over.wait()
            except TimeoutError:
                await asyncio.sleep(0.08)
            return "its own limit is its own"

    async with world(app) as w:
        stubborn, tidy, patient = [await w.enqueue(job, 1) for job in (Stubborn, Tidy, Patient)]
        await w.run_until_idle()
        errors = [(await w.client.status(job)).error for job in (stubborn, tidy, patient)]
    assert errors[0] is not None and errors[0].startswith("STAGE_TIMEOUT") and "it was left behind" in errors[0]
    assert errors[1] is not None and errors[1].startswith("STAGE_TIMEOUT") and "left behind" not in errors[1]
    gc.collect()
    assert cleaned == ["tidy"], "it was closed: one that catches this too would never let the process exit"
    assert errors[2] is None


def as_a_function(app: App) -> None:
    @app.job()  # type: ignore[arg-type]
    async def send_mail(ctx: Context, number: int) -> None: ...


def by_a_name(app: App) -> None:
    app.job("mail")  # type: ignore[call-overload]


def a_stage_by_a_name(app: App) -> None:
    stage("mail")  # type: ignore[call-overload]


async def later(value: Any) -> Any:
    return value


def upgrades_later(app: App) -> None:
    @app.job(version=2, upgrade={1: later})
    class Mail(Job[int]):
        @stage()
        async def run(self, ctx: Context, number: int) -> None: ...


def brings_forward_later(app: App) -> None:
    stage(upgrade=later)(later)


def judges_later(app: App) -> None:
    Provider("mail", classify=later)


def opens_a_client(app: App) -> None:
    Client(app)  # type: ignore[arg-type]


def opens_a_sync_client(app: App) -> None:
    SyncClient(app)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (as_a_function, "'send_mail' is a function; a job is a class: class SendMail(Job[YourInput]), with a method"),
        (by_a_name, "@app.job('mail') takes nothing by its place: name its options, as in name=..."),
        (a_stage_by_a_name, "@stage('mail') takes nothing by its place: name its options; a stage is called as its"),
        (upgrades_later, "The upgrade of 'Mail' from version 1 must be a plain function, and 'later' is an async def."),
        (brings_forward_later, "An upgrade must be a plain function, and 'later' is an async def."),
        (judges_later, "has a classify that is an async def; it must be a plain function."),
        (opens_a_client, "A client is opened with its app: Client.open(app, database=...)."),
        (opens_a_sync_client, "A client is opened with its app: SyncClient.open(app, database=...)."),
    ],
)
def test_what_is_declared_amiss_is_refused(make: Callable[[App], None], sentence: str) -> None:
    with pytest.raises((BadDeclaration, ValueError)) as caught:
        make(App("new"))
    assert sentence in str(caught.value)


async def test_what_is_asked_of_a_client_amiss_is_refused_before_anything_is_written() -> None:
    app = App("new")

    @app.job(deadline_s=60)
    class Mail(Job[int]):
        @stage()
        async def run(self, ctx: Context, number: int) -> None: ...

    @app.job()
    class Call(Job[int]):
        @stage()
        async def run(self, ctx: Context, number: int) -> None: ...

    async with world(app) as w:
        with pytest.raises(InvalidInput, match=r"delay_s of 3600 is not over before the deadline_s of 60 is"):
            await w.client.enqueue(Mail, 1, delay_s=3600)
        with pytest.raises(InvalidInput, match=r"Input number 2 of many: the function of the keys returned None"):
            await w.client.enqueue_many(Mail, [1, 2], key={1: "one"}.get)  # type: ignore[arg-type]
        assert await w.client.enqueue(Mail, 1, delay_s=59)
        job = await w.client.enqueue(Call, 1)
        with pytest.raises(InvalidInput, match=rf"Job {job} is of the kind 'new.call', not 'new.mail'"):
            await w.client.result(Mail, job)
        with pytest.raises(BadDeclaration, match="is no job class"):
            await w.client.result(job, Mail)  # type: ignore[arg-type]


def test_a_sync_client_says_what_its_database_lacks_and_may_be_closed_twice(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    path.touch()
    client = SyncClient.open(App("new"), database=f"sqlite:///{path}")
    with pytest.raises(SchemaMismatch, match="run holdfast migrate"), client:
        pass
    client.close()
