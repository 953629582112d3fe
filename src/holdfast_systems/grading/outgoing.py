"""Builds the requests that the main app sends. What the contract would refuse at the other end is refused here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import holdfast
from holdfast import InvalidInput
from holdfast.kit import Kernel, iso
from holdfast.kit.messages import trace_headers
from holdfast.kit.tables import batch, outbox
from holdfast_systems.grading import messages
from holdfast_systems.grading.contract import REQUEST_QUEUE, GradingRequest, check_request
from holdfast_systems.grading.submissions import StoredSubmission
from holdfast_systems.grading.topology import destination
from holdfast_systems.grading.wire import BODY_BYTES_MAX, InvalidMessage


def checked_request(
    kernel: Kernel,
    submission_id: str,
    user_id: str,
    skill: str,
    payload: Mapping[str, Any],
    deadline_at: int,
    *,
    attempt: int = 1,
) -> GradingRequest:
    """The request as the grading service will read it, by the rules of its own parser; raises `InvalidInput` with the
    reason. It is not written as text for that: `payload` was read from JSON, and the times are our own."""
    tree = {
        "messageType": REQUEST_QUEUE,
        "messageId": kernel.new_uuid4(),
        "createdAt": iso(kernel.now()),
        "trace": {"traceId": _trace_id(kernel)},
        "producer": {"service": "main-app", "version": holdfast.__version__},
        "requestId": kernel.new_uuid4(),
        "submissionId": submission_id,
        "userId": user_id,
        "skill": skill,
        "attempt": attempt,
        "deadlineAt": utc(deadline_at),
        "payload": dict(payload),
    }
    try:
        return check_request(tree)
    except InvalidMessage as invalid:
        raise InvalidInput(f"{invalid.reason.removesuffix('.')}.") from None


def request_message(submission_id: str, request: GradingRequest) -> outbox.NewMessage:
    """The request as it goes into the outbox; its id there, and on the broker, is the body's `messageId`."""
    assert request.message_id is not None, "our own requests have a message id"
    headers = batch.text(trace_headers())
    body = request.body()
    if len(body) > BODY_BYTES_MAX:
        raise InvalidInput(f"The message has {len(body)} bytes; the limit is {BODY_BYTES_MAX}.")
    return request.message_id, submission_id, destination(REQUEST_QUEUE), REQUEST_QUEUE, body.decode(), headers


def rebuilt_request(stored: StoredSubmission) -> bytes:
    """The request of a submission's present attempt, as it was sent: the same id, attempt, deadline and payload."""
    deadline_at = utc(stored.state.deadline_at)
    ids = (stored.request_id, stored.id, stored.user_id)
    return messages.request(
        *ids, attempt=stored.attempt, deadline_at=deadline_at, skill=stored.skill, payload=stored.payload
    ).body()


def _trace_id(kernel: Kernel) -> str:
    """The trace that this request is part of; without tracing one of its own, so that both services' logs join up."""
    parent = trace_headers().get("traceparent")
    return parent.split("-")[1] if parent else kernel.new_uuid4().replace("-", "")


def utc(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1_000, UTC)
