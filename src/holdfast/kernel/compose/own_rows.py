"""The caller's own rows in the stage's commit: one transaction of theirs, with the stage's result and its next state.

    begin -> is the job still ours? -> the caller's rows, further enqueues -> the fenced end of the stage -> commit

The last statement before the commit ends the attempt behind its fence: if another attempt owns the job by then,
everything is rolled back. After the commit the stage is done, whatever becomes of this process.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.core.job import State
from holdfast.core.outcome import Next
from holdfast.errors import BadDeclaration, InvalidInput, LeaseLost
from holdfast.kernel.compose.foreign import (
    ForeignTx,
    autocommit_of,
    commits_itself,
    foreign_tx,
    library_of,
    name_of,
    unscoped,
)
from holdfast.kernel.enqueue import finish
from holdfast.kernel.observe.attempt_log import ATTEMPT_LOG
from holdfast.kernel.settle import Ending
from holdfast.kernel.turn import end
from holdfast.tables import jobs

if TYPE_CHECKING:
    from holdfast.kernel.context import Context

C = TypeVar("C")


class StageCommit(Generic[C]):
    """What is being committed together. `session` is the caller's own connection or session."""

    def __init__(self, session: C) -> None:
        self.session = session
        self.value: object = None

    def returns(self, value: object) -> None:
        """Say what the stage returns: it is stored with your rows, and what the handler returns is not."""
        self.value = value


@asynccontextmanager
async def committing(ctx: Context, session: C) -> AsyncIterator[StageCommit[C]]:
    """For an `async def` stage, with a connection or session of any kind."""
    session = unscoped(session)
    tx = _prepare(ctx, session)
    doors = _doors(session)
    begun = await _done(doors.begin(session))
    try:
        await _check_held(ctx, tx)
        stage_commit = StageCommit(session)
        yield stage_commit
        await _end_stage(ctx, tx, stage_commit)
        await ctx.kernel.failpoint("own_rows.before_commit")
        await _done(doors.commit(session, begun))
    except BaseException:
        await _done(doors.rollback(session, begun))
        raise
    ctx.written = tx
    await ctx.kernel.failpoint("own_rows.after_commit")


@contextmanager
def committing_here(ctx: Context, session: C) -> Iterator[StageCommit[C]]:
    """For a plain `def` stage, in its own thread, with a connection or session that is not awaited."""
    session = unscoped(session)
    tx = _prepare(ctx, session)
    if tx.is_async:
        raise BadDeclaration("A plain def stage needs a sync connection or session; this one is awaited.")
    doors = _doors(session)
    begun = doors.begin(session)
    try:
        finish(_check_held(ctx, tx))
        stage_commit = StageCommit(session)
        yield stage_commit
        finish(_end_stage(ctx, tx, stage_commit))
        doors.commit(session, begun)
    except BaseException:
        doors.rollback(session, begun)
        raise
    ctx.written = tx


def _prepare(ctx: Context, session: Any) -> ForeignTx:
    if ctx.written is not None:
        raise BadDeclaration(f"The stage '{ctx.stage}' has ended in an earlier ctx.transaction; it can end once.")
    tx = foreign_tx(session, ctx.kind.schema, autocommit=True)
    if tx.dialect != ctx.kernel.store.dialect:
        raise InvalidInput(
            f"ctx.transaction needs the database that Holdfast's tables are in, which is {ctx.kernel.store.place()}."
        )
    if _doors(session).is_begun(session):
        if autocommit_of(session) is False and "sqlite" in library_of(session):
            raise InvalidInput(
                "A connection of SQLite with autocommit=False always has a transaction open; give ctx.transaction one "
                "that was opened without it."
            )
        raise InvalidInput(
            "This connection has a transaction open already; give ctx.transaction one on which nothing is begun, "
            "so that all of it is in one commit."
        )
    return tx


async def _check_held(ctx: Context, tx: ForeignTx) -> None:
    row = await jobs.show(tx, ctx.job.id)
    if row is None or (row.attempt, row.state) != (ctx.job.attempt, State.PROCESSING):
        raise LeaseLost(f"Job {ctx.job.id} is no longer held by attempt {ctx.job.attempt}.")


async def _end_stage(ctx: Context, tx: ForeignTx, commit: StageCommit[Any]) -> None:
    stage = ctx.declared_stage
    if commit.value is None and not stage.may_be_none:
        raise BadDeclaration(f"The stage '{stage.name}' ended its transaction without saying what it returns.")
    text = stage.dump(commit.value)
    book = ATTEMPT_LOG.get()
    ending = Ending(
        ctx.job,
        Next(commit.value),
        None if text == "null" else text,
        messages=ctx.messages,
        events=ctx.events,
        duration_ms=ctx.now() - ctx.began,
        provider_status=ctx.provider_status,
        has_answers=ctx.paid is not None or bool(ctx.kept),
        log=None if book is None else book.dump(),
    )
    if ctx.job.id not in await end(ctx.kernel, tx, [ending]):
        raise LeaseLost(f"Job {ctx.job.id} was taken over while attempt {ctx.job.attempt} wrote its rows.")


async def _done(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


class _Doors:
    """How a library begins, commits and rolls back."""

    def __init__(
        self,
        is_begun: Callable[[Any], bool],
        begin: Callable[[Any], Any],
        commit: Callable[[Any, Any], Any],
        rollback: Callable[[Any, Any], Any],
    ) -> None:
        self.is_begun, self.begin, self.commit, self.rollback = is_begun, begin, commit, rollback


def _begin_by_itself(session: Any) -> None:
    """The first statement begins a transaction, unless each is committed by itself."""
    if commits_itself(session):
        raise InvalidInput(
            f"This {name_of(session)} is in autocommit, so that each of your rows would be committed by itself, "
            "whatever becomes of the stage; give ctx.transaction one that is not."
        )


def _commit(session: Any, begun: Any) -> Any:
    return session.commit()


def _rollback(session: Any, begun: Any) -> Any:
    return session.rollback()


def _begin_sqlite(connection: Any) -> Any:
    return connection.execute("BEGIN IMMEDIATE")


def _commit_sqlite(connection: Any, begun: Any) -> Any:
    """By a statement: with `autocommit=True` (Python 3.12) `commit()` does nothing."""
    return connection.execute("COMMIT")


def _rollback_sqlite(connection: Any, begun: Any) -> Any:
    return connection.execute("ROLLBACK") if connection.in_transaction else None


def _asyncpg_is_begun(connection: Any) -> bool:
    if not hasattr(connection, "is_in_transaction"):
        raise InvalidInput(
            f"ctx.transaction needs one connection, not an {name_of(connection)}: take one of it with acquire()."
        )
    return bool(connection.is_in_transaction())


async def _begin_asyncpg(connection: Any) -> Any:
    transaction = connection.transaction()
    await transaction.start()
    return transaction


def _begin_django(connection: Any) -> Any:
    """Django commits or rolls back when its block is left; a connection that went bad while idle is replaced first."""
    from django.db.transaction import Atomic

    connection.close_if_unusable_or_obsolete()
    block = Atomic(connection.alias, savepoint=True, durable=True)
    block.__enter__()
    return block


def _rollback_django(connection: Any, block: Any) -> None:
    if connection.in_atomic_block:  # a commit that failed has rolled back already
        block.__exit__(RuntimeError, RuntimeError("rolled back"), None)


DOORS = {
    "sqlalchemy": _Doors(lambda s: bool(s.in_transaction()), _begin_by_itself, _commit, _rollback),
    "psycopg": _Doors(lambda c: c.info.transaction_status.name != "IDLE", _begin_by_itself, _commit, _rollback),
    "sqlite3": _Doors(lambda c: bool(c.in_transaction), _begin_sqlite, _commit_sqlite, _rollback_sqlite),
    "aiosqlite": _Doors(lambda c: bool(c.in_transaction), _begin_sqlite, _commit_sqlite, _rollback_sqlite),
    "django": _Doors(
        lambda c: bool(c.in_atomic_block), _begin_django, lambda c, b: b.__exit__(None, None, None), _rollback_django
    ),
    "asyncpg": _Doors(_asyncpg_is_begun, _begin_asyncpg, lambda c, t: t.commit(), lambda c, t: t.rollback()),
}


def _doors(session: Any) -> _Doors:
    return DOORS[library_of(session)]
