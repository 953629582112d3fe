"""More than one queue in an app: kinds are assigned, and workers serve some of them with a concurrency of their own."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import App, Context, Job, stage
from holdfast.engines.run import Duties, run
from holdfast.errors import BadDeclaration
from holdfast.kernel.turn import turn
from tests.command_line import invoke
from tests.kernel.places import Deploy, take

app = App("press")
EACH = 6
running: set[str] = set()
most: dict[str, int] = {}
ended: list[str] = []
stopping: list[asyncio.Event] = []


async def work(name: str) -> None:
    running.add(name)
    kind = name.partition(" ")[0]
    most[kind] = max(most.get(kind, 0), sum(each.startswith(kind) for each in running))
    for _ in range(20):
        await asyncio.sleep(0)
    running.discard(name)
    ended.append(name)
    if len(ended) == 2 * EACH:
        stopping[0].set()


@app.job(queue="cpu")
class Print(Job[int]):
    @stage()
    async def go(self, ctx: Context, number: int) -> None:
        await work(f"print {number}")


@app.job()
class Mail(Job[int]):
    @stage()
    async def go(self, ctx: Context, number: int) -> None:
        await work(f"mail {number}")


@pytest.mark.spec("K2")
async def test_a_worker_of_some_queues_claims_only_theirs(deploy: Deploy) -> None:
    world = await deploy(app)
    printed, mailed = await world.enqueue(Print, 1), await world.enqueue(Mail, 1)
    assert list(world.kernel.registry.queues) == ["press", "press.cpu"]
    taken, _ = await turn(world.kernel, "w1", ["press.cpu"], [], 10)
    assert [one.job.id for one in taken] == [printed]
    assert [job.id for job in await take(world.kernel)] == [mailed], "one of all queues takes the rest"


@pytest.mark.spec("K2")
async def test_each_queue_has_a_concurrency_of_its_own(deploy: Deploy) -> None:
    world = await deploy(app)
    for each in (running, most, ended, stopping):
        each.clear()
    stopping.append(asyncio.Event())
    for number in range(EACH):
        await world.enqueue(Print, number)
        await world.enqueue(Mail, number)
    duties = Duties(relay=False, consume=False, queues={"press.cpu": 1, "press": 3})
    async with asyncio.timeout(30):
        await run(world.kernel, duties, stopping[0])
    assert most["print"] == 1 and 1 < most["mail"] <= 3


def test_a_queue_needs_a_name_that_can_be_one() -> None:
    with pytest.raises(BadDeclaration, match="The queue 'Big One' of 'press'"):

        @App("press").job(queue="Big One")
        class Wrong(Job[int]):
            @stage()
            async def go(self, ctx: Context, number: int) -> None: ...


@pytest.mark.parametrize(
    ("given", "why"),
    [("cpu", "write --queue name=4"), ("cpu=0", "write --queue name=4"), ("cpu=x", "write --queue name=4")],
)
def test_a_queue_on_the_command_line_says_how_many_at_once(given: str, why: str) -> None:
    ran = invoke(["worker", "--queue", given])
    assert ran.exit_code == 1 and why in ran.output


def test_a_queue_that_nobody_has_is_refused() -> None:
    ran = invoke(["worker", "--system", "review", "--queue", "cpu=2"])
    assert ran.exit_code == 1 and "There is no queue named 'cpu'; the loaded apps have review." in ran.output
