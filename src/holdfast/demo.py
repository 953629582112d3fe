"""`holdfast demo`: real work through every installed system, a provider taken down half-way, and an account of it all.

Everything happens in this process and in a private folder that is removed at the end, also after Ctrl-C. The demo asks
over the same HTTP interface as anybody else and believes only what the databases say.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console

from holdfast import demo_work
from holdfast.core.breaker import Gate
from holdfast.core.job import TERMINAL
from holdfast.demo_account import GOOD, WITH_A_PERSON, Account, Row, account, no_message_pending, show
from holdfast.demo_work import DESK, TRANSLATOR, Desk, Translator
from holdfast.engines.run import Duties, prepare, run
from holdfast.errors import HoldfastError
from holdfast.http.app import create_app
from holdfast.http.auth import ROLES, token_for
from holdfast.kernel import operate, submit
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.watch import LogWatch
from holdfast.main import close_systems, load_systems, open_systems
from holdfast.settings import Settings, read
from holdfast.system import OpenSystem
from holdfast.tables import breakers, cases, jobs

LOOK_S = 0.1
PATIENCE_S = 45.0
CARDS = 30
ACTOR = "demo"
FINAL = GOOD | WITH_A_PERSON | {"FAILED", "failed", *map(str, TERMINAL)}


@dataclass(frozen=True)
class Accepted:
    """Something a system promised to do: what, by which system, and where to ask how it went."""

    system: str
    what: str
    url: str


@dataclass(frozen=True)
class Stage:
    """Where the demo plays."""

    folder: Path
    opened: Sequence[OpenSystem]
    desk: Desk
    client: httpx.AsyncClient
    console: Console

    def say(self, text: str) -> None:
        self.console.print(f"  {text}", highlight=False)

    def title(self, text: str) -> None:
        self.console.print(f"\n[bold]{text}[/]", highlight=False)

    @property
    def kernel(self) -> Kernel:
        return next(one.kernel for one in self.opened if one.name == DESK)


async def demo(console: Console) -> Account:
    """Play the whole story; SIGTERM ends it as Ctrl-C does."""
    me = asyncio.current_task()
    assert me is not None
    with suppress(NotImplementedError, RuntimeError):  # no signals where the loop is not the main thread's
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)
    began = time.monotonic()
    async with _stage(console) as on:
        accepted = await three_systems(on)
        accepted += await outage(on)
        await dead_letter(on)
        on.title("5. The account")
        rows = [await _row(on, one, accepted) for one in on.opened]
    made = Account(tuple(rows), time.monotonic() - began)
    show(made, console)
    return made


@asynccontextmanager
async def _stage(console: Console) -> AsyncIterator[Stage]:
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="holdfast-demo-"))
    try:
        desk = demo_work.build_desk(falls_at=CARDS // 2)
        # Not the caller's environment: the demo must reach no database, broker or provider of theirs.
        secret = secrets.token_urlsafe(48)
        env = {"HOLDFAST_DATA_DIR": str(folder), "HOLDFAST_JWT_SECRET": secret, "REVIEW_LOCAL_ROOTS": str(folder)}
        settings = read(Settings, env)
        names = [one.name for one in load_systems()]
        opened = await open_systems(settings, env, names, [desk.app], watch=LogWatch())
        try:
            async with _running(opened):
                transport = httpx.ASGITransport(create_app(settings, opened))
                headers = {"Authorization": f"Bearer {token_for(settings, 'demo', ROLES)}"}
                async with httpx.AsyncClient(transport=transport, base_url="http://demo", headers=headers) as client:
                    yield Stage(folder, opened, desk, client, console)
        finally:
            await close_systems(opened)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def _running(opened: Sequence[OpenSystem]) -> AsyncIterator[None]:
    for one in opened:
        await prepare(one.kernel)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for one in opened:
            group.create_task(run(one.kernel, one.duties(Duties(concurrency=8, grace_s=5.0)), stop))
        yield
        stop.set()


async def three_systems(on: Stage) -> list[Accepted]:
    """Real work for every installed system, followed to its end."""
    on.title("1. Work for every installed system, over HTTP")
    runs = {one.name for one in on.opened}
    accepted: list[Accepted] = []
    if {"grading-main", "grading-service"} <= runs:
        accepted += [await _essay(on, number, text) for number, text in enumerate(demo_work.ESSAYS, 1)]
    if "conversion" in runs:
        accepted += [await _paper(on, name, title, lines) for name, title, lines in demo_work.PAPERS]
    if "review" in runs and shutil.which("git"):
        accepted.append(await _review(on))
    for one in accepted:
        answer = await _until(lambda one=one: _ended(on, one), f"{one.what} did not end")  # type: ignore[misc]
        on.say(f"{one.system:13} {one.what:24} {_outcome(answer)}")
    if any(one.system == "grading-main" for one in accepted):
        await _instruct(on)
    return accepted


async def _instruct(on: Stage) -> None:
    """What the grader was not sure of, an instructor decides: here, by agreeing with it."""
    waiting = _checked(await on.client.get("/api/instructor/queue"))["items"]
    for one in waiting:
        url, score = f"/api/submissions/{one['id']}/review", one["aiResult"]["overallScore"]
        _checked(await on.client.post(f"{url}/claim"))
        _checked(await on.client.post(url, json={"overallScore": score}))
    if waiting:
        on.say(f"{len(waiting)} essays of which the grader was not sure were decided by an instructor")


async def _essay(on: Stage, number: int, text: str) -> Accepted:
    payload = {"text": text, "taskType": "essay", "questionId": f"demo-{number}"}
    headers = {"Idempotency-Key": on.kernel.new_uuid4()}
    body = {"skill": "writing", "payload": payload}
    made = _checked(await on.client.post("/api/submissions", json=body, headers=headers))
    return Accepted("grading-main", f"essay {number}", f"/api/submissions/{made['id']}")


async def _paper(on: Stage, name: str, title: str, lines: Sequence[str]) -> Accepted:
    file = (name, demo_work.pdf(title, lines), "application/pdf")
    made = _checked(await on.client.post("/api/jobs", files={"file": file}))
    return Accepted("conversion", name, f"/api/jobs/{made['id']}")


async def _review(on: Stage) -> Accepted:
    repository = on.folder / "repository"
    await asyncio.to_thread(demo_work.make_repository, repository)
    body = {
        "idempotency_key": "demo-review",
        "review_version": 1,
        "recipients": ["ada@example.test"],
        "source": {"type": "git", "repo": str(repository), "range": "HEAD~1..HEAD"},
    }
    url = "/api/changelists/demo/reviews"
    _checked(await on.client.post(url, json=body))
    return Accepted("review", "changelist HEAD~1..HEAD", f"{url}/1")


def _checked(answer: httpx.Response) -> dict[str, Any]:
    if answer.status_code >= 400:
        raise HoldfastError(f"The demo's request was refused with {answer.status_code}: {answer.text}")
    body: dict[str, Any] = answer.json()
    return body


async def _ended(on: Stage, one: Accepted) -> dict[str, Any] | None:
    body = _checked(await on.client.get(one.url))
    return body if _state(body) in FINAL else None


def _state(body: dict[str, Any]) -> str:
    return str(body.get("status") or body.get("state"))


def _outcome(body: dict[str, Any]) -> str:
    """One line on how a piece of work ended, from whatever its system says of it."""
    state, result = _state(body), body.get("result") or {}
    if state in WITH_A_PERSON:
        return "[yellow]graded, not surely enough[/]"
    if state not in GOOD:
        return f"[red]{state}[/]"
    if "overallScore" in result:
        return f"[green]graded[/] {result['overallScore']}, band {result['band']}"
    if "deliveries" in body:
        sent = sum(one["status"] == "sent" for one in body["deliveries"])
        return f"[green]reviewed[/]: {len(result['findings'])} findings, {sent} mail"
    if "size" in result:
        return f"[green]converted[/]: {result['size']} bytes of XML"
    return f"[green]{state}[/]"


async def outage(on: Stage) -> list[Accepted]:
    """The translator goes down half-way: its breaker opens, jobs are held and spend nothing, then all drain."""
    on.title(f"2. {CARDS} postcards; their translator is taken down half-way")
    kernel, translator = on.kernel, on.desk.translator
    ids = [await submit.submit(kernel, on.desk.job, card) for card in demo_work.cards(CARDS)]
    await _until(lambda: _down(translator), "the translator was not called")
    on.say(f"{translator.falls_at - 1} calls go well, then it answers 503 to everything")
    await _until(lambda: _gate(kernel, Gate.OPEN), "the breaker did not open")
    await _until(lambda: _parked(kernel, 5), "no job was held")
    calls = translator.calls
    async with kernel.store.reading() as tx:
        held = [row for row in await jobs.page(tx, limit=1_000) if row["parked"]]
        reason = (await breakers.read(tx, TRANSLATOR)).state.reason
    unspent = sum(row["failures"] == 0 for row in held)
    on.say(f"the breaker is [red]open[/]: {reason}")
    on.say(f"{len(held)} jobs are held; {unspent} of them have not spent a single attempt")
    on.title("3. The translator comes back")
    translator.up = True
    await _until(lambda: _gate(kernel, Gate.CLOSED), "the breaker did not close")
    on.say("trial calls went well: the breaker is [green]closed[/], the held jobs drain with a ramp")
    await _until(lambda: _nothing_live(kernel), "the held jobs did not drain")
    on.say(f"{await _sent(kernel)} of {CARDS} are sent, with {translator.calls - calls} more calls")
    return [Accepted(DESK, f"card {number}", f"/api/ops/jobs/{job_id}") for number, job_id in enumerate(ids, 1)]


async def dead_letter(on: Stage) -> None:
    """One job died of its data. A person takes its case through every step."""
    on.title("4. One job died: its case is worked")
    kernel = on.kernel
    async with kernel.store.reading() as tx:
        found = await cases.page(tx)
    if len(found) != 1:
        raise HoldfastError(f"The demo expects one dead letter and finds {len(found)}.")
    case = found[0]
    on.say(f"dead letter: stage {case['stage']}, [red]{case['error_class']}[/]")
    await operate.triage(kernel, case["id"], cause="data", actor=ACTOR)
    on.say("triaged: the cause is the data")
    on.desk.translator.languages.add("Welsh")
    await operate.remediate(kernel, case["id"], evidence="Installed the Welsh dictionary.", actor=ACTOR)
    on.say("remediated: the Welsh dictionary is installed, and that is on record")
    done = await operate.replay(kernel, case["id"], actor=ACTOR)
    on.say(f"replayed from its failed stage '{done.stage}'")
    await _until(lambda: _nothing_live(kernel), "the replayed job did not end")
    await operate.resolve(kernel, case["id"], notes="Card sent after the replay.", actor=ACTOR)
    on.say("resolved: the card is sent")


async def _row(on: Stage, one: OpenSystem, accepted: Sequence[Accepted]) -> Row:
    await _until(lambda: no_message_pending(one.kernel), "messages were not published")
    asked = [await on.client.get(each.url) for each in accepted if each.system == one.name]
    return await account(one, [_state(_checked(answer)) for answer in asked])


async def _until(found: Callable[[], Awaitable[Any]], otherwise: str) -> Any:
    """Look until there is something; what does not come in time fails the demo."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if value := await found():
                    return value
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise HoldfastError(f"The demo waited {PATIENCE_S:.0f} s, but {otherwise}.") from None


async def _down(translator: Translator) -> bool:
    return not translator.up


async def _sent(kernel: Kernel) -> int:
    async with kernel.store.reading() as tx:
        return len(await jobs.page(tx, state="succeeded", limit=1_000))


async def _parked(kernel: Kernel, least: int) -> bool:
    async with kernel.store.reading() as tx:
        return sum(bool(row["parked"]) for row in await jobs.page(tx, limit=1_000)) >= least


async def _gate(kernel: Kernel, gate: Gate) -> bool:
    async with kernel.store.reading() as tx:
        return (await breakers.read(tx, TRANSLATOR)).state.gate is gate


async def _nothing_live(kernel: Kernel) -> bool:
    async with kernel.store.reading() as tx:
        return all(row["state"] in TERMINAL for row in await jobs.page(tx, limit=1_000))
