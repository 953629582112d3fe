"""What the grading service says back: callbacks and dead letters, through its own outbox.

Every function writes in the caller's transaction, so that an answer exists exactly if the change it tells of does.
Messages of one request share an aggregate: they leave in the order they were written.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import holdfast
from holdfast import Failure
from holdfast.kit import Kernel, PublicFailure
from holdfast.kit.messages import trace_headers
from holdfast.kit.redaction import mask_addresses, redact_message
from holdfast.kit.tables import Tx, batch, outbox
from holdfast_systems.grading import grading_jobs, messages
from holdfast_systems.grading.contract import (
    CALLBACK_QUEUE,
    DEAD_LETTER_QUEUE,
    Callback,
    DeadLetter,
    ErrorDetail,
    Producer,
    Progress,
    Result,
    Trace,
)
from holdfast_systems.grading.grading_jobs import GradingJob
from holdfast_systems.grading.topology import destination
from holdfast_systems.grading.wire import UNSIGNED, InvalidMessage, UnsignedMessage

MESSAGE_LENGTH_MAX = 500
CIRCUIT_OPEN = "CIRCUIT_OPEN"
_TIMEOUTS = frozenset({"NETWORK_TIMEOUT", "STAGE_TIMEOUT", "UPSTREAM_TIMEOUT", "UPSTREAM_GATEWAY_TIMEOUT"})
# What is wrong with the learner's own audio, and so not worth another try.
_BAD_AUDIO = frozenset({"ADDRESS_REFUSED", "OUTBOUND_TOO_LARGE", "OUTBOUND_UNREADABLE", "UPSTREAM_NOT_FOUND"})


def error_of(stage: str, failure: Failure) -> ErrorDetail:
    """The contract's error for a job that died: a stable type and code, a message without secrets, final. TIMEOUT is
    said only of a deadline that has passed; a retry that could only have come too late has its real cause."""
    kind, code = _names(stage, failure.error_class)
    message = redact_message(failure.message)[:MESSAGE_LENGTH_MAX]
    return ErrorDetail(type=kind, code=code, message=message, retryable=False)


def public_failure(stage: str, why: Failure) -> PublicFailure:
    """The code of that error for log and metrics. A learner's own audio is nobody's to mend but theirs."""
    kind, code = _names(stage, why.error_class)
    return PublicFailure(code, by_user=kind == "INVALID_INPUT")


def _names(stage: str, error_class: str) -> tuple[str, str]:
    if error_class == "DEADLINE_EXCEEDED":
        return "TIMEOUT", "TIMEOUT"
    if error_class == "POISON_JOB":
        return "INTERNAL", "WORKER_LOST"
    if error_class.startswith("AUDIO_") or (stage == "fetch_audio" and error_class in _BAD_AUDIO):
        return "INVALID_INPUT", error_class if error_class.startswith("AUDIO_") else "AUDIO_UNAVAILABLE"
    if stage == "fetch_audio":
        return "AUDIO_FETCH_FAIL", "AUDIO_FETCH_FAIL"
    if stage == "transcribe":
        return "STT_FAIL", "STT_TIMEOUT" if error_class in _TIMEOUTS else "STT_FAIL"
    if error_class in _TIMEOUTS:
        return "LLM_TIMEOUT", "LLM_TIMEOUT"
    return "LLM_FAIL", "LLM_REFUSED" if error_class.startswith("CONTENT_") else "LLM_FAIL"


async def progressed(
    kernel: Kernel, tx: Tx, request_id: str, submission_id: str, trace_id: str | None, status: Progress, share: float
) -> None:
    """Tell how far a request is. Best effort by contract: nobody depends on it."""
    now = kernel.now()
    said = messages.progress(
        request_id, submission_id, event_id=kernel.new_uuid4(), event_at=at(now), status=status, progress=share
    )
    await say(kernel, tx, said, trace_id, now)


async def completed(kernel: Kernel, tx: Tx, job: GradingJob, result: Result) -> None:
    """Keep a result and send it. The first one stands."""
    now = kernel.now()
    said = messages.completed(
        job.request_id, job.submission_id, event_id=kernel.new_uuid4(), event_at=at(now), result=result
    )
    answer = said.data.model_dump(mode="json", by_alias=True, exclude_none=True)
    if await grading_jobs.finish(tx, job.request_id, "completed", answer, now):
        await say(kernel, tx, said, job.trace_id, now)


async def failed(
    kernel: Kernel,
    tx: Tx,
    job: GradingJob,
    error: ErrorDetail,
    *,
    attempts_made: int,
    stage: str,
    error_class: str,
    original: str,
) -> None:
    """Keep a final error and send it, and then a dead letter that refers to the request by its ids.

    The request itself is kept beside it, for as long as its own setting says: retention of jobs does not touch it."""
    now = kernel.now()
    answer = {"error": error.model_dump(mode="json", by_alias=True)}
    if not await grading_jobs.finish(tx, job.request_id, "failed", answer, now):
        return
    await grading_jobs.keep_original(tx, job.request_id, original, now)
    await say(kernel, tx, _error(kernel, job.request_id, job.submission_id, error, now), job.trace_id, now)
    letter = messages.dead_letter(
        job.request_id,
        job.submission_id,
        failure_reason=error.code,
        attempts_made=attempts_made,
        last_error=error.message,
        timestamp=at(now),
        original=json.dumps(_reference(job)).encode(),
        error_class=error_class,
        stage=stage,
    )
    await lay_down(kernel, tx, letter, job.request_id, now)


async def cancelled(kernel: Kernel, tx: Tx, job: GradingJob) -> None:
    """Somebody stopped the grading: final, and nobody's fault, so no dead letter."""
    now = kernel.now()
    error = ErrorDetail(type="CANCELLED", code="CANCELLED", message="The grading was cancelled.", retryable=False)
    if await grading_jobs.finish(tx, job.request_id, "failed", {"error": error.model_dump(by_alias=True)}, now):
        await say(kernel, tx, _error(kernel, job.request_id, job.submission_id, error, now), job.trace_id, now)


async def repeat_answer(kernel: Kernel, tx: Tx, job: GradingJob) -> None:
    """Send a kept answer again, as a new event: nothing is graded or paid a second time."""
    assert job.answer is not None, "only a finished request has an answer to repeat"
    now, event_id = kernel.now(), kernel.new_uuid4()
    if job.status == "completed":
        result = Result.model_validate(job.answer["result"])
        said: Callback = messages.completed(
            job.request_id, job.submission_id, event_id=event_id, event_at=at(now), result=result
        )
    else:
        said = _error(kernel, job.request_id, job.submission_id, ErrorDetail.model_validate(job.answer["error"]), now)
    await say(kernel, tx, said, job.trace_id, now)


async def circuit_open(kernel: Kernel, tx: Tx, job: GradingJob, provider: str) -> None:
    """Tell that a request waits for a provider's breaker; it will go on by itself."""
    message = f"The provider '{provider}' is failing; the grading goes on when it recovers."
    error = ErrorDetail(type=CIRCUIT_OPEN, code=CIRCUIT_OPEN, message=message, retryable=True)
    now = kernel.now()
    await say(kernel, tx, _error(kernel, job.request_id, job.submission_id, error, now), job.trace_id, now)


async def invalid(kernel: Kernel, tx: Tx, refused: InvalidMessage, original: bytes) -> None:
    """Refuse a message: an error callback where an id of it can be read, then a dead letter with the original.

    The ids are echoed as they came: who sent them knows them, and nobody else's request has them. What is not signed
    gets no callback: ours would be signed, and fail the submission that a stranger names."""
    now = kernel.now()
    request_id, submission_id = refused.request_id, refused.submission_id
    is_signed = not isinstance(refused, UnsignedMessage)
    why = redact_message(refused.reason)[:MESSAGE_LENGTH_MAX]
    known = request_id is not None and await grading_jobs.of_request(tx, request_id.lower()) is not None
    if is_signed and (request_id is not None or submission_id is not None) and not known:
        # A broken copy of a request that was accepted must not fail the good one.
        error = ErrorDetail(type="INVALID_INPUT", code="INVALID_INPUT", message=why, retryable=False)
        await say(kernel, tx, _error(kernel, request_id or "", submission_id, error, now), None, now)
    letter = messages.dead_letter(
        request_id,
        submission_id,
        failure_reason="INVALID_INPUT",
        attempts_made=0,
        last_error=why,
        timestamp=at(now),
        original=_masked(original),
        error_class="INVALID_INPUT" if is_signed else UNSIGNED,
        stage="intake",
    )
    await lay_down(kernel, tx, letter, request_id or submission_id or kernel.new_uuid4(), now)


def _masked(original: bytes) -> bytes:
    """The message without the credentials of its addresses. The case that an operator works on has it whole, sealed."""
    try:
        return mask_addresses(original.decode()).encode()
    except UnicodeDecodeError:
        return original


async def say(kernel: Kernel, tx: Tx, callback: Callback, trace_id: str | None, now: int) -> None:
    """Put a callback into the outbox. Its event id is also the message's id."""
    signed = callback.model_copy(
        update={
            "message_id": callback.event_id,
            "created_at": callback.event_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "producer": Producer(service="grading-service", version=holdfast.__version__),
            "trace": None if trace_id is None else Trace(trace_id=trace_id),
        }
    )
    aggregate_id = callback.request_id or callback.submission_id
    await _put(tx, callback.event_id, aggregate_id.lower(), CALLBACK_QUEUE, signed.body(), now)


async def lay_down(kernel: Kernel, tx: Tx, letter: DeadLetter, aggregate_id: str, now: int) -> None:
    """Put a dead letter into the outbox."""
    await _put(tx, kernel.new_uuid4(), aggregate_id.lower(), DEAD_LETTER_QUEUE, letter.body(), now)


async def _put(tx: Tx, message_id: str, aggregate_id: str, queue: str, body: bytes, now: int) -> None:
    headers = batch.text(trace_headers())
    await outbox.put(tx, [(message_id, aggregate_id, destination(queue), queue, body.decode(), headers)], now)
    await tx.notify("outbox")


def _error(kernel: Kernel, request_id: str, submission_id: str | None, error: ErrorDetail, now: int) -> Callback:
    return messages.error(
        request_id,
        submission_id,
        event_id=kernel.new_uuid4(),
        event_at=at(now),
        type=error.type,
        code=error.code,
        message=error.message,
        retryable=error.retryable,
    )


def _reference(job: GradingJob) -> dict[str, Any]:
    """The request without its content: a learner's words and a signed audio address stay where they are."""
    return {
        "requestId": job.request_id,
        "submissionId": job.submission_id,
        "userId": job.user_id,
        "skill": job.skill,
        "attempt": job.attempt,
        "reference": f"grading_originals/{job.request_id}",
        "jobId": job.job_id,
        "payloadSha256": job.fingerprint,
    }


def at(now_ms: int) -> datetime:
    return datetime.fromtimestamp(now_ms / 1_000, UTC)
