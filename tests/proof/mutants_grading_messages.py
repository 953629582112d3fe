"""Planted bugs about grading's messages: callbacks, requests, answers, keys. Production code holds none of this."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.responses import JSONResponse

from holdfast import CallError, Category
from holdfast.http import idempotency as idempotent_posts
from holdfast.kit import submit_in
from holdfast.kit.messages import once
from holdfast.kit.tables import idempotency, outbox
from holdfast.providers.openai import OpenAIClient
from holdfast.transports.seam import Delivery
from holdfast_proof import messages
from holdfast_proof.transport import SimTransport
from holdfast_systems.grading import (
    answers,
    audio,
    callbacks,
    grading_jobs,
    grading_service,
    intake,
    main_app,
    main_http,
    submissions,
    transitions,
)
from holdfast_systems.grading.contract import CALLBACK_QUEUE, REQUEST_QUEUE
from tests.proof.plant import respelled, swapped

# Callbacks on their way in


def _early_ack(queue_name: str) -> Any:
    intact = SimTransport.consume

    async def consume(self: SimTransport, queue: str, handler: Any, *, prefetch: int = 20) -> None:
        async def handle(delivery: messages.SimDelivery) -> None:
            await delivery.ack()
            await handler(Delivery(queue, delivery.body, delivery.message_id, dict(delivery.headers)))

        if queue == queue_name:
            self.broker.consume(queue, self.loop.current, handle, prefetch=prefetch)
            await asyncio.Event().wait()
        await intact(self, queue, handler, prefetch=prefetch)

    return swapped(SimTransport, "consume", consume)


@contextmanager
def callback_acked_before_commit() -> Iterator[None]:
    """The main app acks a callback when it arrives."""
    with _early_ack(CALLBACK_QUEUE):
        yield


@contextmanager
def no_inbox_of_callbacks() -> Iterator[None]:
    """Every callback is the first."""
    intact = submissions.accept_callback

    async def accept(*args: Any) -> bool:
        await intact(*args)
        return True

    with swapped(submissions, "accept_callback", accept):
        yield


@contextmanager
def callback_marked_before_its_effects() -> Iterator[None]:
    """A callback is recorded in a transaction of its own, and then applied."""

    async def take(kernel: Any, tx: Any, callback: Any, fingerprint: str) -> str:
        event_id, request_id = callback.event_id.lower(), callback.request_id.lower()
        about = (event_id, request_id, callback.submission_id, callback.kind, fingerprint, kernel.now())
        new = await submissions.accept_callback(tx, *about)
        if new:
            writing = asyncio.ensure_future(apply_later(kernel, callback, event_id, request_id))
            writing.add_done_callback(lambda done: done.cancelled() or done.exception())
        return "applied" if new else "duplicate"

    async def apply_later(kernel: Any, callback: Any, event_id: str, request_id: str) -> None:
        await asyncio.sleep(0.01)
        async with kernel.store.transaction() as tx:
            stored = await submissions.lock_by_request(tx, request_id)
            if stored is not None:
                decided = transitions.apply(stored.state, callback, kernel.now())
                await submissions.change(kernel, tx, stored, decided, kernel.now(), event_id=event_id)

    with swapped(callbacks, "_take", take):
        yield


# Requests


@contextmanager
def request_acked_before_commit() -> Iterator[None]:
    """The grading service acks a request when it arrives."""
    with _early_ack(REQUEST_QUEUE):
        yield


@contextmanager
def duplicate_request_graded_again() -> Iterator[None]:
    """A request that comes again after its end is worked on again."""
    intact = intake._accept

    async def accept(kernel: Any, tx: Any, request: Any, order: Any, resent: str | None = None) -> str:
        known = await grading_jobs.of_request(tx, request.dedup_key)
        if known is None or known.status == "running" or request.deadline_ms <= kernel.now():
            return await intact(kernel, tx, request, order, resent)
        anew = type(order)(order.id, order.row._replace(job_key=None))
        await submit_in(tx, [anew], kernel.now())
        return "accepted"

    with swapped(intake, "_accept", accept):
        yield


@contextmanager
def repeated_request_not_answered() -> Iterator[None]:
    """A request that comes again after its end is dropped."""

    async def silence(*args: Any) -> None:
        return None

    with swapped(answers, "repeat_answer", silence):
        yield


@contextmanager
def refused_twice() -> Iterator[None]:
    """A bad message is laid down as often as it is delivered."""

    def again(kernel: Any, consumer: str, message_id: str, body: bytes) -> Any:
        return once(kernel, consumer, f"{message_id}{kernel.new_uuid4()}", body)

    with swapped(intake, "once", again):
        yield


# Providers


@contextmanager
def client_retries_by_itself() -> Iterator[None]:
    """The model's client asks again before it says that it failed."""
    intact = OpenAIClient._post

    async def twice(self: OpenAIClient, path: str, timeout_s: float, key: str | None, **body: Any) -> Any:
        try:
            return await intact(self, path, timeout_s, key, **body)
        except CallError:
            return await intact(self, path, timeout_s, key, **body)

    with swapped(OpenAIClient, "_post", twice):
        yield


@contextmanager
def bad_audio_tried_again() -> Iterator[None]:
    """Audio that cannot be decoded is taken for a passing trouble."""

    def passing(error_class: str, message: str) -> CallError:
        return CallError.of(Category.UPSTREAM, error_class, message)

    with swapped(audio, "_invalid", passing):
        yield


# Answers


@contextmanager
def callbacks_outside_the_transaction() -> Iterator[None]:
    """The service's callbacks are written a moment after the change they tell of."""
    intact = answers.say

    async def later(kernel: Any, callback: Any, trace_id: Any, now: int) -> None:
        await asyncio.sleep(0.01)
        async with kernel.store.transaction() as tx:
            await intact(kernel, tx, callback, trace_id, now)

    async def apart(kernel: Any, tx: Any, callback: Any, trace_id: Any, now: int) -> None:
        writing = asyncio.ensure_future(later(kernel, callback, trace_id, now))
        writing.add_done_callback(lambda done: done.cancelled() or done.exception())

    with swapped(answers, "say", apart):
        yield


@contextmanager
def callbacks_overtake() -> Iterator[None]:
    """The relay publishes whatever is due, in any order."""
    with respelled(outbox.sql, "claim", ("AND o.seq = (SELECT p.seq", "AND o.seq >= (SELECT p.seq")):
        yield


@contextmanager
def breaker_floods() -> Iterator[None]:
    """Whoever is held is told again and again, in the rhythm of the step."""
    intact = grading_service.tell_parked_once

    async def calm(kernel: Any, engine: Any) -> int:
        await intact(kernel, engine)
        return 0

    guard = ("AND (told_provider <> :provider OR told_generation < :generation)", "")
    inner = ("AND (g.told_provider <> :provider OR g.told_generation < :generation)", "")
    with (
        respelled(grading_jobs.sql, "tell_one", guard),
        respelled(grading_jobs.sql, "tell_parked", guard, inner),
        swapped(grading_service, "tell_parked_once", calm),
    ):
        yield


@contextmanager
def dead_letters_forgotten() -> Iterator[None]:
    """What died is answered and not laid down."""

    async def nothing(*args: Any) -> None:
        return None

    with swapped(answers, "lay_down", nothing):
        yield


# Submitting


@contextmanager
def key_ignored_under_concurrency() -> Iterator[None]:
    """Whether a key is new is asked before the transaction that takes it."""
    intact = idempotent_posts._once

    async def ask_first(kernel: Any, scope: str, key: str, print_: str, make: Any) -> Any:
        async with kernel.store.reading() as tx:
            known = await idempotency.read(tx, scope, key)
        if known is not None:
            return await intact(kernel, scope, key, print_, make)
        async with kernel.store.transaction() as tx:
            status, body = await make(tx)
            await idempotency.reserve(tx, scope, key, print_, kernel.now())
            text = json.dumps(body)
            await idempotency.answer(tx, scope, key, status, text)
        return JSONResponse(body, status)

    with swapped(idempotent_posts, "_once", ask_first):
        yield


@contextmanager
def request_outside_the_transaction() -> Iterator[None]:
    """The request is written a moment after its submission."""
    intact = outbox.put

    async def later(kernel: Any, batch: Any) -> None:
        await asyncio.sleep(0.01)
        async with kernel.store.transaction() as tx:
            await intact(tx, batch, kernel.now())

    async def submit(kernel: Any, tx: Any, *args: Any) -> Any:
        kept: list[Any] = []

        async def keep(tx: Any, batch: Any, now: int) -> None:
            kept.append(batch)

        with swapped(outbox, "put", keep):
            stored = await whole(kernel, tx, *args)
        writing = asyncio.ensure_future(later(kernel, kept[0]))
        writing.add_done_callback(lambda done: done.cancelled() or done.exception())
        return stored

    whole = main_app.submit
    with swapped(main_http, "submit", submit):
        yield
