"""Errors as a client sees them, and the guard around every request."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator

import pytest
from fastapi import FastAPI
from tests.http.conftest import Client

from holdfast import errors
from holdfast.http.json_body import DEPTH_MAX, json_complaint
from holdfast.http.problem import of_exception

HEADERS = {"Idempotency-Key": "6f1c6a9e-0f0e-4b7e-9d43-6b1f0c0d3b52"}

JSON = {**HEADERS, "Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.InvalidInput("x"), 422, "INVALID_INPUT"),
        (errors.NotFound("x"), 404, "NOT_FOUND"),
        (errors.NotAllowed("x"), 409, "NOT_ALLOWED"),
        (errors.IdempotencyConflict("k"), 409, "IDEMPOTENCY_KEY_REUSED"),
        (errors.StoreUnavailable("x"), 503, "STORE_UNAVAILABLE"),
        (errors.StoreBusy("x"), 503, "STORE_UNAVAILABLE"),
        (errors.TransportDown("x"), 503, "TRANSPORT_UNAVAILABLE"),
        (RuntimeError("x"), 500, "INTERNAL"),
    ],
)
def test_every_exception_has_its_status_and_code(error: Exception, status: int, code: str) -> None:
    problem = of_exception(error)
    assert (problem.status, problem.code) == (status, code)
    assert ("Retry-After" in (problem.headers or {})) is (status == 503)


async def test_an_unexpected_error_is_logged_and_tells_the_client_nothing(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    body = {"text": "rain", "fails": "AT_ONCE"}
    with caplog.at_level(logging.ERROR, "holdfast.http"):
        answer = await client("ann", "learner").post("/api/wishes", json=body, headers=HEADERS)
    assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL")
    assert "hunter2" not in answer.text and "Traceback" not in answer.text
    assert [record.name for record in caplog.records] == ["holdfast.http"]


async def test_a_wrong_field_is_named(client: Client) -> None:
    answer = await client("ann", "learner").post("/api/wishes", json={"text": 7}, headers=HEADERS)
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, "INVALID_INPUT", "text")
    broken = await client("ann", "learner").post("/api/wishes", content=b"{", headers=HEADERS)
    assert (broken.status_code, broken.json()["code"]) == (422, "INVALID_INPUT")


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"{", "line 1, column 2: it ends too early"),
        (b'{"text": "a",}', "line 1, column 1"),
        (b'{\n  "text": rain\n}', "line 2, column 11: expecting value"),
        (b'{"text": "a"} x', "line 1, column 15: extra data"),
        (b"{'text': 1}", "line 1, column 2: expecting property name"),
        (b'{"text": "a\n"}', "line 1, column 12: invalid control character"),
        (b"[1, 2", "line 1, column 6: it ends too early"),
    ],
)
async def test_a_body_that_is_no_json_is_told_where_it_breaks(client: Client, body: bytes, place: str) -> None:
    answer = await client("ann", "learner").post("/api/wishes", content=body, headers=JSON)
    told = answer.json()
    assert (answer.status_code, told["code"], told["field"]) == (422, "INVALID_INPUT", "body")
    assert told["detail"].startswith(f"The body is not valid JSON: {place}") and told["detail"].endswith(".")


async def test_a_body_of_another_kind_is_asked_for_as_json(client: Client) -> None:
    ann = client("ann", "learner")
    form = await ann.post("/api/wishes", data={"text": "rain"}, headers=HEADERS)
    row = await ann.post("/api/wishes", json=["rain"], headers=HEADERS)
    assert form.json()["detail"] == "Send the body as JSON, with Content-Type: application/json."
    assert row.json()["detail"] == "The body must be a JSON object."
    assert form.status_code == row.status_code == 422


async def test_a_body_that_is_no_text_is_refused_in_a_sentence(client: Client) -> None:
    answer = await client("ann", "learner").post("/api/wishes", content=b'{"text": "\xff"}', headers=JSON)
    assert answer.status_code == 400 and answer.json()["detail"].startswith("The body cannot be read: it is not JSON")


async def test_unknown_paths_and_methods_are_problems_too(client: Client) -> None:
    missing, wrong = await client().get("/nowhere"), await client().delete("/api/tickets")
    assert (missing.status_code, missing.json()["code"]) == (404, "NOT_FOUND")
    assert (wrong.status_code, wrong.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert missing.headers["content-type"] == wrong.headers["content-type"] == "application/problem+json"


async def test_every_answer_carries_the_secure_headers(client: Client) -> None:
    for path in ("/nowhere", "/openapi.json", "/a%00b"):
        headers = (await client().get(path)).headers
        assert "unsafe" not in headers["content-security-policy"]
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers


@pytest.mark.parametrize("address", ["/a%00b", "/openapi.json?x=%00"])
async def test_a_nul_in_an_address_is_refused_before_any_database_sees_it(client: Client, address: str) -> None:
    answer = await client().get(address)
    assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST")


async def chunks(size: int) -> AsyncIterator[bytes]:
    yield b'{"text": "'
    for _ in range(size // 1_000):
        yield b"a" * 1_000
    yield b'"}'


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_413_however_it_comes(client: Client, chunked: bool) -> None:
    content = chunks(1_100_000) if chunked else b'{"text": "' + b"a" * 1_100_000 + b'"}'
    headers = {"Idempotency-Key": str(uuid.uuid4()), "Content-Type": "application/json"}
    answer = await client("ann", "learner").post("/api/wishes", content=content, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")


async def test_a_route_may_allow_a_larger_body(client: Client) -> None:
    ann = client("ann", "learner")
    assert (await ann.post("/api/large", content=b"a" * 2_000_000)).json() == {"bytes": 2_000_000}
    assert (await ann.post("/api/large", content=b"a" * 3_000_001)).status_code == 413
    assert (await client().post("/api/large", content=b"a" * 3_000_001)).status_code == 401


async def test_a_multipart_body_is_limited_where_no_route_allows_more(client: Client) -> None:
    answer = await client("ann", "learner").post("/api/wishes", files={"file": b"a" * 1_100_000}, headers=HEADERS)
    assert answer.status_code == 413


def test_the_description_says_how_to_sign_in_and_what_errors_are(web: FastAPI) -> None:
    described = web.openapi()
    ticket = described["paths"]["/api/tickets"]["post"]
    assert ticket["security"] == [{"HTTPBearer": []}]
    assert list(ticket["responses"]["4XX"]["content"]) == ["application/problem+json"]
    assert "security" not in described["paths"]["/healthz"]["get"]


DEEP = {
    "lists": "[" * 65 + "]" * 65,
    "objects": '{"a":' * 500 + "1" + "}" * 500,
    "without an end": "[" * 100_000,
}
UNREADABLE = {
    **{f"deep {name}": text for name, text in DEEP.items()},
    **{f"the number {text[:9]}": text for text in ("NaN", "Infinity", "-Infinity", "1e999", "-1E+400", "9" * 400)},
    "a lone surrogate": '"\\ud800"',
    "a lone surrogate as a name": '{"\\udfff": 1}',
    "a NUL character": '"a\\u0000b"',
}


@pytest.mark.spec("K30")
@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_json_that_breaks_a_reader_is_refused_at_the_door(client: Client, name: str, encoding: str) -> None:
    """Whatever the route makes of it later: also in a field that nobody asked for."""
    body = f'{{"text": "rain", "beside": {UNREADABLE[name]}}}'.encode(encoding)
    headers = HEADERS | {"Content-Type": "application/json"}
    answer = await client("ann", "learner").post("/api/wishes", content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_INPUT")
    assert answer.json()["detail"].startswith("The body ")


@pytest.mark.spec("K30")
async def test_json_with_brackets_in_texts_and_large_values_is_let_in(client: Client) -> None:
    body = (
        b'{"text": "[[[[ \\"{{{{ NaN 1e999 \\ud83d\\ude00", "beside": [1e300, ' + b"[]," * 100 + b"9007199254740993]}"
    )
    headers = HEADERS | {"Content-Type": "application/json"}
    answer = await client("ann", "learner").post("/api/wishes", content=body, headers=headers)
    assert answer.status_code == 201, answer.text


@pytest.mark.spec("K30")
async def test_brackets_are_counted_in_every_form_of_a_body(client: Client) -> None:
    """Texts that hide them: in UTF-16 an escaped quotation mark does not end where its bytes seem to say."""
    deep = "[" * 300 + '"x"' + "]" * 300
    for body in (deep, '{"a":"\\"","b":' + deep + "}", '{"a":"\\\\","b":' + deep + "}", "[" * 300 + '"\\'):
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"):
            answer = await client("ann", "learner").post("/api/wishes", content=body.encode(encoding), headers=JSON)
            assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_INPUT")
            assert "nested deeper" in answer.text or "not written in UTF-8" in answer.text, (body[:20], encoding)
    fine = '{"text": "' + '[{\\"' * 300 + '\\\\"}'
    assert (await client("ann", "learner").post("/api/wishes", content=fine, headers=JSON)).status_code == 201


@pytest.mark.spec("K30")
@pytest.mark.parametrize("beside", ["0", "[],{}", '"]]]"', '"\\"[["', "[[[]]],[]"])
@pytest.mark.parametrize("levels, refused", [(DEPTH_MAX, False), (DEPTH_MAX + 1, True)])
def test_a_body_may_be_nested_so_deep_and_no_deeper(levels: int, refused: bool, beside: str) -> None:
    for begins, ends in (("[", "]"), ('{"[": ', "}")):
        body = f"[{beside}, {begins * (levels - 1)}1{ends * (levels - 1)}]".encode()
        assert (json_complaint(body) is not None) is refused, body[:40]
        assert (json_complaint(body.partition(b"1")[0]) is not None) is refused, "nor if it breaks off"


@pytest.mark.spec("K30")
async def test_a_header_that_two_readers_would_take_differently_is_refused(client: Client) -> None:
    """Of two one is the proxy's and the other ours: who asks, what the body is, which key it has."""
    ann = client("ann", "learner")
    given = [*HEADERS.items(), ("Authorization", ann.headers["Authorization"]), ("Content-Type", "application/json")]
    for name in ("Authorization", "authorization", "Content-Type", "Idempotency-Key", "Host", "Range", "Last-Event-ID"):
        twice = [*given, (name, "other"), (name, "other")]
        answer = await client().post("/api/wishes", content=b'{"text": "rain"}', headers=twice)
        assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST") and name.title() in answer.text
    accepted = [*given, ("Accept", "a/b"), ("Accept", "c/d")]
    assert (await client().post("/api/wishes", content=b'{"text": "rain"}', headers=accepted)).status_code == 201


@pytest.mark.parametrize(
    "body", [b"RIFF\x24\0\0\0WAVEfmt ", b"\0\0\0\x18ftypM4A ", b"ID3\x03\0\0[", b"\xff\xfb\x90\0{"]
)
def test_a_recording_that_comes_without_a_type_is_not_refused_as_json(body: bytes) -> None:
    assert json_complaint(body + b"\0" * 200) is None


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("text", ["[1]", ' {"a": 1}', '"a"', "7", " " * 5_000 + "[1]"])
def test_json_is_written_in_utf_8(text: str, encoding: str) -> None:
    assert json_complaint(text.encode(encoding)) == "is not written in UTF-8, as JSON is"
