"""Prometheus and Alertmanager themselves accept what `deploy/` gives them, and page for what the code really tells."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from tests.deploy.alarms import alarms, pages, tool
from tests.services.found import REPOSITORY

from holdfast import App, Breaker, CallError, Category, Context, Job, Provider, stage
from holdfast.errors import Unroutable
from holdfast.http.metrics import PrometheusWatch, exposition
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.operate import remediate, replay, requeue, triage
from holdfast.kernel.relay import relay_once
from holdfast.kernel.submit import submit
from holdfast.main import load_systems
from holdfast.system import OpenSystem, System
from holdfast.tables import ops, outbox
from holdfast.testing import world
from holdfast.transports.memory import MemoryTransport
from holdfast.transports.seam import Message

CHECKS = [
    ("promtool", "check", "config", "deploy/prometheus/prometheus.yml"),
    ("promtool", "check", "rules", "deploy/prometheus/alerts.yml"),
    ("promtool", "test", "rules", "tests/deploy/alerts_test.yml"),
    ("amtool", "check-config", "deploy/alertmanager/alertmanager.yml"),
]


@pytest.mark.spec("000.41", "K17")
@pytest.mark.parametrize("command", CHECKS, ids=lambda command: command[-1].rpartition("/")[2])
def test_it_is_accepted_by_the_program_that_reads_it(command: tuple[str, ...]) -> None:
    program = tool(command[0])
    ran = subprocess.run([program, *command[1:]], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


app = App("errands")


@app.job()
class Errand(Job[str]):
    @stage()
    async def run(self, ctx: Context, trouble: str) -> None:
        if trouble == "bug":
            raise KeyError("nobody expected this")
        if trouble == "configuration":
            raise CallError.of(Category.BUG, "GATEWAY_MISCONFIGURED", "GATEWAY_URL cannot be used.")
        if trouble == "key":
            raise CallError.of(Category.AUTH, "AUTH_INVALID", "It does not know the key.")
        if trouble == "input":
            raise CallError.of(Category.VALIDATION, "UPSTREAM_UNPROCESSABLE", "It does not like this one.")


async def scrape(kernel: Kernel) -> str:
    return (await exposition([OpenSystem(System("errands", "Errands", "X", lambda env: app), kernel, {})])).decode()


@pytest.mark.spec("004.2")
@pytest.mark.parametrize(
    ("trouble", "category", "woken"),
    [
        ("bug", Category.BUG, {"HoldfastBug"}),
        ("configuration", Category.BUG, {"HoldfastBug"}),
        ("input", Category.VALIDATION, set()),
    ],
)
async def test_a_bug_or_a_wrong_configuration_becomes_a_dead_letter_and_pages(
    tmp_path: Path, trouble: str, category: Category, woken: set[str]
) -> None:
    async with world(app) as deployed:
        deployed.kernel.watch = PrometheusWatch()
        before = await scrape(deployed.kernel)
        await submit(deployed.kernel, Errand, trouble)
        await deployed.run_until_idle()
        (letter,) = await deployed.dead_letters()
        after = await scrape(deployed.kernel)
    assert (letter["state"], letter["category"]) == ("open", category)
    assert pages(tmp_path, [before, after, after]) == woken


@pytest.mark.spec("004.2")
async def test_the_page_ends_when_somebody_has_taken_the_letter(tmp_path: Path) -> None:
    async with world(app) as deployed:
        deployed.kernel.watch = PrometheusWatch()
        await submit(deployed.kernel, Errand, "bug")
        await deployed.run_until_idle()
        open_letter = await scrape(deployed.kernel)
        (letter,) = await deployed.dead_letters()
        await triage(deployed.kernel, letter["id"], cause="code", actor="ann")
        triaged = await scrape(deployed.kernel)
    assert pages(tmp_path, [open_letter] * 3) == {"HoldfastBug"}
    assert pages(tmp_path, [open_letter] * 3 + [triaged]) == set()


down = Provider("oracle", breaker=Breaker(cooldown_s=30, failures_in_a_row=3))
shop = App("errands")


@shop.job()
class Ask(Job[str]):
    @stage(provider=down)
    async def ask(self, ctx: Context, question: str) -> None:
        await ctx.call(lambda: asyncio.sleep(0))


@pytest.mark.spec("K17", "K9")
async def test_an_outage_of_twenty_minutes_pages_although_it_is_tried_again_and_again(tmp_path: Path) -> None:
    async with world(shop) as deployed:
        deployed.kernel.watch = PrometheusWatch()
        deployed.script(down, server_errors=1_000)
        for number in range(8):
            await deployed.enqueue(Ask, str(number))
        scrapes = []
        for _ in range(20):
            for _ in range(6):
                await deployed.tick()
                deployed.clock.advance(10)
            scrapes.append(await scrape(deployed.kernel))
    assert "HoldfastBreakerOpenLong" not in pages(tmp_path, scrapes[:12])
    assert pages(tmp_path, scrapes) == {"HoldfastBreakerOpenLong"}


@pytest.mark.spec("K17")
async def test_work_that_nobody_takes_pages_within_minutes(tmp_path: Path) -> None:
    async with world(shop) as deployed:
        deployed.kernel.watch = PrometheusWatch()
        await deployed.enqueue(Ask, "why")
        scrapes = []
        for _ in range(5):
            deployed.clock.advance(60)
            scrapes.append(await scrape(deployed.kernel))
    assert pages(tmp_path, scrapes) == {"HoldfastNoWorkers"}


@pytest.mark.spec("004.28", "K17")
@pytest.mark.parametrize(
    ("counter", "labels", "alert"),
    [
        ("effects_without_evidence", {"provider": "mail"}, "HoldfastEffectWithoutEvidence"),
        ("effects_duplicated", {"provider": "mail"}, "HoldfastEffectTwice"),
        ("reviews_taken_back", {}, "HoldfastMailTakenBack"),
    ],
)
async def test_the_first_of_what_must_never_happen_pages(
    tmp_path: Path, counter: str, labels: dict[str, str], alert: str
) -> None:
    """Also where the counter's series begins with that first one."""
    async with world(app) as deployed:
        watch = deployed.kernel.watch = PrometheusWatch()
        for system in load_systems():
            watch.declare(system.counters)
        before = await scrape(deployed.kernel)
        watch.count(counter, **labels)
        after = await scrape(deployed.kernel)
    assert pages(tmp_path, [before, before, after, after]) == {alert}
    assert pages(tmp_path, [before] * 4) == set()
    assert pages(tmp_path, [before, *[after] * 90]) == set(), "an hour later it is history"


@pytest.mark.spec("004.17", "K17")
async def test_a_job_that_dies_of_the_same_thing_after_its_replay_pages(tmp_path: Path) -> None:
    async with world(app) as deployed:
        deployed.kernel.watch = PrometheusWatch()
        await submit(deployed.kernel, Errand, "key")
        await deployed.run_until_idle()
        (letter,) = await deployed.dead_letters()
        once = await scrape(deployed.kernel)
        await triage(deployed.kernel, letter["id"], cause="auth_config", actor="ann")
        await remediate(deployed.kernel, letter["id"], evidence="a new key", actor="ann")
        await replay(deployed.kernel, letter["id"], actor="ann")
        await deployed.run_until_idle()
        again = await scrape(deployed.kernel)
    assert pages(tmp_path, [once] * 3) == set()
    assert pages(tmp_path, [once, again]) == {"HoldfastDeadLetterEscalated"}


@pytest.mark.spec("K23", "K17")
async def test_handlers_that_block_their_loop_again_and_again_are_a_ticket(tmp_path: Path) -> None:
    async with world(app) as deployed:
        watch = deployed.kernel.watch = PrometheusWatch()
        scrapes = [await scrape(deployed.kernel)]
        for _ in range(4):
            watch.count("loop_blocked", kind="errands.errand")
            scrapes.append(await scrape(deployed.kernel))
    assert alarms(tmp_path, scrapes[:-1]) == set()
    assert alarms(tmp_path, scrapes) == {("HoldfastLoopBlocked", "ticket")}


class Refusing(MemoryTransport):
    """A broker that has no place for any message."""

    async def publish(self, message: Message) -> None:
        raise Unroutable("nobody is bound to this key")


@pytest.mark.spec("K10", "K17")
async def test_messages_that_were_set_aside_are_tickets_until_somebody_sends_them_again(tmp_path: Path) -> None:
    async with world(app) as deployed:
        kernel = deployed.kernel
        kernel.watch, kernel.transport = PrometheusWatch(), Refusing()
        before = await scrape(kernel)
        async with kernel.store.transaction() as tx:
            await outbox.put(tx, [(kernel.new_uuid4(), "a", "x/y", "told", "{}", "{}")], kernel.now())
        for _ in range(kernel.tuning.relay_retries_max + 1):
            await relay_once(kernel)
            deployed.clock.advance(900)
        async with kernel.store.reading() as tx:
            (aside,) = await ops.outbox_page(tx, before=None, limit=1)
        after = await scrape(kernel)
        await requeue(kernel, aside.id, actor="ann")
        requeued = await scrape(kernel)
    assert aside.status == "failed"
    assert alarms(tmp_path, [before, after]) == {("HoldfastOutboxSetAside", "ticket")}
    assert alarms(tmp_path, [before, *[after] * 17]) >= {("HoldfastMessagesSetAside", "ticket")}
    assert ("HoldfastMessagesSetAside", "ticket") not in alarms(tmp_path, [before, *[after] * 17, requeued])
