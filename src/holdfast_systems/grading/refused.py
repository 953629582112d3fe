"""Requests that could not be read, as jobs: so that they become cases which an operator works on.

    not valid --intake--> callback, letter on the queue, and a job that reads the message again --> dead: a case

The job's one stage reads the very bytes that came. As they are, that fails at once and for good; after a correction of
the job's input, or with a newer reader, a replay accepts the request as if it had just come. What came unsigned stays
refused however often it is replayed, until a person has corrected `is_signed`."""

from __future__ import annotations

import base64
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from holdfast import CallError, Category
from holdfast.kit import JobToEnqueue, Kernel, State, prepare
from holdfast.kit.redaction import mask_addresses
from holdfast.kit.tables import Tx, cases
from holdfast_systems.grading.contract import parse_request
from holdfast_systems.grading.wire import NO_SIGNATURE, InvalidMessage, UnsignedMessage

KIND = "grading.refused"


class RefusedRequest(BaseModel):
    """A message that is no request: its ids as they came, and its bytes, as text where they are text."""

    model_config = ConfigDict(frozen=True)

    request_id: str | None
    submission_id: str | None
    original: str
    encoding: Literal["text", "base64"] = "text"
    is_signed: bool = True
    """False: keys are set, and it came without a right signature. Only a person can vouch for it, by a correction."""

    @property
    def body(self) -> bytes:
        return self.original.encode() if self.encoding == "text" else base64.b64decode(self.original)


class ReadRequest(BaseModel):
    """The request in a message that could be read after all, as it may be shown."""

    body: str


def refused_request(invalid: InvalidMessage, body: bytes) -> RefusedRequest:
    """What is kept of a message. NUL has no place in a row's text, so such a body is kept as base64."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    is_text = "\0" not in text
    return RefusedRequest(
        request_id=invalid.request_id,
        submission_id=invalid.submission_id,
        original=text if is_text else base64.b64encode(body).decode(),
        encoding="text" if is_text else "base64",
        is_signed=not isinstance(invalid, UnsignedMessage),
    )


def refused_order(kernel: Kernel, kind: Any, refused: RefusedRequest, identity: str) -> JobToEnqueue:
    """The job of a refused message; one per message, however often it is delivered."""
    return prepare(kind, refused, job_id=kernel.new_id(), now=kernel.now(), key=identity)


def read_again(refused: RefusedRequest) -> ReadRequest:
    """The request in the message; not a retryable failure if there is still none, or if nobody has signed it."""
    if not refused.is_signed:
        raise CallError.of(Category.VALIDATION, "UNSIGNED", NO_SIGNATURE)
    try:
        return ReadRequest(body=mask_addresses(parse_request(refused.body).body().decode()))
    except InvalidMessage as invalid:
        raise CallError.of(Category.VALIDATION, "INVALID_INPUT", invalid.reason) from None


async def name_case(tx: Tx, job_id: str, state: State, request_id: str | None, submission_id: str | None) -> None:
    """Write the ids that people know a request by on its case, if it has just been opened."""
    if state is State.DEAD:
        await cases.refer(tx, job_id, request_id, {"requestId": request_id, "submissionId": submission_id})
