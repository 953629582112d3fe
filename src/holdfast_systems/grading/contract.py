"""The queue contract between the main app and the grading service, as models.

    main app --grading.request--> grading service --grading.callback--> main app
                                        \\---------grading.dlq--------> a person

camelCase on the wire, snake_case here. Unknown extra fields are accepted; metadata is optional everywhere.
The published AsyncAPI and JSON Schema files are generated from these models (`asyncapi.py`). Parsing is
strict about what the contract names, and says in one sentence what is wrong. `messages.py` builds messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
)
from pydantic import JsonValue as Json
from pydantic import WithJsonSchema as Schema
from pydantic.alias_generators import to_camel

from holdfast_systems.grading.grade import Band, TaskType
from holdfast_systems.grading.wire import (
    BODY_BYTES_MAX,
    ID_LENGTH_MAX,
    UUID4_PATTERN,
    InvalidMessage,
    check_tree,
    ids_of,
    read_object,
)

EXCHANGE = "vstep.exchange"
EXCHANGE_TYPE = "direct"
REQUEST_QUEUE = "grading.request"
CALLBACK_QUEUE = "grading.callback"
DEAD_LETTER_QUEUE = "grading.dlq"
# Each queue is bound by a routing key of its own name.
QUEUES = (REQUEST_QUEUE, CALLBACK_QUEUE, DEAD_LETTER_QUEUE)
CONTENT_TYPE = "application/json; charset=utf-8"
SLA_MS = {"writing": 20 * 60_000, "speaking": 60 * 60_000}

UTC_PATTERN = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|\+00:00)$"
)
_INT32_MAX = 2_147_483_647


def _read_utc(value: object) -> datetime:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("must have a time zone")
        return value.astimezone(UTC)
    if not isinstance(value, str) or re.fullmatch(UTC_PATTERN, value, re.ASCII) is None:
        raise ValueError("must be an ISO 8601 time in UTC, such as 2026-01-31T12:00:00.000Z")
    return datetime.fromisoformat(value)


def _write_utc(value: datetime) -> str:
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _whole(value: object) -> object:
    # JSON has one kind of number: 3.0 is the integer 3, in JSON Schema and here.
    return int(value) if isinstance(value, float) and value.is_integer() else value


_UTC_SCHEMA = {"type": "string", "pattern": UTC_PATTERN, "description": "ISO 8601, UTC"}
UtcTime = Annotated[datetime, BeforeValidator(_read_utc), PlainSerializer(_write_utc), Schema(_UTC_SCHEMA)]
Uuid4 = Annotated[str, Field(pattern=UUID4_PATTERN, min_length=36, max_length=36)]
Id = Annotated[str, Field(min_length=1, max_length=ID_LENGTH_MAX)]
Positive = Annotated[int, Field(ge=1, le=_INT32_MAX), BeforeValidator(_whole)]
Count = Annotated[int, Field(ge=0, le=_INT32_MAX), BeforeValidator(_whole)]
Percent = Annotated[int, Field(ge=0, le=100), BeforeValidator(_whole)]
SpeakingPart = Annotated[int, Field(ge=1, le=3), BeforeValidator(_whole)]
Skill = Literal["writing", "speaking"]
Kind = Literal["progress", "completed", "error"]
Progress = Literal["PROCESSING", "ANALYZING", "GRADING"]
Priority = Literal["Low", "Medium", "High", "Critical"]


class Piece(BaseModel):
    """A piece of a message: strict types, camelCase on the wire, extras tolerated."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, strict=True, extra="ignore", frozen=True)


class Trace(Piece):
    trace_id: str | None = None


class Producer(Piece):
    service: str | None = None
    version: str | None = None


class ContractMessage(Piece):
    """What every message may carry and none must."""

    message_type: str | None = None
    message_id: str | None = None
    created_at: str | None = None
    trace: Trace | None = None
    producer: Producer | None = None

    def body(self) -> bytes:
        """The message as it goes on the wire. Fields without a value are left out."""
        return self.model_dump_json(by_alias=True, exclude_none=True).encode()


class WritingPayload(Piece):
    text: str
    task_type: TaskType
    question_id: Id
    # The question as the learner saw it, where the sender knows it: then an answer beside the point is noticed.
    question_text: Annotated[str, Field(max_length=4000)] | None = None


class SpeakingPayload(Piece):
    audio_url: Annotated[str, Field(pattern=r"^[hH][tT][tT][pP][sS]?://\S+$", max_length=4096)]
    duration_seconds: Positive
    question_id: Id
    part: SpeakingPart | None = None
    question_text: Annotated[str, Field(max_length=4000)] | None = None


class _Request(ContractMessage):
    request_id: Uuid4
    submission_id: Id
    user_id: Id
    attempt: Positive
    deadline_at: UtcTime

    @property
    def dedup_key(self) -> str:
        """The request id in one spelling: upper and lower case are one UUID."""
        return self.request_id.lower()

    @property
    def deadline_ms(self) -> int:
        return round(self.deadline_at.timestamp() * 1_000)


class WritingRequest(_Request):
    skill: Literal["writing"]
    payload: WritingPayload


class SpeakingRequest(_Request):
    skill: Literal["speaking"]
    payload: SpeakingPayload


GradingRequest = WritingRequest | SpeakingRequest


class ProgressData(Piece):
    status: Progress
    progress: Annotated[float, Field(ge=0, le=1)] | None = None
    message: str | None = None


class Result(Piece):
    """The AI's result. What a foreign service adds, or shapes its own way, is kept as sent."""

    model_config = ConfigDict(extra="allow")

    overall_score: Annotated[float, Field(ge=0, le=10)]
    band: Band
    confidence_score: Percent
    review_required: bool
    review_priority: Priority | None = None
    audit_flag: bool
    criteria: Json = None
    feedback: Json = None
    signals: Json = None
    method: Json = None
    transcript: Json = None
    # The offline grader's measurements, in standard deviations: what instructors' reviews calibrate it by.
    features: Json = None


class CompletedData(Piece):
    result: Result


class ErrorDetail(Piece):
    type: Annotated[str, Field(min_length=1)]
    code: Annotated[str, Field(min_length=1)]
    message: str
    retryable: bool


class ErrorData(Piece):
    error: ErrorDetail


class _Callback(ContractMessage):
    request_id: Uuid4
    # Empty in the answer to a request whose own submissionId could not be read.
    submission_id: Annotated[str, Field(max_length=ID_LENGTH_MAX)]
    event_id: Uuid4
    event_at: UtcTime


class ProgressCallback(_Callback):
    kind: Literal["progress"]
    data: ProgressData


class CompletedCallback(_Callback):
    kind: Literal["completed"]
    data: CompletedData


class ErrorCallback(_Callback):
    # A request may be refused because of its id: the answer has it as it came, and is empty where there was none.
    request_id: Annotated[str, Field(max_length=ID_LENGTH_MAX)]
    kind: Literal["error"]
    data: ErrorData


Callback = ProgressCallback | CompletedCallback | ErrorCallback


class DeadLetter(ContractMessage):
    """What could not be graded, with all that a person needs. An id is as it came, and null where there was none."""

    request_id: str | None
    submission_id: str | None
    failure_reason: Annotated[str, Field(min_length=1)]
    attempts_made: Count
    last_error: str
    timestamp: UtcTime
    error_class: str | None = None
    stage: str | None = None
    # `json`: the message itself; `text`, `base64`: its bytes, so written; with the full size and hash if cut.
    original_message: Json
    original_encoding: Literal["json", "text", "base64"]
    original_bytes: Count
    original_sha256: str
    original_truncated: bool = False

    def body(self) -> bytes:
        """The message as it goes on the wire. The ids are always there, as null if need be."""
        missing = {
            name for name in ("error_class", "stage", *ContractMessage.model_fields) if getattr(self, name) is None
        }
        return self.model_dump_json(by_alias=True, exclude=missing).encode()


REQUEST: TypeAdapter[GradingRequest] = TypeAdapter(Annotated[GradingRequest, Field(discriminator="skill")])
CALLBACK: TypeAdapter[Callback] = TypeAdapter(Annotated[Callback, Field(discriminator="kind")])
DEAD_LETTER: TypeAdapter[DeadLetter] = TypeAdapter(DeadLetter)


def parse_request(body: bytes, *, bytes_max: int = BODY_BYTES_MAX) -> GradingRequest:
    """The request in `body`, or InvalidMessage with a sentence and the ids that could be read."""
    return _parse(REQUEST, body, bytes_max)


def check_request(tree: dict[str, Any]) -> GradingRequest:
    """The request that a tree is, by the rules of `parse_request` for everything but its size."""
    return _fit(REQUEST, check_tree(tree))


def parse_callback(body: bytes, *, bytes_max: int = BODY_BYTES_MAX) -> Callback:
    """The callback in `body`, or InvalidMessage."""
    return _parse(CALLBACK, body, bytes_max)


def parse_dead_letter(body: bytes, *, bytes_max: int = 4 * BODY_BYTES_MAX) -> DeadLetter:
    """The dead letter in `body`, or InvalidMessage."""
    return _parse(DEAD_LETTER, body, bytes_max)


M = TypeVar("M")


def _parse(adapter: TypeAdapter[M], body: bytes, bytes_max: int) -> M:
    return _fit(adapter, read_object(body, bytes_max=bytes_max))


def _fit(adapter: TypeAdapter[M], tree: dict[str, Any]) -> M:
    try:
        return adapter.validate_python(tree, by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidMessage(_sentence(error), *ids_of(tree)) from None


def _sentence(error: ValidationError) -> str:
    """Where and what, never the value: a learner's text must not travel in an error."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    if details[0]["type"].startswith("union_tag"):
        return _missing_tag(error.errors(include_url=False, include_input=False)[0]["ctx"])
    complaints = [f"{_path(detail['loc'])}: {detail['msg']}" for detail in details]
    more = f" (and {len(complaints) - 5} more)" if len(complaints) > 5 else ""
    return "; ".join(complaints[:5]) + more


def _missing_tag(context: Mapping[str, Any]) -> str:
    """The field that says which kind of message this is, and what it may say, where that is known."""
    expected = str(context.get("expected_tags", "")).replace("'", "")
    field = str(context["discriminator"]).strip("'")
    return f"{field}: must be one of {expected}" if expected else f"{field}: Field required"


def _path(location: tuple[int | str, ...]) -> str:
    # The union's own tag comes first in the location and names no field.
    tags = {"writing", "speaking", "progress", "completed", "error"}
    steps = location[1:] if location and location[0] in tags else location
    return ".".join(str(step) for step in steps) or "message"
