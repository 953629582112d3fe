"""Keeps what a stage has found out, before it is used: a later attempt of the stage reads it instead of doing it again.

Beside the answers of paid calls, and as long: until the stage has its result.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import from_json

from holdfast.core.given import text_problem
from holdfast.errors import BadDeclaration, InvalidInput, StoreDown
from holdfast.kernel.declare.fitting import first_problem, missing_await, read_back, read_json
from holdfast.kernel.declare.size import check_size
from holdfast.kernel.ledger.paid import adapter_of
from holdfast.tables import answers
from holdfast.tables.answers import KeptAnswer, NewAnswer, RunId

if TYPE_CHECKING:
    from holdfast.kernel.context import Context

NAME_LENGTH_MAX = 200
PREFIX = "checkpoint:"
WRITE_AGAIN_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


async def kept_of(ctx: Context) -> dict[str, KeptAnswer]:
    """What the stage has stored in this epoch, read once in an attempt."""
    if ctx.kept is None:
        async with ctx.kernel.store.reading() as tx:
            ctx.kept = await answers.of_stage(tx, ctx.job.id, ctx.job.stage, ctx.job.epoch)
    return ctx.kept


async def checkpoint(ctx: Context, name: str, find: Callable[[], Any], returns: Any) -> Any:
    """What `find` returned the first time, in whichever attempt that was."""
    known, value = await recall(ctx, name, returns)
    if known:
        return value
    result = find()
    return await keep(ctx, name, await result if inspect.isawaitable(result) else result, returns)


async def recall(ctx: Context, name: str, returns: Any) -> tuple[bool, Any]:
    """Whether an attempt has stored something under this name, and what."""
    _check_name(name)
    if PREFIX + name in ctx.numbers:
        raise BadDeclaration(
            f"The stage '{ctx.stage}' of '{ctx.kind.name}' has the checkpoint '{name}' twice, and would get the first "
            "one's value again; give each its own name, as f'page {number}'."
        )
    kept = (await kept_of(ctx)).get(PREFIX + name)
    if kept is None or kept.value is None:
        return False, None
    ctx.numbered(PREFIX + name)
    try:
        return True, read_json(adapter_of(returns), kept.value)
    except ValidationError as error:
        raise InvalidInput(f"What the checkpoint '{name}' holds does not fit: {first_problem(error)}.") from None


async def keep(ctx: Context, name: str, value: object, returns: Any) -> Any:
    """Store it, and return it as a later attempt will read it. A database that is away is waited for: what was found
    out may have cost something."""
    text = _written(name, value, returns)
    for pause_s in (*WRITE_AGAIN_S, None):
        try:
            await store(ctx, PREFIX + name, text)
            break
        except StoreDown:
            if pause_s is None:
                raise
            await asyncio.sleep(pause_s)
    ctx.numbered(PREFIX + name)
    await ctx.kernel.failpoint("checkpoint.after_commit")
    return read_json(adapter_of(returns), text)


async def store(ctx: Context, run: str, text: str) -> None:
    """Write it under the attempt's lease; the first one of a name stands."""
    new = NewAnswer(RunId(ctx.job.id, ctx.job.stage, ctx.job.epoch, run), 0, text)
    async with ctx.fenced() as tx:
        await answers.put(tx, [new], ctx.now())
        await ctx.kernel.failpoint("checkpoint.before_commit")
    if ctx.kept is not None:
        ctx.kept[run] = KeptAnswer(0, text)


def _written(name: str, value: object, returns: Any) -> str:
    problem = missing_await(value)
    if problem is not None:
        raise InvalidInput(f"The value of the checkpoint '{name}' cannot be stored: {problem}.")
    try:
        text = adapter_of(returns).dump_json(value, warnings=False).decode()
    except Exception as error:
        raise InvalidInput(f"The value of the checkpoint '{name}' cannot be stored as JSON: {error}.") from None
    problem = read_back(adapter_of(returns), False, value, text)
    if problem is not None:
        raise InvalidInput(f"The value of the checkpoint '{name}' cannot be stored: {problem}.")
    if returns is Any and from_json(text) != value:
        raise InvalidInput(
            f"The value of the checkpoint '{name}' is a {type(value).__name__} that JSON does not give back as it is; "
            "say its type, as in returns=Page."
        )
    check_size(f"The value of the checkpoint '{name}'", text)
    return text


def _check_name(name: object) -> None:
    if problem := text_problem(name, NAME_LENGTH_MAX):
        raise InvalidInput(f"A checkpoint's name {problem}; not {name!r}.")
