"""Consumes `grading.request`: a message becomes rows, and is acked after their commit.

valid, new          request row + job + a progress callback
valid, known        nothing while it runs; once it has ended, its answer again
past its deadline   a final error at once: grading it would help nobody
not valid           an error callback where an id can be read, a dead letter on the queue, and a case for an operator
not signed          the same without a callback: a stranger's message must not fail somebody's submission
sent again by hand  as a new one if it is new; if it failed, its job is replayed while the deadline allows

Valid requests are known by their request id, whatever message carried them. What cannot be read is known by its bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from holdfast import InvalidInput, Job, NotAllowed, NotFound
from holdfast.kit import JobToEnqueue, Kernel, prepare, submit_in
from holdfast.kit.messages import Delivery, once, trace_headers
from holdfast.kit.repair import operate
from holdfast.kit.tables import Tx, inbox
from holdfast_systems.grading import answers, grading_jobs, refused
from holdfast_systems.grading.contract import REQUEST, REQUEST_QUEUE, ErrorDetail, GradingRequest, parse_request
from holdfast_systems.grading.topology import RESENT_HEADER
from holdfast_systems.grading.wire import InvalidMessage, UnsignedMessage

TRACE_LENGTH_MAX = 200


Jobs = Mapping[str, type[Job[Any]]]
"""The job class of each skill, and of what is refused."""


async def receive_request(kernel: Kernel, delivery: Delivery, jobs: Jobs) -> None:
    """Handle one message. Returns once all it means is committed."""
    try:
        if not delivery.genuine:
            raise UnsignedMessage(delivery.body)
        request = parse_request(delivery.body)
        order = _order(kernel, request, jobs)
    except InvalidMessage as invalid:
        await _refuse(kernel, delivery, invalid, jobs)
        return
    async with kernel.store.transaction() as tx:
        outcome = await _accept(kernel, tx, request, order, await _resent(kernel, tx, delivery))
        await kernel.failpoint("intake.before_commit")
    await kernel.failpoint("intake.after_commit")
    kernel.watch.count("grading_requests", skill=request.skill, outcome=outcome)
    kernel.watch.log("request", request_id=request.request_id, job_id=order.id, outcome=outcome)


def _order(kernel: Kernel, request: GradingRequest, jobs: Jobs) -> JobToEnqueue:
    """The job to enqueue. What cannot become a row is as invalid as what cannot be read."""
    now = kernel.now()
    try:
        return prepare(
            jobs[request.skill].__holdfast__,
            request,
            job_id=kernel.new_id(),
            now=now,
            key=request.dedup_key,
            deadline_s=max(1, request.deadline_ms - now) / 1_000,  # one that is over becomes no job
            owner=request.user_id,
            trace=trace_headers().get("traceparent") or trace_id_of(request),
        )
    except InvalidInput as error:
        raise InvalidMessage(str(error), request.request_id, request.submission_id) from None


async def accept_read(kernel: Kernel, tx: Tx, request: GradingRequest, jobs: Jobs) -> None:
    """Accept, in the caller's transaction, a request that could not be read when it came."""
    await _accept(kernel, tx, request, _order(kernel, request, jobs))


async def _accept(
    kernel: Kernel, tx: Tx, request: GradingRequest, order: JobToEnqueue, resent: str | None = None
) -> str:
    """`resent`: why a person sent it again; None for everything else."""
    fingerprint = hashlib.sha256(request.payload.model_dump_json().encode()).hexdigest()
    now, trace_id = kernel.now(), trace_id_of(request)
    if not await grading_jobs.insert(tx, request, order.id, fingerprint, trace_id, now):
        return await _repeat(kernel, tx, request, fingerprint, resent)
    if request.deadline_ms <= now:
        known = await grading_jobs.of_request(tx, request.dedup_key)
        assert known is not None
        late = ErrorDetail(
            type="TIMEOUT", code="TIMEOUT", message="The request came after its deadline.", retryable=False
        )
        await answers.failed(
            kernel,
            tx,
            known,
            late,
            attempts_made=0,
            stage="intake",
            error_class="DEADLINE_EXCEEDED",
            original=wire_of(order.row.payload),
        )
        return "late"
    await submit_in(tx, [order], now, kernel.watch)
    await answers.progressed(kernel, tx, request.dedup_key, request.submission_id, trace_id, "PROCESSING", 0.0)
    return "accepted"


async def _repeat(kernel: Kernel, tx: Tx, request: GradingRequest, fingerprint: str, resent: str | None) -> str:
    known = await grading_jobs.repeated(tx, request.dedup_key)
    if known.fingerprint != fingerprint:
        kernel.watch.log("request.payload_differs", request_id=known.request_id)
    if known.status == "running":
        return "running"
    if resent is not None and known.status == "failed" and known.deadline_at > kernel.now():
        try:
            await operate.retry_dead(kernel, tx, known.job_id, actor="grading.dlq", evidence=resent)
        except (NotAllowed, NotFound):
            pass  # it was cancelled, or is being replayed already: its answer says how it stands
        else:
            return "replayed"
    await answers.repeat_answer(kernel, tx, known)
    return "answered_again"


async def _resent(kernel: Kernel, tx: Tx, delivery: Delivery) -> str | None:
    """Why a person sent this message again, the first time it is seen: a redelivery of it replays nothing."""
    reason = delivery.headers.get(RESENT_HEADER)
    if not reason or not delivery.message_id:
        return None
    first = await inbox.accept(tx, REQUEST_QUEUE, delivery.message_id, "", kernel.now())
    return reason if first else None


async def _refuse(kernel: Kernel, delivery: Delivery, invalid: InvalidMessage, jobs: Jobs) -> None:
    identity = hashlib.sha256(f"{delivery.message_id or ''}\n".encode() + delivery.body).hexdigest()
    async with once(kernel, REQUEST_QUEUE, identity, delivery.body) as (tx, first):
        if first:
            await answers.invalid(kernel, tx, invalid, delivery.body)
            await _open_case(kernel, tx, invalid, delivery.body, identity, jobs)
    kernel.watch.count("grading_requests", skill="unknown", outcome="refused" if first else "refused_again")
    kernel.watch.log("request.refused", request_id=invalid.request_id, error=invalid.reason[:300])


async def _open_case(kernel: Kernel, tx: Tx, invalid: InvalidMessage, body: bytes, identity: str, jobs: Jobs) -> None:
    """A message too large for a job's input has its letter on the queue only, cut as that says."""
    kind = jobs[refused.KIND].__holdfast__
    with suppress(InvalidInput):
        order = refused.refused_order(kernel, kind, refused.refused_request(invalid, body), identity)
        await submit_in(tx, [order], kernel.now(), kernel.watch)


def trace_id_of(request: GradingRequest) -> str | None:
    found = request.trace.trace_id if request.trace else None
    return found if found and len(found) <= TRACE_LENGTH_MAX else None


def wire_of(payload: str) -> str:
    """A job's input as the request that it came from."""
    try:
        request: GradingRequest = REQUEST.validate_json(payload, by_name=True)
    except ValidationError:
        return payload  # an older shape: it is kept as it lies in the job
    return request.body().decode()
