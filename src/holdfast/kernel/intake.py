"""Accepts what comes from outside: a message is recorded in the transaction of its effects, then acked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.core.job import Claimed, State
from holdfast.core.outcome import Called, Resumed
from holdfast.errors import NotAllowed, NotFound
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.settle import Ending
from holdfast.kernel.turn import end
from holdfast.stores.seam import Tx
from holdfast.tables import answers, inbox, jobs
from holdfast.tables.answers import NewAnswer, RunId


@asynccontextmanager
async def once(kernel: Kernel, consumer: str, message_id: str, body: bytes) -> AsyncIterator[tuple[Tx, bool]]:
    """A transaction for a message's effects, and whether this is the first time it is seen.

    A duplicate must have no effect. The caller returns after the block, and only then is the message acked."""
    async with kernel.store.transaction() as tx:
        first = await inbox.accept(tx, consumer, message_id, hashlib.sha256(body).hexdigest(), kernel.now())
        yield tx, first
        await kernel.failpoint("intake.before_commit")
    await kernel.failpoint("intake.after_commit")


async def called_back(kernel: Kernel, wait_key: str, message_id: str, body: str) -> bool:
    """Resume the job that waits for `wait_key` with the callback's JSON. False: nobody waits, or seen before.

    A callback that nobody waits for is not recorded, so that the sender's next try is not a duplicate."""
    async with kernel.store.reading() as tx:
        if await jobs.lock_waiting(tx, wait_key) is None:
            return False
    try:
        async with once(kernel, f"callback:{wait_key}", message_id, body.encode()) as (tx, first):
            locked = await jobs.lock_waiting(tx, wait_key)
            if locked is None:
                raise NotFound(f"Nobody waits for '{wait_key}' any more.")  # undoes the record of the message
            if first:
                await take_answer(kernel, tx, locked, wait_key, body)
    except NotFound:
        return False
    return first


async def take_answer(kernel: Kernel, tx: Tx, locked: tuple[Claimed, str | None], key: str, body: str) -> None:
    """Let a waiting job have its answer: inside of its stage, or as the stage's result if it returned a `Wait`."""
    job, provider = locked
    if await answers.parked(tx, [job.id]):
        await answers.put(tx, [NewAnswer(run_of(job, f"wait:{key}"), 0, answered(body))], kernel.now())
        ending = Ending(job, Resumed(), expected=State.WAITING, provider=provider)
    elif kernel.registry.knows(job.kind, job.stage):
        ending = Ending(job, Called(body), body, expected=State.WAITING, provider=provider)
    else:
        raise NotAllowed(
            f"Job {job.id} waits in the stage '{job.stage}' of '{job.kind}', which the code of this process does not "
            "declare: call back through a process that does."
        )
    await end(kernel, tx, [ending])


def run_of(job: Claimed, run: str) -> RunId:
    """What an answer of the job's present stage is kept under."""
    return RunId(job.id, job.stage, job.epoch, run)


def answered(body: str) -> str:
    """An answer as the stage that waits for it reads it."""
    return json.dumps({"value": json.loads(body)}, ensure_ascii=False)
