"""Rolls the past up by the minute, for the charts: a step of the keeper, from what is stored already.

    events --from the remembered position, what is some seconds old--> cells of minutes --hour over--> cells of hours
    a look at the queues, the workers --------------------------------^

The position and what was counted up to it are one commit: nothing is counted twice, whoever dies, and two keepers take
turns. The hot path writes nothing for it. Minutes and hours are kept for thirty days.

Why so: docs/decisions/0042-hands-on-the-claim.md
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

from holdfast.core.floor import BOTTOM
from holdfast.kernel.kernel import Kernel
from holdfast.operator.snapshot import snapshot
from holdfast.stores.seam import Tx
from holdfast.tables import rollups, workers
from holdfast.tables.rollups import EVENTS, HOUR_MS, HOURS, MINUTE_MS, Cell, Position

ROLL_UP_S = 10.0
WAITING = ("queued", "parked", "paused")
SETTLE_MS = 5_000
"""An event that is younger may have neighbours whose transactions have not ended."""
EVENTS_MAX = 20_000
"""So many events are counted in one commit, and no more."""
OWNERS_MAX = 10
"""So many owners of one fold have cells of their own."""
KEPT_MS = 30 * 24 * HOUR_MS
BEGUN_MS = 10 * MINUTE_MS


async def roll_up_once(kernel: Kernel) -> int:
    """Count what has ended since the last time, and look once; returns how many events that were, 0 when it is done."""
    counted = await _count_ends(kernel)
    if counted < EVENTS_MAX:
        await _look(kernel)
        await _fold_hours(kernel)
        await _prune(kernel)
    return counted if counted >= EVENTS_MAX else 0


async def _count_ends(kernel: Kernel) -> int:
    until = kernel.now() - SETTLE_MS
    async with kernel.store.transaction() as tx:
        position = await rollups.lock(tx, EVENTS)
        upto = await rollups.reach(tx, position.seq, until, EVENTS_MAX)
        cells: list[Cell] = []
        if upto is not None:
            cells = [_name_stage(kernel, cell) for cell in await rollups.read(tx, position.seq, upto)]
        since = max(position.at, until - BEGUN_MS)
        cells += await rollups.submitted(tx, since, until)
        if cells:
            await rollups.add(tx, _sum_up(keep_largest(cells)))
        await rollups.move(tx, EVENTS, Position(position.seq if upto is None else upto, until))
    return 0 if upto is None else upto - position.seq


def keep_largest(cells: list[Cell]) -> list[Cell]:
    """The cells of the owners with the most by their names, those of all others under no name: a million owners take no
    more room than a few."""
    numbers: Counter[str] = Counter()
    for cell in cells:
        if cell.series == "owner":
            numbers[cell.name] += cell.number
    named = {name for name, _ in numbers.most_common(OWNERS_MAX)}
    is_kept = (cell.series not in ("owner", "spent") or cell.name in named for cell in cells)
    return [cell if kept else cell._replace(name="") for cell, kept in zip(cells, is_kept, strict=True)]


def _name_stage(kernel: Kernel, cell: Cell) -> Cell:
    """A job's first stage is where it begins: no step leads there."""
    kind = kernel.registry.kinds.get(cell.name)
    if cell.series not in ("stage", "error") or cell.part or kind is None:
        return cell
    return cell._replace(part=kind.stages[0].name)


def _sum_up(cells: list[Cell]) -> list[Cell]:
    """Cells with every key once."""
    sums: dict[tuple[int, str, str, str, str, int], tuple[int, int]] = {}
    for cell in cells:
        number, total = sums.get(cell[:6], (0, 0))
        sums[cell[:6]] = (number + cell.number, total + cell.sum)
    return [Cell(*key, number, total) for key, (number, total) in sums.items()]


async def _look(kernel: Kernel) -> None:
    """How deep the queues are at this minute, how old their oldest job, and which workers were started lately."""
    view = await snapshot(kernel)
    minute = view.now // MINUTE_MS * MINUTE_MS
    cells = [
        Cell(minute, "depth", lane.queue, lane.state, "", 0, lane.jobs, int(lane.oldest_age_s * 1_000))
        for lane in view.lanes
    ]
    oldest = max((cell.sum for cell in cells if cell.part in ("queued", "parked")), default=0)
    # The most of a minute is kept of each cell: lanes that a job passed through in it must not be added up.
    waiting: Counter[str] = Counter()
    for lane in view.lanes:
        if lane.state in WAITING:
            waiting[lane.queue] += lane.jobs
    cells += [Cell(minute, "depth", queue, "all", "", 0, jobs, 0) for queue, jobs in waiting.items()]
    cells.append(Cell(minute, "depth", "", "oldest", "", 0, 0, oldest))
    cells.append(Cell(minute, "depth", "", "outbox", "", 0, view.outbox_pending, int(view.outbox_lag_s * 1_000)))
    async with kernel.store.transaction() as tx:
        await rollups.put(tx, cells + await _deploys(tx, view.now))


async def _deploys(tx: Tx, now: int) -> list[Cell]:
    started: Counter[tuple[int, str, str]] = Counter()
    for row in await workers.started_since(tx, now - BEGUN_MS):
        digest = blake2b(str(row.declared).encode(), digest_size=4).hexdigest()
        started[row.started_at // MINUTE_MS * MINUTE_MS, row.release or "", digest] += 1
    return [Cell(at, "deploy", release, digest, "", 0, number, 0) for (at, release, digest), number in started.items()]


async def _fold_hours(kernel: Kernel) -> None:
    """Every hour that is over and wholly counted, once."""
    now = kernel.now()
    last = (now - 2 * MINUTE_MS) // HOUR_MS * HOUR_MS - HOUR_MS
    async with kernel.store.reading() as tx:
        known = await rollups.read_position(tx, HOURS)
    if known is not None and known.at >= last:
        return
    async with kernel.store.transaction() as tx:
        position = await rollups.lock(tx, HOURS)
        first = max(position.at + HOUR_MS, last - 23 * HOUR_MS)
        for hour in range(first, last + 1, HOUR_MS):
            await rollups.fold_hour(tx, hour)
        await rollups.move(tx, HOURS, position._replace(at=max(position.at, last)))


async def _prune(kernel: Kernel) -> None:
    before = (kernel.now() - KEPT_MS) // MINUTE_MS * MINUTE_MS
    with kernel.floors.times("rollups").scan(kernel.now) as scan:
        async with kernel.store.transaction() as tx:
            for span in (MINUTE_MS, HOUR_MS):
                await rollups.prune(tx, span, scan.start or BOTTOM, before)
        scan.reached(before)
