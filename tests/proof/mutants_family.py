"""Planted bugs about children, checkpoints and answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.core.job import State
from holdfast.kernel import settle, submit
from holdfast.kernel.compose import checkpoint, children
from holdfast.stores.seam import Tx
from holdfast.tables import callbacks, jobs, joins, secrets
from tests.proof.plant import Mutant, respelled, swapped


@contextmanager
def parent_woken_before_its_last_child() -> Iterator[None]:
    """Every child that ends is counted twice."""
    twice = ("unended - s.ended,", "unended - 2 * s.ended,")
    with respelled(joins.sql, "count_down", twice):
        yield


@contextmanager
def children_spawned_twice_after_a_crash() -> Iterator[None]:
    """Children have ids of the moment, and are counted in a commit after the one that writes them."""

    async def write(ctx: Any, join: Any, part: list[Any], position: int) -> bool:
        kernel = ctx.kernel
        fresh = [order._replace(id=kernel.new_uuid4()) for order in part]
        async with kernel.store.transaction() as tx:
            await children._insert(kernel, tx, fresh)
        await kernel.failpoint("spawn.before_commit")
        async with kernel.store.transaction() as tx:
            return await joins.grow(tx, join.id, position, len(part), ctx.now())

    with swapped(children, "_write", write):
        yield


@contextmanager
def checkpoint_used_before_it_is_stored() -> Iterator[None]:
    async def store(ctx: Any, run: str, text: str) -> None:
        """Later, with the stage's result; which is never, if the worker dies first."""

    with swapped(checkpoint, "store", store):
        yield


@contextmanager
def early_answer_lost() -> Iterator[None]:
    """An answer that nobody waits for yet is thrown away."""
    intact = callbacks.put

    async def put(tx: Tx, key: str, body: str, now: int) -> bool:
        return await jobs.lock_waiting(tx, key) is not None and await intact(tx, key, body, now)

    with swapped(callbacks, "put", put):
        yield


@contextmanager
def child_survives_its_parents_cancellation() -> Iterator[None]:
    with respelled(joins.sql, "leave", ("state IN ('spawning', 'sealed', 'loose')", "state IN ('spawning')")):
        yield


@contextmanager
def credentials_outlive_their_job() -> Iterator[None]:
    async def forget(tx: Tx, owners: Any) -> None:
        """Nobody asks for them any more."""

    with swapped(secrets, "forget", forget):
        yield


@contextmanager
def credentials_erased_with_the_attempt() -> Iterator[None]:
    """An attempt that is to be tried again ends them too."""
    with swapped(settle, "ERASED", (*settle.ERASED, State.QUEUED)):
        yield


@contextmanager
def address_stored_whole() -> Iterator[None]:
    def seal_input(sealer: Any, paths: Any, payload: str, *, first: int = 1, kept: str | None = None) -> Any:
        return payload, ()

    with swapped(submit, "seal_input", seal_input):
        yield


MUTANTS = (
    Mutant(parent_woken_before_its_last_child, ("S25", "L1"), 60),
    Mutant(children_spawned_twice_after_a_crash, ("S25",), 60),
    Mutant(checkpoint_used_before_it_is_stored, ("S25",), 100),
    Mutant(early_answer_lost, ("S25",), 60),
    Mutant(child_survives_its_parents_cancellation, ("S25",), 100),
    Mutant(credentials_outlive_their_job, ("S21",), 60),
    Mutant(credentials_erased_with_the_attempt, ("S21",), 400),
    Mutant(address_stored_whole, ("S21",), 60),
)
