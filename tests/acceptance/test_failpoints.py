"""A real process dies, or stands still past its lease, at every named place; another one finishes its work.

Each cell of the matrix (failpoint x signal) is a deployment of its own: an armed process runs into the failpoint, a
second one finishes, and a stopped one is woken when everything is done: by then it may write nothing.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import pytest

from holdfast.engines.worker import Worker
from holdfast.kernel.failpoint import NAMES
from holdfast.kernel.kernel import Kernel, Tuning
from holdfast.kernel.operate import remediate, triage
from holdfast.kernel.submit import submit
from holdfast.kernel.turn import turn
from tests.acceptance.apps.orders import OrderIn
from tests.acceptance.deployment import Deployment, Ground, all_ended, change, kind, rows
from tests.acceptance.process import Process, until
from tests.acceptance.verify import assert_untouched, snapshot, verify

pytestmark = pytest.mark.slow

AT_ONCE = 5
# No cell of the matrix: nothing that runs as a process of Holdfast comes by.
OUT_OF_REACH = {
    "paid.after_record": "no stage of the orders pays; tests/kernel/test_paid.py crashes there",
    **{
        name: "no order has children or checkpoints; tests/kernel/test_family.py and the simulated families crash there"
        for name in NAMES
        if name.startswith(("spawn.", "wake.", "checkpoint."))
    },
    **{
        name: "no order has rows of its own; tests/kernel/test_own_rows.py crashes there"
        for name in NAMES
        if name.startswith("own_rows.")
    },
}
EMBEDDED = ("claim.after_commit", "settle.before_commit", "effect.after_send", "relay.after_publish")


@dataclass(frozen=True)
class Cell:
    name: str
    action: str
    dialect: str = "postgres"

    def __str__(self) -> str:
        return f"{self.name}-{self.action}-{self.dialect}"


CELLS = [Cell(name, action) for name, action in product(sorted(NAMES - set(OUT_OF_REACH)), ("kill", "stop"))]
# A process that is stopped inside a transaction holds SQLite's one write lock, so that only kills can be told there.
CELLS += [Cell(name, "kill", "sqlite") for name in EMBEDDED]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, ground: Ground) -> Iterator[dict[Cell, BaseException | None]]:
    """What came of every selected cell; they run side by side, because most of their time is waiting for leases."""
    chosen = [item.callspec.params["cell"] for item in request.session.items if "[" in item.name and _is_cell(item)]

    async def run() -> list[BaseException | None]:
        room = asyncio.Semaphore(AT_ONCE)
        return await asyncio.gather(*[_contained(ground, cell, room) for cell in chosen])

    yield dict(zip(chosen, asyncio.run(run()), strict=True))


def _is_cell(item: pytest.Item) -> bool:
    return getattr(item, "function", None) is test_work_goes_on_after_a_process_is_lost_at


async def _contained(ground: Ground, cell: Cell, room: asyncio.Semaphore) -> BaseException | None:
    async with room:
        site = await asyncio.to_thread(ground.deploy if cell.dialect == "postgres" else ground.embed)
        try:
            await run_cell(site, cell)
        except Exception as error:
            return error
        finally:
            for process in site.processes:
                process.send(signal.SIGKILL)
                await process.until_ended()
            await asyncio.to_thread(site.clear)
    return None


@pytest.mark.spec("K1", "K3", "K10", "K11", "K12", "K15")
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_work_goes_on_after_a_process_is_lost_at(cell: Cell, outcomes: dict[Cell, BaseException | None]) -> None:
    outcome = outcomes[cell]
    if outcome is not None:
        raise outcome


@pytest.mark.spec("K3")
def test_every_failpoint_is_in_the_matrix_or_says_why_not() -> None:
    tried = {(cell.name, cell.action) for cell in CELLS if cell.dialect == "postgres"}
    assert tried == {(name, action) for name in NAMES - set(OUT_OF_REACH) for action in ("kill", "stop")}
    assert set(OUT_OF_REACH) <= NAMES and all(OUT_OF_REACH.values())


async def run_cell(site: Deployment, cell: Cell) -> None:
    async with site.kernel() as kernel:
        if cell.name == "replay.before_commit":
            await _replay_twice(site, kernel, cell)
        else:
            await _work_twice(site, kernel, cell)
        await verify(site, kernel)


async def _work_twice(site: Deployment, kernel: Kernel, cell: Cell) -> None:
    await _fill(kernel)
    first = site.worker(HOLDFAST_FAILPOINTS=f"{cell.name}={cell.action}")
    await _lost(first, cell)
    second = site.worker()
    await _finished(kernel, first, second)
    await _awaken(kernel, first, cell)
    assert await second.end() == 0, second.tail()
    states = await rows(kernel, "SELECT kind, state, deadline_at, error FROM holdfast_jobs ORDER BY kind")
    for job in states:
        if job["deadline_at"] is not None:
            assert job["state"] == "dead" and "DEADLINE" in job["error"]
        elif job["kind"] != "orders.fax":  # an ambiguous fax is for a person: it may rightly be a dead letter
            assert job["state"] == "succeeded", job


async def _fill(kernel: Kernel) -> None:
    """Orders, one of a lost worker, one whose answer gets lost, one past its deadline, and a fax."""
    order, fax = kind(kernel, "order"), kind(kernel, "fax")
    await submit(kernel, order, OrderIn(1))
    brief = Kernel(kernel.store, kernel.registry, tuning=Tuning(lease_s=0.003, renew_s=0.001))
    await turn(brief, "lost", kernel.registry.queues, [], 1)
    await submit(kernel, order, OrderIn(2, doubt=True), key="order:2")
    for number in (3, 4):
        await submit(kernel, order, OrderIn(number), key=f"order:{number}")
    late = await submit(kernel, order, OrderIn(5), delay_s=3_600, deadline_s=7_200)
    await change(kernel, f"UPDATE holdfast_jobs SET deadline_at = {kernel.now() - 1} WHERE id = '{late}'")
    await submit(kernel, fax, OrderIn(6))


async def _lost(process: Process, cell: Cell) -> None:
    """The process has run into its failpoint."""
    if cell.action == "kill":
        assert await process.until_ended() == -signal.SIGKILL, process.tail()
    else:
        await process.until_stopped()


async def _finished(kernel: Kernel, first: Process, second: Process) -> None:
    async def ended() -> bool:
        assert second.exit_code() is None, second.tail()
        return await all_ended(kernel)

    try:
        await until(ended, "the second process to finish", process=second)
    except AssertionError as error:
        left = "SELECT kind, stage, state, attempt, lease_owner, error FROM holdfast_jobs WHERE finished_at IS NULL"
        raise AssertionError(f"{error}\n{await rows(kernel, left)}") from None


async def _awaken(kernel: Kernel, first: Process, cell: Cell, *, asked: bool = True) -> None:
    """Wake a stopped process, and let it do whatever it still means to do. A worker is asked to end."""
    if cell.action == "kill":
        return
    before = await snapshot(kernel)
    first.send(signal.SIGCONT)
    if asked:
        first.send(signal.SIGTERM)
    assert await first.until_ended() == (0 if asked else 1), first.tail()
    assert_untouched(before, await snapshot(kernel))


async def _replay_twice(site: Deployment, kernel: Kernel, cell: Cell) -> None:
    """An operator's command is lost before its commit; the next one replays the dead letter, once."""
    await submit(kernel, kind(kernel, "broken"), OrderIn(1))
    await Worker(kernel).run_until_idle()
    (case,) = await rows(kernel, "SELECT CAST(id AS TEXT) AS id FROM holdfast_dead_letters")
    await triage(kernel, case["id"], cause="data", actor="test")
    await remediate(kernel, case["id"], evidence="the ledger was mended", actor="test")
    site.ledger.note("mended")
    command = ("dead", "replay", case["id"])
    first = site.start(*command, HOLDFAST_FAILPOINTS=f"{cell.name}={cell.action}")
    await _lost(first, cell)
    assert await site.start(*command).until_ended() == 0
    second = site.worker()
    await _finished(kernel, first, second)
    await _awaken(kernel, first, cell, asked=False)
    assert await second.end() == 0
    (job,) = await rows(kernel, "SELECT state, epoch FROM holdfast_jobs")
    assert job == {"state": "succeeded", "epoch": 1}
