"""The store seam: a store executes, it does not decide.

Statements live in `tables/*.sql`, are written once for both databases, and reach a store as `Statement`s. A store
opens transactions, runs statements in them, wakes waiters, tells the time and migrates. Nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from operator import itemgetter
from typing import Any, Literal, Protocol, TypeVar, cast, overload, runtime_checkable

from holdfast.stores.examination import Examination
from holdfast.stores.listeners import TICKET as TICKET
from holdfast.stores.listeners import Heed as Heed
from holdfast.stores.migration import PATIENCE, Applied, Patience
from holdfast.stores.statement import Migration, Statement

Dialect = Literal["sqlite", "postgres"]
DIALECTS: dict[str, Dialect] = {"postgresql": "postgres", "sqlite": "sqlite"}
"""By the names that SQLAlchemy and Django have for the databases."""


def schema_on(dialect: Dialect, schema: str | None) -> str | None:
    """The schema, where the database has schemas."""
    return schema if dialect == "postgres" else None


class Row(Protocol):
    """A row of a result: by position or by column name."""

    def __getitem__(self, key: int | str, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...


Named = TypeVar("Named", bound=tuple[Any, ...])


class Tx(Protocol):
    """An open transaction. Only SQL happens inside one."""

    dialect: Dialect

    @overload
    async def rows(self, statement: Statement, *, into: type[Named], **params: Any) -> list[Named]: ...

    @overload
    async def rows(self, statement: Statement, **params: Any) -> Sequence[Row]: ...

    async def rows(self, statement: Statement, *, into: Any = None, **params: Any) -> Any:
        """Run the statement and return its rows; `into` a named tuple, each field from the column of its name."""
        ...

    async def notify(self, channel: str, *, to_all: bool = False) -> None:
        """Wake whoever listens on `channel`, once this transaction commits. A rollback wakes nobody. On a queue's
        channel a listener may leave the ring to another (`Listeners`), unless it goes `to_all`."""
        ...

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call this once the transaction has committed: what was rolled back is neither counted nor logged."""
        ...


def name_rows(rows: Sequence[Row], into: type[Named] | None) -> Any:
    """The rows as they are, or each as a named tuple. A column that the statement does not return is an error."""
    if into is None:
        return rows
    make, values = cast(Any, into)._make, _values_of(into)
    return [make(values(row)) for row in rows]


@lru_cache(maxsize=256)
def _values_of(into: Any) -> Callable[[Row], tuple[Any, ...]]:
    names = into._fields
    return itemgetter(*names) if len(names) > 1 else lambda row: (row[names[0]],)


@runtime_checkable
class LoadingTx(Tx, Protocol):
    """A transaction of a database with a bulk load of its own (on SQLite, a statement is as fast as anything)."""

    async def load(self, table: str, columns: Sequence[str], pieces: Iterable[str]) -> None:
        """Append many rows, in the text form of COPY and in pieces of whole lines; others have their turn on the loop
        between two. A row that is there already is a `StoreConflict` and fails all."""
        ...


class Listener(Protocol):
    """A listener on one channel. Rings may be lost: whoever waits also polls."""

    async def wait(self, timeout_s: float) -> bool:
        """Return True when rung since the last wait, False after the timeout."""
        ...

    def close(self) -> None: ...


IDLE_S = 30.0
"""For as long a transaction may be open in which nothing happens."""


class Store(Protocol):
    dialect: Dialect
    has_one_writer: bool
    """Whether its writers wait for one another: then nothing is gained by writing from several places at once, and the
    processes of one machine share it."""

    def transaction(self) -> AbstractAsyncContextManager[Tx]:
        """A writing transaction: commits at the end of the block, rolls back if it raises.

        A `StoreUnavailable` from the commit is ambiguous: the caller must ask again, not assume."""
        ...

    def single_statement(self) -> AbstractAsyncContextManager[Tx]:
        """For a single writing statement: a transaction, or where the database commits each statement by itself, none
        (three round trips less). Whoever writes more than one statement wants `transaction`."""
        ...

    def reading(self) -> AbstractAsyncContextManager[Tx]:
        """A transaction that only reads; it waits for no writer."""
        ...

    def listen(self, channel: str, heed: Heed | None = None) -> Listener:
        """A listener; `heed` is asked with the ticket of each ring that is meant for one of many."""
        ...

    def is_heard(self) -> bool:
        """Whether hints of other processes arrive here now. Where not, whoever waits polls, each for itself."""
        ...

    def now(self) -> int:
        """Milliseconds since the epoch by the database's clock, which all workers share."""
        ...

    async def installed(self) -> Sequence[Applied]:
        """The steps that the schema has had, none where there is no schema yet. Writes nothing."""
        ...

    async def migrate(self, migrations: Sequence[Migration], patience: Patience = PATIENCE) -> list[str]:
        """Bring the schema forward, each step in a commit of its own, one process at a time; return the names of what
        this call applied. Nothing pending: nothing is written, and no right to change the schema is needed."""
        ...

    def spare(self) -> Store | None:
        """Another store of the same database, for a thread with an event loop of its own: one connection, and a short
        patience. None where there is but one loop, as in the simulator."""
        ...

    def let_go(self) -> None:
        """From another thread, when the event loop has stood still for `IDLE_S`: end the transaction that it has open,
        if that holds up every other writer. Its owner is told so by its next statement, and nothing is written."""
        ...

    async def examine(self) -> Examination:
        """What the database is, what may be done there and what lies before it. Connects; writes nothing."""
        ...

    def place(self) -> str:
        """Which database it is, without its secrets, for people."""
        ...

    async def close(self) -> None:
        """Let go of every connection within a few seconds, whatever the server does."""
        ...
