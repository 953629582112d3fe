"""`holdfast demo`: real work through every installed system, a provider taken down half-way, and an account of it all.

Everything happens in this process and in a private folder that is removed at the end, also after Ctrl-C. The demo asks
over the same HTTP interface as anybody else and believes only what the databases say.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console

from holdfast.core.breaker import Gate
from holdfast.core.job import TERMINAL
from holdfast.engines.run import Duties, prepare, run
from holdfast.errors import HoldfastError
from holdfast.http.app import create_app
from holdfast.http.auth import known_roles, token_for
from holdfast.kernel import operate, submit
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.observe.watch import LogWatch
from holdfast.main import close_systems, load_systems, open_systems
from holdfast.playground.demo_stage import DemoAccepted, DemoStage, DemoStanding, until
from holdfast.settings import Settings, read
from holdfast.system import OpenSystem
from holdfast.tables import cases, jobs, providers
from holdfast_proof import demo_work
from holdfast_proof.demo_account import Account, AccountRow, account, no_message_pending, show
from holdfast_proof.demo_work import DESK, TRANSLATOR, PostcardDesk, Translator

CARDS = 30
ACTOR = "demo"


@dataclass(frozen=True)
class Postcards:
    """The demo's own part: an app whose provider is taken down, and the kernel it runs on."""

    desk: PostcardDesk
    kernel: Kernel


async def demo(console: Console) -> Account:
    """Play the whole story; SIGTERM ends it as Ctrl-C does."""
    me = asyncio.current_task()
    assert me is not None
    with suppress(NotImplementedError, RuntimeError):  # no signals where the loop is not the main thread's
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)
    logging.getLogger("holdfast").addHandler(logging.NullHandler())  # the story is told here, not by log lines
    began = time.monotonic()
    async with _stage(console) as (on, own):
        accepted = await systems(on)
        accepted += await outage(on, own)
        await dead_letter(on, own)
        on.title("5. The account")
        rows = [await _row(on, one, accepted) for one in on.opened]
    made = Account(tuple(rows), time.monotonic() - began)
    show(made, console)
    return made


@asynccontextmanager
async def _stage(console: Console) -> AsyncIterator[tuple[DemoStage, Postcards]]:
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="holdfast-demo-"))
    try:
        desk = demo_work.build_desk(falls_at=CARDS // 2)
        installed = load_systems()
        # Not the caller's environment: the demo must reach no database, broker or provider of theirs.
        env = {"HOLDFAST_DATA_DIR": str(folder), "HOLDFAST_JWT_SECRET": secrets.token_urlsafe(48)}
        for system in installed:
            env |= system.demo.settings(folder) if system.demo is not None else {}
        settings = read(Settings, env)
        opened = await open_systems(settings, env, [system.name for system in installed], [desk.app], watch=LogWatch())
        try:
            async with _running(opened):
                transport = httpx.ASGITransport(create_app(settings, opened))
                headers = {"Authorization": f"Bearer {token_for(settings, 'demo', known_roles(installed))}"}
                async with httpx.AsyncClient(transport=transport, base_url="http://demo", headers=headers) as client:
                    kernel = next(one.kernel for one in opened if one.name == DESK)
                    yield DemoStage(folder, opened, client, console), Postcards(desk, kernel)
        finally:
            await close_systems(opened)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def _running(opened: Sequence[OpenSystem]) -> AsyncIterator[None]:
    for one in opened:
        await one.kernel.migrate()
        await prepare(one.kernel)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for one in opened:
            group.create_task(run(one.kernel, one.duties(Duties(concurrency=8, grace_s=5.0)), stop))
        yield
        stop.set()


async def systems(on: DemoStage) -> list[DemoAccepted]:
    """Real work for every installed system, followed to its end."""
    on.title("1. Work for every installed system, over HTTP")
    plays = [one.system.demo.play(on) for one in on.opened if one.system.demo is not None]
    accepted = [each for played in await asyncio.gather(*plays) for each in played]
    if not accepted:
        on.say("none is installed")
    return accepted


async def outage(on: DemoStage, own: Postcards) -> list[DemoAccepted]:
    """The translator goes down half-way: its breaker opens, jobs are held and spend nothing, then all drain."""
    on.title(f"2. {CARDS} postcards; their translator is taken down half-way")
    kernel, translator = own.kernel, own.desk.translator
    ids = [await submit.submit(kernel, own.desk.job, card) for card in demo_work.cards(CARDS)]
    await until(lambda: _down(translator), "the translator was not called")
    on.say(f"{translator.falls_at - 1} calls go well, then it answers 503 to everything")
    await until(lambda: _gate(kernel, Gate.OPEN), "the breaker did not open")
    await until(lambda: _parked(kernel, 5), "no job was held")
    calls = translator.calls
    async with kernel.store.reading() as tx:
        held = [row for row in await jobs.page(tx, limit=1_000) if row.parked]
        reason = (await providers.read(tx, TRANSLATOR)).state.reason
    unspent = sum(row.failures == 0 for row in held)
    on.say(f"the breaker is [red]open[/]: {reason}")
    on.say(f"{len(held)} jobs are held; {unspent} of them have not spent a single attempt")
    on.title("3. The translator comes back")
    translator.up = True
    await until(lambda: _gate(kernel, Gate.CLOSED), "the breaker did not close")
    on.say("trial calls went well: the breaker is [green]closed[/], the held jobs drain with a ramp")
    await until(lambda: _nothing_live(kernel), "the held jobs did not drain")
    on.say(f"{await _sent(kernel)} of {CARDS} are sent, with {translator.calls - calls} more calls")
    return [
        DemoAccepted(DESK, f"card {number}", f"/api/ops/jobs/{job_id}", _standing)
        for number, job_id in enumerate(ids, 1)
    ]


def _standing(job: dict[str, Any]) -> DemoStanding:
    if job["state"] not in TERMINAL:
        return DemoStanding.UNFINISHED
    return DemoStanding.DONE if job["state"] == "succeeded" else DemoStanding.FAILED


async def dead_letter(on: DemoStage, own: Postcards) -> None:
    """One job died of its data. A person takes its case through every step."""
    on.title("4. One job died: its case is worked")
    kernel = own.kernel
    async with kernel.store.reading() as tx:
        found = await cases.page(tx)
    if len(found) != 1:
        raise HoldfastError(f"The demo expects one dead letter and finds {len(found)}.")
    case = found[0]
    on.say(f"dead letter: stage {case.stage}, [red]{case.error_class}[/]")
    await operate.triage(kernel, case.id, cause="data", actor=ACTOR)
    on.say("triaged: the cause is the data")
    own.desk.translator.languages.add("Welsh")
    await operate.remediate(kernel, case.id, evidence="Installed the Welsh dictionary.", actor=ACTOR)
    on.say("remediated: the Welsh dictionary is installed, and that is on record")
    done = await operate.replay(kernel, case.id, actor=ACTOR)
    on.say(f"replayed from its failed stage '{done.stage}'")
    await until(lambda: _nothing_live(kernel), "the replayed job did not end")
    await operate.resolve(kernel, case.id, notes="Card sent after the replay.", actor=ACTOR)
    on.say("resolved: the card is sent")


async def _row(on: DemoStage, one: OpenSystem, accepted: Sequence[DemoAccepted]) -> AccountRow:
    await until(lambda: no_message_pending(one.kernel), "messages were not published")
    mine = [each for each in accepted if each.system == one.name]
    return await account(one, [each.standing(await on.ask("GET", each.url)) for each in mine])


async def _down(translator: Translator) -> bool:
    return not translator.up


async def _sent(kernel: Kernel) -> int:
    async with kernel.store.reading() as tx:
        return len(await jobs.page(tx, state="succeeded", limit=1_000))


async def _parked(kernel: Kernel, least: int) -> bool:
    async with kernel.store.reading() as tx:
        return sum(bool(row.parked) for row in await jobs.page(tx, limit=1_000)) >= least


async def _gate(kernel: Kernel, gate: Gate) -> bool:
    async with kernel.store.reading() as tx:
        return (await providers.read(tx, TRANSLATOR)).state.gate is gate


async def _nothing_live(kernel: Kernel) -> bool:
    async with kernel.store.reading() as tx:
        return all(row.state in TERMINAL for row in await jobs.page(tx, limit=1_000))
