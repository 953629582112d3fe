"""Jobs that a stage spawns: ordinary jobs, joined by a row that counts down as they end.

    spawning --all are written--> sealed --none is left, the parent is woken--> joined
        \\-------------the parent ended otherwise than well-------------> left --all cancelled--> gone

A child's id is a function of its join and its position, and the join is one of the parent's id, epoch, stage and the
order of the call: however often the parent's stage runs, each child is there once.

Why so: docs/decisions/0018-composition-is-rows.md
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Sized
from itertools import islice
from typing import TYPE_CHECKING, Any

from holdfast.core.failure import Category, Failure, failure
from holdfast.core.family import JOIN_KEY, NEVER_MS, Success, child_id
from holdfast.core.job import State
from holdfast.errors import BadDeclaration, LeaseLost, UnknownKind
from holdfast.kernel.compose.parking import park
from holdfast.kernel.declare.options import Options, check_options, each_of
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.kinds import JobKind
from holdfast.kernel.submit import (
    BULK_BYTES,
    BULK_ROWS,
    BULK_ROWS_FIRST,
    LOAD_ROWS_MIN,
    ROWS_AT_A_TIME,
    JobToEnqueue,
    name_place,
    prepare,
    submit_in,
)
from holdfast.stores.seam import LoadingTx, Tx
from holdfast.tables import joins, new_jobs
from holdfast.tables.jobs import NIL
from holdfast.tables.joins import ChildOutcome, Join

if TYPE_CHECKING:
    from holdfast.kernel.context import Context

PAGE = 5_000
LINE_MAX = 1_000
"""How many jobs in a row may each be the child of the one before."""


async def spawn(ctx: Context, kind: JobKind, input: object, options: Options) -> str:
    """Start a child and do not wait for it; its id."""
    check_options(options)
    name = ctx.numbered(f"spawn:{kind.name}")
    async with ctx.fenced() as tx:
        join = (await joins.of_stage(tx, ctx.job)).get(name)
        if join is None:
            await _check_line(ctx, tx)
            await joins.begin(tx, ctx.kernel.new_uuid4(), ctx.job, name, kind.name, "loose", ctx.now())
            join = (await joins.of_stage(tx, ctx.job))[name]
        if join.size == 0:
            (order,) = _orders(ctx, join, kind, [input], 0, options)
            await joins.grow(tx, join.id, 0, 1, ctx.now())
            await submit_in(tx, [order], ctx.now(), ctx.kernel.watch)
        await ctx.kernel.failpoint("spawn.before_commit")
    await ctx.kernel.failpoint("spawn.after_commit")
    return child_id(join.created_at, join.id, 0)


async def gather(ctx: Context, kind: JobKind, inputs: Iterable[Any], options: Options) -> list[Success[Any] | Failure]:
    """Start a child for each input, leave the handler until all have ended, and return what came of each."""
    check_options(options)
    given = each_of(kind.name, inputs)
    join = await _join(ctx, ctx.numbered(f"gather:{kind.name}"), kind)
    if join.state == "spawning":
        join = await _spawn_all(ctx, join, kind, given, options)
    elif isinstance(inputs, Sized) and len(inputs) != join.size:
        raise BadDeclaration(
            f"The stage '{ctx.stage}' of '{ctx.kind.name}' has started {join.size} children, and now asks for "
            f"{len(inputs)}: after a wait it runs again, and must ask for the same; keep them in a checkpoint."
        )
    if join.unended > 0:
        raise park(ctx, JOIN_KEY + join.id, NEVER_MS)
    await _take(ctx, join)
    return await outcomes_of(ctx.kernel, join)


async def _take(ctx: Context, join: Join) -> None:
    """All have ended, and the parent goes on. An attempt that has lost its lease takes nothing: the next one may wait
    for this join already, and the keeper wakes it by what is sealed."""
    async with ctx.fenced() as tx:
        await joins.move(tx, join.id, "sealed", "joined", ctx.now())


async def _join(ctx: Context, name: str, kind: JobKind) -> Join:
    async with ctx.kernel.store.reading() as tx:
        join = (await joins.of_stage(tx, ctx.job)).get(name)
    if join is None:
        async with ctx.fenced() as tx:
            await _check_line(ctx, tx)
            await joins.begin(tx, ctx.kernel.new_uuid4(), ctx.job, name, kind.name, "spawning", ctx.now())
            join = (await joins.of_stage(tx, ctx.job))[name]
    return join


async def _check_line(ctx: Context, tx: Tx) -> None:
    """Refuse children of a job that stands at the end of a long line of parents: most likely one starts itself."""
    if ctx.job.join_id is not None and await joins.generations(tx, ctx.job.join_id, LINE_MAX) >= LINE_MAX:
        raise BadDeclaration(
            f"'{ctx.kind.name}' stands at the end of {LINE_MAX:,} jobs that have each started the next: one that "
            "starts itself must end somewhere. If that is meant, start the next with enqueue(), which makes no child."
        )


async def _spawn_all(ctx: Context, join: Join, kind: JobKind, given: Iterator[Any], options: Options) -> Join:
    """Write the children that are not there yet, in commits of thousands. It goes on where it was interrupted: in this
    attempt, a later one, or one that does not know yet that it has lost its lease."""
    _skip(given, join.size)
    position, rows = join.size, BULK_ROWS_FIRST
    while part := await _next_part(ctx, join, kind, given, position, rows, options):
        grown = await _write(ctx, join, part, position)
        reached = position + len(part)
        if not grown:  # another attempt has written these, and may be further
            reached = (await _again(ctx, join)).size
            _skip(given, reached - position - len(part))
        position, rows = max(reached, position), min(BULK_ROWS, rows * 2)
    async with ctx.kernel.store.transaction() as tx:
        await joins.seal(tx, join.id, position, ctx.now())
    return await _again(ctx, join)


def _skip(given: Iterator[Any], number: int) -> None:
    next(islice(given, number, number), None)


async def _next_part(
    ctx: Context, join: Join, kind: JobKind, given: Iterator[Any], position: int, rows: int, options: Options
) -> list[JobToEnqueue]:
    part: list[JobToEnqueue] = []
    size = 0
    for order in name_place(_orders(ctx, join, kind, given, position, options), position + 1):
        part.append(order)
        size += len(order.row.payload)
        if len(part) == rows or size >= BULK_BYTES:
            break
        if len(part) % ROWS_AT_A_TIME == 0:
            await asyncio.sleep(0)
    return part


def _orders(
    ctx: Context, join: Join, kind: JobKind, inputs: Iterable[Any], position: int, options: Options
) -> Iterator[JobToEnqueue]:
    """Children as jobs to write: of this join, and with no later deadline than their parent's."""
    now, latest = ctx.now(), ctx.job.deadline_at
    given: Options = {"owner": ctx.job.owner, "trace": ctx.job.trace, **options}
    for number, each in enumerate(inputs, position):
        order = prepare(kind, each, job_id=child_id(join.created_at, join.id, number), now=now, **given)
        own = order.row.deadline_at
        deadline = own if latest is None else latest if own is None else min(own, latest)
        yield order._replace(row=order.row._replace(join_id=join.id, deadline_at=deadline))


async def _write(ctx: Context, join: Join, part: list[JobToEnqueue], position: int) -> bool:
    kernel = ctx.kernel
    async with kernel.store.transaction() as tx:
        if not await joins.grow(tx, join.id, position, len(part), ctx.now()):
            return False
        await _insert(kernel, tx, part)
        await kernel.failpoint("spawn.before_commit")
    await kernel.failpoint("spawn.after_commit")
    return True


async def _insert(kernel: Kernel, tx: Tx, part: list[JobToEnqueue]) -> None:
    """No position is written twice, so that the database's own bulk load will do."""
    if isinstance(tx, LoadingTx) and len(part) >= LOAD_ROWS_MIN and all(order.is_plain for order in part):
        await new_jobs.load(tx, [order[:2] for order in part], kernel.now())
        tx.after_commit(lambda: kernel.watch.count("jobs_created", len(part), kind=part[0].row.kind))
    else:
        await submit_in(tx, part, kernel.now(), kernel.watch)


async def _again(ctx: Context, join: Join) -> Join:
    async with ctx.kernel.store.reading() as tx:
        seen = (await joins.of_stage(tx, ctx.job)).get(join.name)
    if seen is None or seen.state in ("left", "gone"):
        raise LeaseLost(f"Job {ctx.job.id} has ended while attempt {ctx.job.attempt} spawned its children.")
    return seen


async def outcomes_of(kernel: Kernel, join: Join) -> list[Success[Any] | Failure]:
    """What came of every child, in the order of the inputs."""
    by_id: dict[str, Success[Any] | Failure] = {}
    after = NIL
    while True:
        async with kernel.store.reading() as tx:
            rows = await joins.outcomes(tx, join.id, after, PAGE)
        by_id.update((row.id, outcome_of(kernel, row)) for row in rows)
        if len(rows) < PAGE:
            break
        after = rows[-1].id
    gone = failure(Category.POLICY, "RESULT_PRUNED", "The job ended so long ago that its row has been removed.")
    return [by_id.get(child_id(join.created_at, join.id, number), gone) for number in range(join.size)]


def outcome_of(kernel: Kernel, row: ChildOutcome) -> Success[Any] | Failure:
    """What came of a job that has ended."""
    if row.state == State.SUCCEEDED:
        return Success(None if row.value is None else _value(kernel, row, row.value))
    if row.state == State.CANCELLED:
        return failure(Category.POLICY, "CANCELLED", "The job was cancelled.")
    why = json.loads(row.error or "{}")
    category = Category(row.category) if row.category else Category.BUG
    return failure(category, why.get("error_class", "UNKNOWN"), why.get("message", ""))


def _value(kernel: Kernel, row: ChildOutcome, text: str) -> Any:
    """As its kind's code reads it; as plain JSON where that is not loaded."""
    try:
        stage = kernel.registry.kind(row.kind).by_name.get(row.stage)
    except UnknownKind:
        stage = None
    return json.loads(text) if stage is None else stage.load(text)
