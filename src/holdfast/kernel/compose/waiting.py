"""Waiting for somebody outside, inside of a stage, without a worker; and the answers that they give.

    ctx.wait_for(key): answered before? -> the answer     its time is over? -> None     else: parked
    answer(key, body): kept, then handed to the job that waits for it, now or when it comes to wait

Neither side has to be first. What a wait came to, an answer or the end of its time, is written once and stands.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any

from holdfast.core.family import JOIN_KEY, Answered
from holdfast.core.given import text_problem
from holdfast.errors import InvalidInput
from holdfast.kernel.compose.checkpoint import kept_of
from holdfast.kernel.compose.parking import park
from holdfast.kernel.declare.size import check_size
from holdfast.kernel.intake import answered, once, run_of, take_answer
from holdfast.kernel.kernel import Kernel
from holdfast.tables import answers, callbacks, jobs
from holdfast.tables.answers import KeptAnswer, NewAnswer

if TYPE_CHECKING:
    from holdfast.kernel.context import Context

KEY_LENGTH_MAX = 200
TIMED_OUT = json.dumps({"timed_out": True})
WAIT_UNTIL = "until:"
"""The run under which a stage keeps how long it waits for a key."""


async def wait_for(ctx: Context, key: str, timeout_s: float) -> Answered | None:
    """What was answered; None if nobody has in time. Leaves the handler while neither is known."""
    check_key(key)
    if not isinstance(timeout_s, int | float) or not 0 < timeout_s < math.inf:
        raise InvalidInput(f"The timeout_s of '{key}' is {timeout_s!r}; it must be a number of seconds above 0.")
    kept = await kept_of(ctx)
    known = kept.get(f"wait:{key}")
    if known is not None and known.value is not None:
        return _read(known.value)
    began = kept.get(f"{WAIT_UNTIL}{key}")
    until = ctx.now() + int(timeout_s * 1_000) if began is None else int(began.value or 0)
    if began is not None and ctx.now() <= until:
        raise park(ctx, key, until)
    text = await _look(ctx, key, until, is_over=began is not None)
    kept[f"{WAIT_UNTIL}{key}"] = KeptAnswer(0, str(until))
    if text is None:
        raise park(ctx, key, until)
    kept[f"wait:{key}"] = KeptAnswer(0, text)
    return _read(text)


async def _look(ctx: Context, key: str, until: int, *, is_over: bool) -> str | None:
    """Take the answer that came first, if one did; else write down until when to wait, or that this is over."""
    job = ctx.job
    async with ctx.fenced() as tx:
        body = await callbacks.take(tx, key)
        text = answered(body) if body is not None else TIMED_OUT if is_over else None
        new = [NewAnswer(run_of(job, f"{WAIT_UNTIL}{key}"), 0, str(until))]
        if text is not None:
            new.append(NewAnswer(run_of(job, f"wait:{key}"), 0, text))
        await answers.put(tx, new, ctx.now())
        await ctx.kernel.failpoint("checkpoint.before_commit")
    return text


def _read(text: str) -> Answered | None:
    stored: dict[str, Any] = json.loads(text)
    return None if "timed_out" in stored else Answered(stored["value"])


async def answer(kernel: Kernel, key: str, body: str, *, message_id: str | None = None) -> bool:
    """Answer what a job waits for, or will wait for, under `key`, with JSON. Whether a job has it; else it is kept.

    The first answer of a key stands until a job has taken it. The same `message_id` again changes nothing; without one,
    the same answer again does not."""
    check_key(key)
    check_body(body)
    identity = message_id or hashlib.sha256(f"{key}\n{body}".encode()).hexdigest()
    async with once(kernel, f"callback:{key}", identity, body.encode()) as (tx, first):
        if first:
            await callbacks.put(tx, key, body, kernel.now())
            await tx.notify("wakes")
    if await hand_over(kernel, key):
        return True
    async with kernel.store.reading() as tx:  # the fleet was rung, and somebody else may have handed it over
        return not await callbacks.is_kept(tx, key)


async def hand_over(kernel: Kernel, key: str) -> bool:
    """Give the kept answer to the job that waits for it; False if one of the two is not there."""
    async with kernel.store.transaction() as tx:
        locked = await jobs.lock_waiting(tx, key)
        if locked is None:
            return False
        body = await callbacks.take(tx, key)
        if body is None:
            return False
        await take_answer(kernel, tx, locked, key, body)
        await kernel.failpoint("wake.before_commit")
    return True


def check_key(key: str) -> None:
    if problem := text_problem(key, KEY_LENGTH_MAX):
        raise InvalidInput(f"A key to wait for {problem}; not {key!r}.")
    if key.startswith(JOIN_KEY):
        raise InvalidInput(f"The key '{key}' begins with '{JOIN_KEY}', which is how jobs wait for their children.")


def check_body(body: str) -> None:
    check_size("The answer", body)
    try:
        json.loads(body, parse_constant=_no_number)
    except ValueError as error:
        raise InvalidInput(f"The answer is no JSON: {error}.") from None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number that JSON can hold")
