"""Makes calls that cost money: a key on the wire, and the answer kept before anything is done with it.

    asked before in this stage and epoch?  --answer--> read back, nothing is called
                 | no
    call with the key of the run  --answer--> kept in the commit that records the call --> used

A worker that dies after that commit costs nothing: the next attempt reads. One that dies between the provider's answer
and the commit costs nothing where the provider honours the key. A database that is away costs nothing as long as the
process lives: the answer stays in memory and is written until it is written.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from holdfast.core.failure import Category, Failure
from holdfast.core.job import Claimed
from holdfast.core.provider import Provider
from holdfast.errors import BadDeclaration, CallError, StoreDown
from holdfast.kernel.call import CallResult, call
from holdfast.kernel.declare.fitting import read_json
from holdfast.kernel.declare.size import size_problem
from holdfast.kernel.effect_open import app_of
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.record import Cost, Report, record
from holdfast.tables import answers
from holdfast.tables.answers import KeptAnswer, NewAnswer, RunId

T = TypeVar("T")
WRITE_AGAIN_S = (0.2, 0.5, 1.0, 2.0, *[5.0] * 120)
"""How long to wait before an answer is offered to the database again: for ten minutes in all."""
_BYTES = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


def paid_key(app: str, run: RunId, tries: int) -> str:
    """The idempotency key of a call: the same for every attempt, worker and process; another one after an answer that
    was of no use, or the provider would give it again."""
    text = json.dumps([app, *run, tries], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(f"holdfast-paid:{text}".encode()).hexdigest()[:40]


class Paid:
    """The paid calls of one attempt. Earlier attempts' answers are read once, when the first is asked for."""

    def __init__(self, kernel: Kernel, job: Claimed) -> None:
        self._kernel = kernel
        self._job = job
        self._runs: dict[str, int] = {}
        self._kept: dict[str, KeptAnswer] | None = None

    async def call(
        self,
        run: Callable[[str], Awaitable[T]],
        answer: type[T],
        name: str,
        provider: Provider,
        timeout_s: float,
        cost: Callable[[T], Cost] | None,
    ) -> T:
        """Read the answer back, or ask for it and keep it."""
        kernel, job, adapter = self._kernel, self._job, adapter_of(cast(Any, answer))
        run_id = RunId(job.id, job.stage, job.epoch, self._numbered(name))
        kept = await self._known(run_id)
        if kept.value is not None:
            try:
                return cast(T, read_json(adapter, kept.value))
            except ValidationError:
                pass  # a deploy changed its type: asked again under the same key, which the provider may still know
        key = paid_key(app_of(kernel, job.kind), run_id, kept.tries)

        async def finish(report: Report, result: CallResult[T]) -> CallResult[T]:
            result, new = _judged(result, adapter, run_id, kept.tries, provider)
            await _write(kernel, report.with_answer(new, result.failure))
            await kernel.failpoint("paid.after_record")
            return result

        return await call(kernel, provider, lambda: run(key), job=job, timeout_s=timeout_s, cost=cost, finish=finish)

    def _numbered(self, name: str) -> str:
        """The calls of an attempt are told apart by their names, and those of one name by their order."""
        number = self._runs[name] = self._runs.get(name, 0) + 1
        return f"{name}#{number}"

    async def _known(self, run_id: RunId) -> KeptAnswer:
        job = self._job
        writing = self._kernel.unwritten.get(run_id)
        if writing is not None:  # an earlier attempt's answer, still in memory: kept first, then used
            await asyncio.shield(writing)
            self._kept = None
        if self._kept is None:
            async with self._kernel.store.reading() as tx:
                self._kept = await answers.of_stage(tx, job.id, job.stage, job.epoch)
        return self._kept.get(run_id.run, KeptAnswer(0, None))


@lru_cache(maxsize=256)
def adapter_of(answer: Any) -> TypeAdapter[Any]:
    """How answers of a type are kept."""
    try:
        return TypeAdapter(bytes, config=_BYTES) if answer is bytes else TypeAdapter(answer)
    except Exception:
        shown = getattr(answer, "__name__", answer)
        raise BadDeclaration(
            f"An answer of type '{shown}' cannot be kept: pydantic must know how to write it."
        ) from None


def _judged(
    result: CallResult[T], adapter: TypeAdapter[Any], run_id: RunId, tries: int, provider: Provider
) -> tuple[CallResult[T], NewAnswer | None]:
    """What to keep of a call. An answer that cannot be kept fails for good: asked again it would be paid for again."""
    if result.failure is not None:
        return result, NewAnswer(run_id, tries + 1, None) if _was_useless(result.failure) else None
    try:
        text = adapter.dump_json(result.outcome(), warnings="error").decode()
        read_json(adapter, text)  # None is written whatever the type is
    except Exception as error:
        why = f"does not fit its declared type ({type(error).__name__})"
        return _unkept(result, provider, why), None
    problem = size_problem(text)
    if problem is not None:
        return _unkept(result, provider, problem), None
    return result, NewAnswer(run_id, tries, text)


def _was_useless(why: Failure) -> bool:
    """Whether the provider answered with something that our side cannot use: asked under the same key it would say the
    same. After anything else (no answer, a refusal, no connection) an earlier call of the key may have been charged."""
    return not why.ambiguous and why.status is None and why.category not in (Category.NETWORK, Category.RATE_LIMIT)


def _unkept(result: CallResult[T], provider: Provider, why: str) -> CallResult[T]:
    message = f"The answer of '{provider.name}' to a paid call {why}; it is not asked for again."
    return CallResult(result.started, None, CallError.of(Category.BUG, "ANSWER_NOT_KEPT", message))


async def _write(kernel: Kernel, report: Report) -> None:
    """Record the call with its answer, however long the database is away. Whoever waits may be cancelled (a stage's
    time is over, a lease is lost): the writing goes on, and the next attempt finds what was paid for."""
    new = report.answer
    if new is None or new.value is None:
        await record(kernel, report)
        return
    writing = asyncio.get_running_loop().create_task(_until_written(kernel, report))
    kernel.unwritten[new.id] = writing
    kernel.writing.add(writing)
    writing.add_done_callback(kernel.writing.discard)
    await asyncio.shield(writing)


async def _until_written(kernel: Kernel, report: Report) -> None:
    assert report.answer is not None
    run_id = report.answer.id
    try:
        for pause_s in WRITE_AGAIN_S:
            try:
                await record(kernel, report)
                return
            except StoreDown:
                report = report._replace(is_again=True)
                await asyncio.sleep(pause_s)
        await record(kernel, report)
    finally:
        kernel.unwritten.pop(run_id, None)
