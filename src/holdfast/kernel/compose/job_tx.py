"""What a job's own class is given when the job changes: the transaction of the change, and what the change is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from holdfast.core.decide import Decision
from holdfast.core.failure import Failure
from holdfast.core.job import Claimed, State
from holdfast.errors import InvalidInput
from holdfast.kernel.declare.options import Options
from holdfast.kernel.submit import order_of, submit_in
from holdfast.stores.seam import Dialect, Named, Row, Tx
from holdfast.stores.statement import Statement, statement_of

if TYPE_CHECKING:
    from holdfast.kernel.app import Job
    from holdfast.kernel.kernel import Kernel

In = TypeVar("In")


@dataclass(frozen=True, slots=True)
class Settled:
    """A change of a job, as `on_settled` sees it. `value` is the ended stage's result as JSON, if it has one."""

    job: Claimed
    decision: Decision
    value: str | None
    now: int

    @property
    def job_id(self) -> str:
        return self.job.id

    @property
    def state(self) -> State:
        """The state that the job is in now."""
        return self.decision.state

    @property
    def failure(self) -> Failure | None:
        """Why the attempt failed, if it did."""
        return self.decision.failure


class JobTx:
    """The transaction that changes a job. What is written here is committed with the change, or not at all."""

    __slots__ = ("_tx", "dialect", "kernel")

    def __init__(self, kernel: Kernel, tx: Tx) -> None:
        self.kernel = kernel
        self.dialect: Dialect = tx.dialect
        self._tx = tx

    async def execute(self, text: str, **params: object) -> Sequence[Row]:
        """Run SQL of your own, with `:named` parameters, on the database that the jobs lie in; return its rows."""
        statement = statement_of(text)
        missing = [name for name in statement.order if name not in params]
        if missing:
            raise InvalidInput(f"The statement names :{missing[0]}, but no {missing[0]}= was given.")
        return await self._tx.rows(statement, **params)

    async def enqueue(
        self, job: type[Job[In]], input: In, *, key: str | None = None, **options: Unpack[Options]
    ) -> str:
        """Enqueue a further job; it exists if the change is committed. Options as for `enqueue`."""
        now = self.kernel.now()
        order = order_of(job, input, options, job_id=self.kernel.new_id(), now=now, key=key)
        return (await submit_in(self._tx, [order], now, self.kernel.watch))[0]

    @overload
    async def rows(self, statement: Statement, *, into: type[Named], **params: object) -> list[Named]: ...

    @overload
    async def rows(self, statement: Statement, *, into: None = None, **params: object) -> Sequence[Row]: ...

    async def rows(self, statement: Statement, *, into: Any = None, **params: object) -> Any:
        """Run a named statement and return its rows; `into` a named tuple, each field from the column of its name."""
        return await self._tx.rows(statement, into=into, **params)

    async def notify(self, channel: str, *, to_all: bool = False) -> None:
        """Wake whoever listens on `channel`, once this transaction commits."""
        await self._tx.notify(channel, to_all=to_all)

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call this once the transaction has committed."""
        self._tx.after_commit(callback)
