"""Planted bugs about the world: messages, providers, keys, secrets. Production code holds none of this."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from holdfast.core import breaker, effect
from holdfast.core.breaker import BreakerState, Gate
from holdfast.kernel import call, effect_open, effects, intake, record, relay, settle, submit, turn
from holdfast.tables import effects as ledger
from holdfast.tables import inbox, jobs, keepers, new_jobs, outbox
from holdfast.transports.seam import Delivery, Message
from holdfast_proof import messages
from holdfast_proof.transport import SimTransport
from tests.proof.plant import respelled, swapped

# Processes


@contextmanager
def keeper_never_replaced() -> Iterator[None]:
    """Who sweeps for all keeps that until it gives it back: one that was killed never does."""
    with respelled(keepers.sql, "renew", ("lease_until < :now", "lease_until = 0")):
        yield


# Messages


@contextmanager
def ack_before_commit() -> Iterator[None]:
    """A message is acked when it arrives."""

    async def consume(self: SimTransport, queue: str, handler: Any, *, prefetch: int = 20) -> None:
        async def handle(delivery: messages.SimDelivery) -> None:
            await delivery.ack()
            await handler(Delivery(queue, delivery.body, delivery.message_id, dict(delivery.headers)))

        self.broker.consume(queue, self.loop.current, handle, prefetch=prefetch)
        await asyncio.Event().wait()

    with swapped(SimTransport, "consume", consume):
        yield


@contextmanager
def no_inbox() -> Iterator[None]:
    """Every delivery is the first."""
    intact = inbox.accept

    async def accept(*args: Any) -> bool:
        await intact(*args)
        return True

    with swapped(inbox, "accept", accept):
        yield


@contextmanager
def published_before_confirmed() -> Iterator[None]:
    """The relay does not wait for the broker."""

    async def hasty(kernel: Any, row: Any, sealed: Any) -> None:
        message = Message(id=row.id, destination=row.destination, body=row.payload.encode())
        sending = asyncio.ensure_future(kernel.transport.publish(message))
        sending.add_done_callback(lambda done: done.exception())

    with swapped(relay, "_publish", hasty):
        yield


@contextmanager
def outbox_outside_the_transaction() -> Iterator[None]:
    """Messages are written a moment after the change they tell of."""
    intact = turn.write_beside

    async def later(kernel: Any, told: list[Any]) -> None:
        await asyncio.sleep(0.01)
        async with kernel.store.transaction() as tx:
            await outbox.put(tx, told, kernel.now())

    async def apart(kernel: Any, tx: Any, kept: Any, now: int) -> None:
        told = [message for ended, _ in kept for message in ended.messages]
        await intact(kernel, tx, [(replace(ended, messages=[]), decision) for ended, decision in kept], now)
        if told:
            writing = asyncio.ensure_future(later(kernel, told))
            writing.add_done_callback(lambda done: done.exception())

    with swapped(turn, "write_beside", apart):
        yield


@contextmanager
def early_callback_dropped() -> Iterator[None]:
    """A callback that comes before its job waits is remembered as handled."""

    async def called_back(kernel: Any, wait_key: str, message_id: str, body: str) -> bool:
        async with intake.once(kernel, f"callback:{wait_key}", message_id, body.encode()) as (tx, first):
            locked = await jobs.lock_waiting(tx, wait_key)
            if not first or locked is None:
                return False
            job, provider = locked
            one = settle.Ending(job, intake.Called(body), body, expected=intake.State.WAITING, provider=provider)
            await turn.end(kernel, tx, [one])
        return True

    from holdfast_proof import workload

    with swapped(workload, "called_back", called_back):
        yield


# Providers, keys, secrets


@contextmanager
def trial_permit_leaked() -> Iterator[None]:
    """The permit of a worker that died is never given back."""
    intact = breaker.tick

    def leak(state: BreakerState, policy: Any, now: int) -> BreakerState:
        return state if state.gate is not Gate.OPEN else intact(state, policy, now)

    with swapped(breaker, "tick", leak):
        yield


@contextmanager
def open_breaker_ignored() -> Iterator[None]:
    """Nobody asks the breaker before a call."""

    async def always(kernel: Any, *asked: Any) -> call.CallPermit:
        return call.CallPermit(kernel.new_id(), 0)

    claims = "SELECT name FROM holdfast_breakers_now WHERE gate <> 'closed'"
    claims_at_once = "SELECT b.name FROM holdfast_breakers_now AS b WHERE b.gate <> 'closed'"
    freely = swapped(effect_open, "may_call_now", lambda *asked: True)
    with (
        freely,
        swapped(call, "admit", always),
        swapped(effects, "admit", always),
        respelled(jobs.sql, "claim", (claims, f"{claims} AND FALSE")),
        respelled(jobs.sql, "turn", (claims_at_once, f"{claims_at_once} AND FALSE")),
    ):
        yield


@contextmanager
def key_conflict_ignored() -> Iterator[None]:
    """Another payload under a known key is taken for the same."""

    async def earlier(tx: Any, order: Any) -> str:
        known = await new_jobs.by_key(tx, order.row.kind, order.row.job_key) if order.row.job_key else None
        return str(known.id) if known else str(order.id)

    with swapped(submit, "_earlier", earlier):
        yield


@contextmanager
def keys_dropped() -> Iterator[None]:
    """The key is not stored, so a second try is a second job."""
    intact: Callable[..., Any] = submit.prepare

    def prepare(*args: Any, key: str | None = None, **kwargs: Any) -> Any:
        return intact(*args, **kwargs)

    with swapped(submit, "prepare", prepare):
        yield


@contextmanager
def secrets_in_events() -> Iterator[None]:
    """Error messages are stored as they come."""
    with swapped(settle, "redact_message", lambda text: text):
        yield


@contextmanager
def answered_before_commit() -> Iterator[None]:
    """The client is told 'accepted' before anything is durable."""
    intact: Callable[..., Awaitable[Any]] = submit.submit_orders

    async def eager(kernel: Any, orders: Any) -> list[str]:
        writing = asyncio.ensure_future(intact(kernel, orders))
        writing.add_done_callback(lambda done: done.exception())
        return [order.id for order in orders]

    from holdfast_proof import kernel_world

    with swapped(submit, "submit_orders", eager), swapped(kernel_world, "submit_orders", eager):
        yield


# Bugs that were real: the simulator found them, and each stays planted here


@contextmanager
def unguarded_provider_called_early() -> Iterator[None]:
    """A provider without breaker or limit is not asked when it wants to be called again."""
    intact, free = call.admit, call.may_call_now

    async def admit(kernel: Any, provider: Any, *rest: Any) -> call.CallPermit:
        if provider.breaker is None and provider.per_minute is None:
            return call.CallPermit(kernel.new_id(), 0)
        return await intact(kernel, provider, *rest)

    def may_call_now(provider: Any, row: Any, now: int) -> bool:
        return free(provider, row._replace(not_before=None), now)

    with (
        swapped(call, "admit", admit),
        swapped(effects, "admit", admit),
        swapped(effect_open, "may_call_now", may_call_now),
    ):
        yield


@contextmanager
def refusal_wipes_out_doubt() -> Iterator[None]:
    """A refused re-send under a token is taken for proof that the first send did nothing."""
    intact = effects._refusal

    def forget(job: Any, provider: Any, row: Any, error: Any, sends: int) -> ledger.Refusal:
        return intact(job, provider, replace(row, status=effect.EffectStatus.PLANNED), error, sends)

    with swapped(effects, "_refusal", forget):
        yield


@contextmanager
def late_results_tell() -> Iterator[None]:
    """A result that came too late is kept as late, and its messages are published all the same."""
    intact = turn.write_beside

    async def tell(kernel: Any, tx: Any, kept: Any, now: int) -> None:
        await intact(kernel, tx, kept, now)
        late = [message for ended, decision in kept if decision.event == "expired" for message in ended.messages]
        if late:
            await outbox.put(tx, late, now)

    with swapped(turn, "write_beside", tell):
        yield


@contextmanager
def paused_before_the_send() -> Iterator[None]:
    """A process that stood still between its check of the lease and the send sends all the same."""
    with swapped(effects, "STOOD_STILL_MS", 10**12):
        yield


@contextmanager
def retry_after_not_kept_in_the_process() -> Iterator[None]:
    """What a provider asked for is only in the database, if that was there."""

    def forget(kernel: Any, report: Any, ended: int) -> None:
        pass

    with swapped(record, "_remember", forget), swapped(record, "_keep_for_later", forget):
        yield
