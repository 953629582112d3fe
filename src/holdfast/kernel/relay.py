"""Publishes the outbox: claim, commit, publish, wait for the confirm, then mark.

No transaction is open while the broker is spoken to. A broker that is down backs the relay off and blames no row; a
bad row backs off alone and is set aside after its last try. A crash after the publish publishes again: consumers
deduplicate by message id.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence

from holdfast.core.address import sealed_number
from holdfast.core.floor import BOTTOM, SLACK_MS
from holdfast.core.redact import redact_message
from holdfast.errors import NotHandled, TransportDown, TransportError
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.observe.trace import HEADER, span
from holdfast.kernel.sealing import KeyMissing
from holdfast.kernel.upkeep.floors import OUTBOX, follow_aggregates, watch_outbox
from holdfast.stores.seam import Tx
from holdfast.tables import outbox, secrets
from holdfast.tables.outbox import ClaimedMessage
from holdfast.transports.seam import Message, Transport

# While one batch waits for its confirms others are claimed and marked: 200 messages in flight, in batches of 50.
STREAMS = 4
ROUNDS_MAX = 20
ROW_BACKOFF_BASE_MS = 1_000
ROW_BACKOFF_CAP_MS = 60_000
FOR_EVER = 2**31 - 1


async def relay(kernel: Kernel) -> int:
    """Publish what is there, several batches at a time if there is more than one; returns how many were confirmed.

    Order within an aggregate is the claim's doing, so streams need not know of each other. Whoever has marked a batch
    looks once more, for its marks may have made the next message of an aggregate claimable. Ends after a number of
    rounds even if more keeps coming: whoever repeats it may want to stop."""
    done = await relay_once(kernel, asks_first=True)
    if done == 0:
        return 0
    streams = STREAMS if done >= kernel.tuning.relay_batch else 1
    answers = await asyncio.gather(*[_stream(kernel) for _ in range(streams)], return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return done + sum(answer for answer in answers if isinstance(answer, int))


async def _stream(kernel: Kernel) -> int:
    total = 0
    for _ in range(ROUNDS_MAX):
        done = await relay_once(kernel)
        if done == 0:
            break
        total += done
    return total


async def relay_once(kernel: Kernel, *, asks_first: bool = False) -> int:
    """Publish one batch; returns how many messages were confirmed. Raises `TransportDown` if the broker is. An idle
    relay `asks_first` whether there is any."""
    assert kernel.transport is not None, "a relay needs a transport"
    if kernel.is_broker_away:
        await _await_broker(kernel, kernel.transport)
    with kernel.aggregates.unless_broken_off():
        answers = await _relay_batch(kernel, asks_first)
    down = next((answer for answer in answers if isinstance(answer, TransportDown)), None)
    kernel.is_broker_away = down is not None
    if down is not None:
        raise down
    return sum(answer is None for answer in answers)


async def _await_broker(kernel: Kernel, transport: Transport) -> None:
    """Ask a broker that was away before any row is leased: each try would leave two versions of the same rows behind.
    Raises `TransportDown` if it still is, after the warning that comes with the rows otherwise."""
    try:
        await transport.declare(())
    except TransportDown:
        floor = kernel.floors.outbox.floors.get(OUTBOX, BOTTOM)
        async with kernel.store.reading() as tx:
            waiting = await outbox.lag(tx, floor)
        if waiting.oldest is not None:
            _warn_of_stale(kernel, waiting.pending, waiting.oldest)
        raise


async def _relay_batch(kernel: Kernel, asks_first: bool) -> Sequence[TransportError | None]:
    """What the broker answered to each message of a batch."""
    token = kernel.new_id()
    now = kernel.now()
    rows = await _claim(kernel, token, now, asks_first)
    watch_outbox(kernel)
    if not rows:
        return []
    # Before the broker is asked: one that swallows everything keeps nobody waiting for the warning.
    _warn_of_stale(kernel, len(rows), min(row.created_at for row in rows))
    await kernel.failpoint("relay.after_claim")
    sealed = await _sealed(kernel, rows)
    answers = await asyncio.gather(*[_publish(kernel, row, sealed.get(row.aggregate_id, {})) for row in rows])
    await kernel.failpoint("relay.after_publish")
    await _write_down(kernel, token, list(zip(rows, answers, strict=True)))
    await kernel.failpoint("relay.after_mark")
    await follow_aggregates(kernel)
    return answers


async def _claim(kernel: Kernel, token: str, now: int, asks_first: bool) -> Sequence[ClaimedMessage]:
    """Claim a batch, from the floor on. The floor is the first message that is not confirmed, since one that waits for
    another of its aggregate must be found as soon as that is out."""
    lease_until = now + int(kernel.tuning.relay_lease_s * 1_000)
    with kernel.floors.outbox.claim(kernel.now) as claiming:
        start = claiming.floors.get(OUTBOX, BOTTOM)
        is_look = claiming.looks_since is not None
        if (is_look or asks_first) and not await _is_any_pending(kernel, start):
            claiming.reached = {OUTBOX: now - SLACK_MS}
            return []
        async with kernel.store.single_statement() as tx:
            limit, begins = kernel.tuning.relay_batch, kernel.aggregates.begins
            rows = await outbox.claim(tx, token, now, lease_until, limit, start, begins)
            if outbox.leaves_versions(tx):
                kernel.aggregates.claimed((row.aggregate_id, row.seq) for row in rows)
        if is_look or len(rows) < kernel.tuning.relay_batch or claiming.serial % ROUNDS_MAX == 0:
            async with kernel.store.reading() as tx:
                first = await outbox.first_pending(tx, start)
            claiming.reached = {OUTBOX: now - SLACK_MS if first is None else first}
    return rows


async def _is_any_pending(kernel: Kernel, start: int) -> bool:
    """An idle relay looks with this alone: one transaction that only reads, where a claim and a look were two."""
    async with kernel.store.reading() as tx:
        return await outbox.first_pending(tx, start) is not None


async def _sealed(kernel: Kernel, rows: Sequence[ClaimedMessage]) -> dict[str, dict[int, str]]:
    """What was taken out of these messages' addresses, by aggregate. Most have none, and read nothing."""
    owners = [row.aggregate_id for row in rows if sealed_number(row.payload) is not None]
    if not owners:
        return {}
    async with kernel.store.reading() as tx:
        return await secrets.of_owners(tx, owners)


async def _publish(kernel: Kernel, row: ClaimedMessage, sealed: Mapping[int, str]) -> TransportError | None:
    assert kernel.transport is not None
    headers = json.loads(row.headers)
    try:
        body = kernel.sealer.open_message(row.payload, sealed) if sealed else row.payload
    except KeyMissing as error:
        return NotHandled(f"The credentials in this message cannot be opened: {error}.")
    message = Message(
        id=row.id,
        destination=row.destination,
        body=body.encode(),
        type=row.message_type,
        headers=headers,
        correlation_id=row.aggregate_id,
    )
    try:
        with span(f"publish {row.destination}", headers.get(HEADER)):
            await kernel.transport.publish(message)
    except TransportError as error:
        return error
    return None


async def _write_down(
    kernel: Kernel, token: str, pairs: Sequence[tuple[ClaimedMessage, TransportError | None]]
) -> None:
    confirmed = [row.seq for row, answer in pairs if answer is None]
    if len(confirmed) == len(pairs):
        async with kernel.store.single_statement() as tx:
            await outbox.published(tx, token, confirmed, kernel.now())
    else:
        async with kernel.store.transaction() as tx:
            await outbox.published(tx, token, confirmed, kernel.now())
            await _give_back(kernel, tx, token, [(row, answer) for row, answer in pairs if answer is not None])
    if confirmed:
        kernel.watch.count("outbox_published", len(confirmed))


async def _give_back(
    kernel: Kernel, tx: Tx, token: str, refusals: Sequence[tuple[ClaimedMessage, TransportError]]
) -> None:
    """A message that was refused backs off alone; what met a broker that is down is free again at once."""
    doubtful = [(row.seq, answer) for row, answer in refusals if isinstance(answer, TransportDown)]
    if doubtful:
        await outbox.release(tx, token, [seq for seq, _ in doubtful], redact_message(str(doubtful[0][1])))
    for row, answer in refusals:
        if not isinstance(answer, TransportDown):
            await _set_back(kernel, tx, token, row, answer, kernel.now())


async def _set_back(kernel: Kernel, tx: Tx, token: str, row: ClaimedMessage, why: TransportError, now: int) -> None:
    delay_ms = min(ROW_BACKOFF_CAP_MS, ROW_BACKOFF_BASE_MS * 2 ** min(10, row.retry_count))
    delay_ms += int(kernel.dice.draw() * delay_ms / 2)
    # A consumer that fails is no fault of the message's: as on a broker, it is offered until it is taken.
    retries_max = FOR_EVER if isinstance(why, NotHandled) else kernel.tuning.relay_retries_max
    status = await outbox.refused(tx, token, row.seq, redact_message(str(why)), now + delay_ms, retries_max)
    if status == "failed":
        kernel.watch.log("outbox.set_aside", message_id=row.id, destination=row.destination, error=str(why))
        kernel.watch.count("outbox_set_aside")


def _warn_of_stale(kernel: Kernel, number: int, oldest_at: int) -> None:
    age_ms = kernel.now() - oldest_at
    if age_ms > kernel.tuning.outbox_stale_s * 1_000:
        kernel.watch.log("outbox.stale", age_ms=age_ms, rows=number)
        kernel.watch.count("outbox_stale")
