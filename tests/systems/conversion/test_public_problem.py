"""Whatever a conversion user does wrong, the answer carries one of the ten public codes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CallError, StoreUnavailable, TransportDown
from holdfast.http.problem import Problem, of_exception
from holdfast_systems.conversion.codes import Code
from holdfast_systems.conversion.public_problem import public_problem

from .place import PDF, XML, Place

TEN = {code.value for code in Code}
KEY_V1 = {"Idempotency-Key": "6fa459ea-ee8a-11e9-81b4-2a2ae2dbcce4"}

REQUESTS: list[tuple[str, str, dict[str, Any], int, str, str]] = [
    ("GET", "/api/jobs/nothing", {}, 404, "FORBIDDEN", "no such job"),
    ("GET", "/api/jobs?cursor=x", {}, 422, "GW_4XX", "INVALID_INPUT"),
    ("GET", "/api/jobs?limit=0", {}, 422, "GW_4XX", "INVALID_INPUT"),
    ("GET", "/api/jobs/a/b/c", {}, 404, "FORBIDDEN", "NOT_FOUND"),
    ("DELETE", "/api/jobs", {}, 405, "GW_4XX", "METHOD_NOT_ALLOWED"),
    ("GET", "/api/jobs/%00", {}, 400, "GW_4XX", "BAD_REQUEST"),
    ("POST", "/api/jobs", {"json": {}}, 415, "NOT_PDF", "UNSUPPORTED_MEDIA_TYPE"),
    ("POST", "/api/jobs", {"files": {"other": ("a.pdf", PDF)}}, 422, "GW_4XX", "INVALID_INPUT"),
    ("POST", "/api/jobs", {"files": {"file": ("a.pdf", PDF)}, "headers": KEY_V1}, 400, "GW_4XX", "UUID v4"),
    ("POST", "/api/jobs/0199a8a0-0000-7000-8000-000000000000/retry", {}, 404, "FORBIDDEN", "no such job"),
]


@pytest.mark.spec("C2", "001.1")
@pytest.mark.parametrize(("method", "path", "given", "status", "code", "word"), REQUESTS, ids=lambda v: str(v)[:30])
async def test_a_wrong_request_is_told_by_a_public_code(
    place: Place, method: str, path: str, given: dict[str, Any], status: int, code: str, word: str
) -> None:
    answer = await place.client().request(method, path, **given)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code)
    assert word in problem["detail"] and "\n" not in problem["detail"]


@pytest.mark.spec("C2", "001.1")
@pytest.mark.parametrize("asked", ["bytes=999999-", "bytes=x", "lines=1-2", "bytes=5-1", "bytes=0-0,1-1,2-2"])
async def test_a_result_is_whole_whatever_range_of_it_is_asked_for(place: Place, asked: str) -> None:
    job = await place.upload()
    await place.work()
    answer = await place.client().get(f"/api/jobs/{job['id']}/result", headers={"Range": asked})
    assert (answer.status_code, answer.content, answer.headers["Accept-Ranges"]) == (200, XML, "none")


@pytest.mark.spec("C2", "001.1")
async def test_no_token_and_a_wrong_one_are_forbidden(place: Place) -> None:
    for client in (place.client(None), place.client(None)):
        answer = await client.get("/api/jobs", headers={"Authorization": "Bearer nonsense"})
        assert (answer.status_code, answer.json()["code"]) == (401, "FORBIDDEN")
        assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.spec("C2", "001.1")
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (StoreUnavailable("away"), 503, "IO_ERROR"),
        (RuntimeError("a defect"), 500, "UNKNOWN"),
        (CallError.from_status(500, "down", {}, now_ms=0), 502, "GW_5XX"),
        (TransportDown("away"), 503, "IO_ERROR"),
    ],
    ids=["no database", "defect", "provider", "no broker"],
)
def test_our_own_trouble_has_a_public_code_too(error: Exception, status: int, code: str) -> None:
    public = public_problem(of_exception(error))
    assert (public.status, public.code) == (status, code)


@pytest.mark.spec("C2", "001.1")
async def test_other_paths_keep_their_own_words(place: Place) -> None:
    assert (await place.client().get("/api/jobsx")).json()["code"] == "NOT_FOUND"
    assert (await place.client().get("/api/ops/jobs")).json()["code"] == "FORBIDDEN"


@pytest.mark.spec("C2", "001.1")
@given(status=st.integers(400, 599), code=st.text(min_size=1), detail=st.text())
def test_every_problem_becomes_one_of_the_ten(status: int, code: str, detail: str) -> None:
    public = public_problem(Problem(status, code, detail, field="x"))
    assert public.code in TEN and public.status == status and public.extra == {"field": "x"}
    assert str(public.detail).startswith(detail)


@pytest.mark.spec("C2", "001.1")
def test_a_status_has_its_code() -> None:
    told = {401: "FORBIDDEN", 403: "FORBIDDEN", 404: "FORBIDDEN", 409: "NOT_READY", 410: "EXPIRED", 413: "TOO_LARGE"}
    told |= {415: "NOT_PDF", 400: "GW_4XX", 422: "GW_4XX", 429: "GW_4XX", 502: "GW_5XX", 503: "IO_ERROR"}
    told |= {504: "GW_TIMEOUT", 507: "IO_ERROR", 500: "UNKNOWN"}
    assert {status: public_problem(Problem(status, "FINER", "Why.")).code for status in told} == told
