"""The queue contract: golden messages, hostile bodies, builders, and the published files."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast_systems.grading import asyncapi, contract, messages
from holdfast_systems.grading.wire import InvalidMessage

CONTRACT = Path(__file__).parents[3] / "docs" / "contract"
VALID = sorted((CONTRACT / "examples" / "valid").glob("*.json"))
INVALID = sorted((CONTRACT / "examples" / "invalid").glob("*.json"))
REQUEST_ID = "3f0e6b0a-6d1c-4c58-9a0e-2b7f1d5c9e11"
EVENT_ID = "b1a7c1de-52f4-4f0b-8f6c-0f7c9d2e4a55"
NOW = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
PARSERS: dict[str, Callable[[bytes], object]] = {
    "request": contract.parse_request,
    "callback": contract.parse_callback,
    "dlq": contract.parse_dead_letter,
}


def queue_of(path: Path) -> str:
    return path.name.split(".")[1]


def published_schema(queue: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((CONTRACT / f"grading.{queue}.schema.json").read_text())
    return schema


def request(**changes: Any) -> dict[str, Any]:
    return {
        "requestId": REQUEST_ID,
        "submissionId": "sub-1",
        "userId": "u-1",
        "skill": "writing",
        "attempt": 1,
        "deadlineAt": "2026-03-01T09:20:00Z",
        "payload": {"text": "Hello.", "taskType": "email", "questionId": "q-1"},
    } | changes


def refused(body: bytes) -> InvalidMessage:
    with pytest.raises(InvalidMessage) as caught:
        contract.parse_request(body)
    return caught.value


@pytest.mark.spec("G18")
def test_there_are_golden_messages_for_every_queue() -> None:
    for files in (VALID, INVALID):
        assert {queue_of(path) for path in files} == set(PARSERS)


@pytest.mark.spec("G18", "G5", "002.5", "002.8")
@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_schema_and_parser_both_accept_a_valid_golden_message(path: Path) -> None:
    jsonschema.Draft202012Validator(published_schema(queue_of(path))).validate(json.loads(path.read_bytes()))
    PARSERS[queue_of(path)](path.read_bytes())


@pytest.mark.spec("G18", "002.7")
@pytest.mark.parametrize("queue", PARSERS)
def test_a_golden_message_of_every_queue_has_its_message_id_and_trace_in_the_body(queue: str) -> None:
    """Under the names that our own messages give them: what such a message means, ours say too."""
    body = (CONTRACT / "examples" / "valid" / f"grading.{queue}.with-metadata.json").read_bytes()
    message: Any = PARSERS[queue](body)
    wire = json.loads(body)
    assert uuid.UUID(message.message_id).version == 4 and message.message_id == wire["messageId"]
    assert message.trace.trace_id == wire["trace"]["traceId"] and len(message.trace.trace_id) == 32
    again = json.loads(message.body())
    assert {name: again[name] for name in ("messageType", "messageId", "trace")} == {
        "messageType": f"grading.{queue}",
        "messageId": wire["messageId"],
        "trace": wire["trace"],
    }


@pytest.mark.spec("G18", "G5", "002.4")
@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_schema_and_parser_both_refuse_an_invalid_golden_message(path: Path) -> None:
    schema = jsonschema.Draft202012Validator(published_schema(queue_of(path)))
    assert not schema.is_valid(json.loads(path.read_bytes()))
    with pytest.raises(InvalidMessage):
        PARSERS[queue_of(path)](path.read_bytes())


@pytest.mark.spec("G5", "002.10")
@pytest.mark.parametrize(
    "message, complaint",
    [
        ({"submissionId": "s"}, "skill: Field required"),
        ({"skill": "dancing"}, "skill: must be one of writing, speaking"),
    ],
)
def test_a_request_of_no_known_kind_is_told_which_field_is_wrong(message: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidMessage) as refused:
        PARSERS["request"](json.dumps(message).encode())
    assert str(refused.value) == complaint and "dancing" not in str(refused.value)


@pytest.mark.spec("G18")
def test_the_published_contract_is_what_the_code_says() -> None:
    assert asyncapi.drifted(CONTRACT) == []
    assert asyncapi.main(["--check", "--directory", str(CONTRACT)]) == 0


@pytest.mark.spec("G18")
def test_a_drifted_contract_fails_the_check(tmp_path: Path) -> None:
    assert asyncapi.main(["--directory", str(tmp_path)]) == 0
    assert asyncapi.main(["--check", "--directory", str(tmp_path)]) == 0
    schema = tmp_path / "grading.request.schema.json"
    schema.write_text(schema.read_text().replace('"attempt"', '"try"'))
    assert asyncapi.main(["--check", "--directory", str(tmp_path)]) == 1
    schema.unlink()
    assert asyncapi.main(["--check", "--directory", str(tmp_path)]) == 1


@pytest.mark.spec("G18")
def test_the_asyncapi_document_names_the_topology_and_resolves_by_itself() -> None:
    document = yaml.safe_load((CONTRACT / "asyncapi.yaml").read_text())
    assert document["asyncapi"].startswith("3.")
    assert {channel["address"] for channel in document["channels"].values()} == set(contract.QUEUES)
    for channel in document["channels"].values():
        exchange = channel["bindings"]["amqp"]["exchange"]
        assert (exchange["name"], exchange["type"], exchange["durable"]) == ("vstep.exchange", "direct", True)
    for reference in references(document):
        node: Any = document
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]


def references(node: Any) -> list[str]:
    if isinstance(node, list):
        return [found for item in node for found in references(item)]
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for item in node.values() for found in references(item)]
    return []


@pytest.mark.spec("G5")
@pytest.mark.parametrize(
    "body",
    [
        b"hello",
        b"",
        b"null",
        b'"text"',
        b"\xff\xfe{}",
        json.dumps(request()).encode("utf-16"),
        b"{" + b'"a":[' * 100_000,
        json.dumps(request(extra=[[[]]])).encode().replace(b"[[[]]]", b"[" * 40 + b"]" * 40),
        json.dumps(request(text="x" * 1_100_000)).encode(),
        json.dumps(request(extra=0)).encode().replace(b'"extra": 0', b'"extra": NaN'),
        json.dumps(request(extra=0)).encode().replace(b'"extra": 0', b'"extra": 1e999'),
        json.dumps(request(extra=0)).encode().replace(b'"extra": 0', b'"extra": ' + b"9" * 5_000),
        json.dumps(request()).encode().replace(b'"attempt": 1', b'"attempt": 1, "attempt": 2'),
        json.dumps(request(note="\ud800")).encode(),
        json.dumps(request(note="a\x00b")).encode(),
        json.dumps(request(deadlineAt="2026-02-30T00:00:00Z")).encode(),
        json.dumps(request(requestId=REQUEST_ID + "\n")).encode(),
    ],
    ids=lambda body: body[:12].decode("ascii", "replace"),
)
def test_a_hostile_body_is_an_invalid_message_and_nothing_worse(body: bytes) -> None:
    assert refused(body).reason


@pytest.mark.spec("G5")
@pytest.mark.parametrize(
    "body",
    [
        json.dumps(request(payload={})).encode(),
        json.dumps(request()).encode()[:-30],
        json.dumps(request(text="x" * 1_100_000)).encode(),
        json.dumps(request(note="a\x00b")).encode(),
        json.dumps(request(extra=0)).encode().replace(b'"extra": 0', b'"extra": NaN'),
        json.dumps(request()).encode() + b"\xff",
    ],
    ids=["wrong payload", "cut", "huge", "NUL", "NaN", "not UTF-8"],
)
def test_the_ids_of_a_bad_message_are_read_where_they_can_be(body: bytes) -> None:
    error = refused(body)
    assert (error.request_id, error.submission_id) == (REQUEST_ID, "sub-1")


@pytest.mark.spec("G5", "000.16")
@pytest.mark.parametrize(
    ("came", "named"),
    [("no-uuid", "no-uuid"), (7, "7"), (True, None), ("", None), (["x"], None), ("x" * 201, None), ("a\x00b", None)],
)
def test_an_id_is_named_as_it_came_and_null_where_there_is_none(came: object, named: str | None) -> None:
    error = refused(json.dumps(request(requestId=came, submissionId=came)).encode())
    assert (error.request_id, error.submission_id) == (named, named)
    cut = refused(b'{"requestId": "no-uuid", "submissionId": "s-1", "cut')
    assert (cut.request_id, cut.submission_id) == ("no-uuid", "s-1")


@pytest.mark.spec("G5")
def test_an_id_that_is_quoted_in_a_text_is_none() -> None:
    quoted = json.dumps({"text": f'"requestId": "{REQUEST_ID}"'}).encode() + b"!"
    assert refused(quoted).request_id is None


@pytest.mark.spec("G5", "K7")
def test_the_reason_says_where_but_never_quotes_the_content() -> None:
    secret = "my private essay"
    error = refused(json.dumps(request(skill=secret, userId=[secret])).encode())
    assert secret not in error.reason
    error = refused(json.dumps(request(payload={"text": [secret], "taskType": secret, "questionId": "q"})).encode())
    assert "payload.text" in error.reason and "payload.taskType" in error.reason and secret not in error.reason


@pytest.mark.spec("G5")
@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_but_invalid_message(body: bytes) -> None:
    with pytest.raises(InvalidMessage):
        contract.parse_request(body)


@pytest.mark.spec("G4")
def test_two_spellings_of_one_uuid_are_one_request() -> None:
    lower = contract.parse_request(json.dumps(request()).encode())
    upper = contract.parse_request(json.dumps(request(requestId=REQUEST_ID.upper())).encode())
    assert lower.dedup_key == upper.dedup_key
    assert upper.request_id == REQUEST_ID.upper(), "the sender finds its own spelling in the callback"


@pytest.mark.spec("G2", "002.4", "002.5")
def test_a_request_built_by_the_main_app_is_read_back_the_same() -> None:
    deadline = (NOW + timedelta(minutes=20)).astimezone(timezone(timedelta(hours=7)))
    payload = {
        "audioUrl": "https://files.example/a.ogg",
        "durationSeconds": 30,
        "questionId": "s-1",
        "part": 3,
    }
    built = messages.request(
        REQUEST_ID, "sub-1", "u-1", attempt=1, deadline_at=deadline, skill="speaking", payload=payload
    )
    read = contract.parse_request(built.body())
    assert isinstance(read, contract.SpeakingRequest) and read == built
    assert json.loads(built.body())["deadlineAt"] == "2026-03-01T09:20:00.000Z"
    assert read.deadline_ms == int((NOW + timedelta(minutes=20)).timestamp() * 1_000)
    with pytest.raises(ValidationError):
        messages.request(REQUEST_ID, "s", "u", attempt=1, deadline_at=NOW, skill="writing", payload=payload)


def callbacks() -> list[contract.Callback]:
    ids: dict[str, Any] = {"event_id": EVENT_ID, "event_at": NOW}
    return [
        messages.progress(REQUEST_ID, "sub-1", **ids, status="GRADING", progress=0.5),
        messages.completed(REQUEST_ID, "sub-1", **ids, result=messages.result(6.5, "B2", 78)),
        messages.error(
            REQUEST_ID, None, **ids, type="INVALID_INPUT", code="INVALID_INPUT", message="m", retryable=False
        ),
    ]


@pytest.mark.spec("G18", "002.11", "002.12", "002.16")
@pytest.mark.parametrize("built", callbacks(), ids=lambda built: built.kind)
def test_every_callback_we_build_fits_the_published_schema(built: contract.Callback) -> None:
    jsonschema.Draft202012Validator(published_schema("callback")).validate(json.loads(built.body()))
    assert contract.parse_callback(built.body()) == built


@pytest.mark.spec("G10", "002.13")
@pytest.mark.parametrize(
    ("confidence", "priority", "audit"),
    [
        (0, "Critical", False),
        (49, "Critical", False),
        (50, "High", False),
        (69, "High", False),
        (70, "Medium", False),
        (84, "Medium", False),
        (85, None, True),
        (89, None, True),
        (90, None, False),
        (100, None, False),
    ],
)
def test_confidence_decides_review_priority_and_audit(confidence: int, priority: str | None, audit: bool) -> None:
    result = messages.result(6.5, "B2", confidence)
    assert result.review_priority == priority
    assert result.review_required is (priority is not None)
    assert result.audit_flag is audit
    wire = json.loads(messages.completed(REQUEST_ID, "s", event_id=EVENT_ID, event_at=NOW, result=result).body())
    assert ("reviewPriority" in wire["data"]["result"]) is (priority is not None)


@pytest.mark.spec("G10", "002.13")
def test_a_signal_raises_the_audit_flag_at_any_confidence() -> None:
    assert messages.result(9.0, "C1", 95, signals=("prompt_injection",)).audit_flag


@pytest.mark.spec("G11")
def test_what_a_foreign_service_adds_to_its_result_is_kept() -> None:
    body = (CONTRACT / "examples/valid/grading.callback.completed-with-foreign-rubric.json").read_bytes()
    callback = contract.parse_callback(body)
    assert isinstance(callback, contract.CompletedCallback)
    kept = callback.data.result.model_dump(by_alias=True)
    assert kept["rubricVersion"] == 3 and kept["criteria"] == [{"name": "Fluency", "mark": "4/5"}]


@pytest.mark.spec("G5")
@pytest.mark.parametrize(
    ("original", "encoding"),
    [
        (b'{"requestId": 1}', "json"),
        (b"hello", "text"),
        (b'{"a": 1, "a": 2}', "text"),
        (b"\xff\x00", "base64"),
        (b"x" * 1_500_000, "text"),
    ],
    ids=["json", "text", "duplicate keys", "binary", "huge"],
)
def test_a_dead_letter_has_every_required_field_and_the_original(original: bytes, encoding: str) -> None:
    letter = messages.dead_letter(
        None, None, failure_reason="r", attempts_made=0, last_error="e", timestamp=NOW, original=original
    )
    wire = json.loads(letter.body())
    required = {"requestId", "submissionId", "failureReason", "attemptsMade", "lastError", "timestamp"}
    assert required | {"originalMessage"} <= wire.keys()
    assert wire["requestId"] is None and wire["originalEncoding"] == encoding
    assert wire["originalBytes"] == len(original)
    assert wire["originalTruncated"] is (len(original) > 1_048_576)
    jsonschema.Draft202012Validator(published_schema("dlq")).validate(wire)
    assert contract.parse_dead_letter(letter.body()) == letter


@pytest.mark.spec("G5", "002.1", "002.2")
def test_the_topology_is_the_specification_s() -> None:
    assert (contract.EXCHANGE, contract.EXCHANGE_TYPE) == ("vstep.exchange", "direct")
    assert contract.QUEUES == ("grading.request", "grading.callback", "grading.dlq")
    assert contract.CONTENT_TYPE == "application/json; charset=utf-8"
