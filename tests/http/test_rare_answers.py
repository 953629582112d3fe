"""What an answer holds in moments that are rare, told by the rule alone: headers, words, waits, what is remembered."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from fastapi import FastAPI, Request
from tests.http.wishes import SECRET

from holdfast import errors
from holdfast.core.failure import Category
from holdfast.http import auth, files, key_set, limits, metrics, oidc, pages, problem
from holdfast.http.auth import Auth, issue_token, secret_of
from holdfast.http.idempotency import parse_key
from holdfast.http.limits import Used, UserLimits
from holdfast.http.principal import Principal
from holdfast.http.problem import Problem, of_exception, response_of
from holdfast.operator.attention import AttentionNotice, Topic
from holdfast.operator.snapshot import Lane, Snapshot
from holdfast.settings import Settings

BY_HAND = "It broke with password=hunter2."
LATER = {"Retry-After": "1"}
KEY = "6f1c6a9e-0f0e-4b7e-9d43-6b1f0c0d3b52"


@pytest.mark.parametrize(
    ("error", "status", "code", "detail", "headers"),
    [
        (errors.InvalidInput("why"), 422, "INVALID_INPUT", "why", None),
        (errors.SystemAmbiguous("it", ["a"]), 409, "SYSTEM_AMBIGUOUS", None, None),
        (errors.UnknownKind("a", known=["b"]), 422, "INVALID_INPUT", None, None),
        (errors.LeaseLost("j"), 409, "NOT_ALLOWED", "Another attempt owns this job now.", None),
        (
            errors.StoreStandby(BY_HAND),
            503,
            "STORE_UNAVAILABLE",
            "The database here is a standby, which is read only.",
            LATER,
        ),
        (errors.StoreReadOnly(BY_HAND), 503, "STORE_UNAVAILABLE", "The database here is read only.", LATER),
        (errors.StoreFull(BY_HAND), 503, "STORE_UNAVAILABLE", problem.KNOWN[9][3], LATER),
        (errors.TransportDown(BY_HAND), 503, "TRANSPORT_UNAVAILABLE", problem.KNOWN[10][3], LATER),
        (
            errors.CallError.of(Category.VALIDATION, "X", BY_HAND),
            502,
            "PROVIDER_FAILED",
            "A provider behind this request failed; try again.",
            None,
        ),
        (RuntimeError(BY_HAND), 500, "INTERNAL", "Something went wrong here; it was logged.", None),
        (Problem(418, "TEA", "why", headers={"X-Tea": "green"}), 418, "TEA", "why", {"X-Tea": "green"}),
    ],
)
def test_the_whole_answer_to_an_exception(
    error: Exception, status: int, code: str, detail: str | None, headers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "holdfast.http"):
        found = of_exception(error)
    assert (found.status, found.code, found.detail, found.headers) == (status, code, detail or str(error), headers)
    logged = caplog.records
    assert len(logged) == int(status >= 500), "what is our fault is logged"
    assert "hunter2" not in "".join([found.detail, *[record.getMessage() for record in logged]])
    assert [bool(record.exc_info) for record in logged] == [status == 500 for _ in logged], "a defect with its stack"


async def test_a_problem_is_told_whole() -> None:
    answer = response_of(Problem(409, "TAKEN", "Somebody has it.", headers={"Retry-After": "7"}, by="ann"))
    assert (answer.status_code, answer.headers["retry-after"]) == (409, "7")
    assert answer.headers["content-type"] == "application/problem+json"
    text = (
        b'{"type":"about:blank","title":"Conflict","status":409,"code":"TAKEN","detail":"Somebody has it.","by":"ann"}'
    )
    assert answer.body == text
    assert b'"title":"Error"' in response_of(Problem(599, "ODD", "x")).body


@pytest.mark.parametrize(
    ("path", "root", "is_translated"),
    [
        ("/api/jobs", "", True),
        ("/api/jobs/7", "", True),
        ("/api/jobsworth", "", False),
        ("/x/api/jobs/7", "/x", True),
        ("/api/other", "", False),
    ],
)
def test_problems_are_translated_at_and_below_a_path_wherever_it_is_mounted(
    path: str, root: str, is_translated: bool, settings: Settings
) -> None:
    web = FastAPI()
    problem.install(web, [("/api/jobs", lambda given: Problem(given.status, "OWN", "theirs"))])
    answer = problem.respond(Problem(404, "NOT_FOUND", "x"), {"app": web, "path": path, "root_path": root})
    assert (b'"OWN"' in answer.body) is is_translated


async def test_a_token_has_a_length_and_those_that_are_remembered_a_number(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def padded(size: int) -> str:
        claims = {"sub": "ann", "roles": ["operator"], "exp": int(time.time()) + 60, "pad": "x" * size}
        return jwt.encode(claims, SECRET, algorithm="HS256")

    asked = Auth(settings)
    size = next(size for size in range(5_900, 6_200) if len(padded(size)) > auth.TOKEN_LENGTH_MAX)
    assert (await asked.principal(padded(size - 4))).sub == "ann"
    with pytest.raises(Problem, match="too long"):
        await asked.principal(padded(size))
    monkeypatch.setattr(auth, "KNOWN_MAX", 5)
    for number in range(12):
        await asked.principal(issue_token(SECRET, f"u{number}", ["operator"], 60))
        assert len(asked._known) <= 5


def test_of_two_who_make_a_secret_the_first_ones_stands(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path))
    first = secret_of(settings)
    auth._create(tmp_path / auth.SECRET_FILE, "the second")
    assert secret_of(settings) == first and len(first) >= 43
    assert [path.name for path in tmp_path.iterdir()] == [auth.SECRET_FILE], "nothing is left behind"


@pytest.mark.parametrize("spelled", [KEY, KEY.upper(), f'"{KEY}"', f"  {KEY} "])
def test_a_key_is_one_however_it_is_spelled(spelled: str) -> None:
    assert parse_key(spelled, required=True) == KEY


@pytest.mark.parametrize("spelled", ["x", KEY.replace("-4b7e", "-1b7e"), KEY.replace("-9d43", "-7d43"), KEY + "0"])
def test_what_is_no_fourth_kind_of_uuid_is_no_key(spelled: str) -> None:
    with pytest.raises(Problem) as refused:
        parse_key(spelled, required=False)
    assert (refused.value.status, refused.value.code) == (400, "IDEMPOTENCY_KEY_INVALID")
    assert parse_key(" ", required=False) is None


def ranged(text: str) -> list[tuple[int, int]]:
    return files.FileAnswer._parse_range_header(text, 100)


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("bytes=0-0", [(0, 1)]), ("bytes=0-98", [(0, 99)]), ("bytes=0-", [(0, 100)]), ("bytes=99-", [(99, 100)]),
        ("bytes=10-500", [(10, 100)]), ("bytes=-1", [(99, 100)]), ("bytes=-500", [(0, 100)]), ("bytes=9-8", []),
        ("bytes=-", []), ("bytes=0-1,4-5", []), ("lines=0-1", []),
    ],
)  # fmt: skip
def test_a_range_is_its_first_byte_and_the_one_behind_its_last(asked: str, part: list[tuple[int, int]]) -> None:
    assert ranged(asked) == part


@pytest.mark.parametrize("asked", ["bytes=100-", "bytes=100-200", "bytes=-0"])
def test_a_range_behind_the_end_is_refused_with_the_size(asked: str) -> None:
    with pytest.raises(Problem) as refused:
        ranged(asked)
    assert (refused.value.status, refused.value.headers) == (416, {"Content-Range": "bytes */100"})


def used(made: int, unfinished: int, first_at: int | None = None) -> Used:
    return Used(made, first_at, unfinished)


@pytest.mark.parametrize(
    ("given", "wait_s"),
    [
        (used(9, 9), None), (used(10, 0, 1_000_000), 60), (used(10, 0, 959_000), 19), (used(10, 0, 900_000), 1),
        (used(11, 0, 940_000), 1), (used(0, 20), 30), (used(10, 20, 990_500), 51),
    ],
)  # fmt: skip
def test_who_is_over_a_limit_is_told_how_long_to_wait(given: Used, wait_s: int | None) -> None:
    asked = UserLimits(per_minute=10, unfinished=20)
    if wait_s is None:
        limits.check(asked, given, 1_000_000, "wishes")
        return
    with pytest.raises(Problem) as refused:
        limits.check(asked, given, 1_000_000, "wishes")
    assert (refused.value.status, refused.value.code) == (429, "RATE_LIMITED")
    assert refused.value.headers == {"Retry-After": str(wait_s)}
    assert "wishes" in refused.value.detail


@pytest.mark.parametrize(("scheme", "secure"), [("http", False), ("https", True)])
@pytest.mark.parametrize("which", ["console", "login"])
def test_a_cookie_is_for_its_own_path_and_for_no_script(scheme: str, secure: bool, which: str) -> None:
    request = Request({"type": "http", "scheme": scheme, "path": "/", "headers": [], "root_path": "/x",
                       "server": ("h", 1), "query_string": b""})  # fmt: skip
    sites = {"console": "strict", "login": "lax"}
    cookie = (pages if which == "console" else oidc)._cookie(request)
    assert cookie == {"path": f"/x/{which}", "httponly": True, "samesite": sites[which], "secure": secure}


@pytest.mark.parametrize(
    ("table", "claim", "roles"),
    [
        ("admins=operator, *=learner", ["admins", 7], ["learner", "operator"]),
        ("admins=operator, *=learner", "admins", ["learner", "operator"]),
        ("admins=operator, *=learner", None, ["learner"]),
        ("admins=operator", ["others"], []),
        ("", ["viewer", "operator"], ["operator", "viewer"]),
    ],
)
def test_roles_follow_from_groups(table: str, claim: Any, roles: list[str]) -> None:
    settings = Settings(oidc_roles=table, oidc_roles_claim="a.groups")
    assert oidc.roles_of(settings, {"a": {"groups": claim}}) == roles
    assert oidc.roles_of(replace(settings, oidc_roles_claim="a.b.c"), {"a": "x"}) == (
        ["learner"] if "*" in table else []
    )


def test_where_a_provider_sends_people_back_is_as_the_outside_knows_it() -> None:
    def callback(settings: Settings) -> str:
        state = SimpleNamespace(state=SimpleNamespace(settings=settings))
        scope = {"type": "http", "scheme": "http", "path": "/login/oidc", "headers": [], "root_path": "/x",
                 "server": ("inside", 80), "query_string": b"", "app": state}  # fmt: skip
        return oidc._callback(Request(scope))

    assert callback(Settings(public_url="https://outside.test/")) == "https://outside.test/login/callback"
    assert callback(Settings()) == "http://inside/x/login/callback"


def test_who_may_operate_has_a_name_and_a_set_of_roles() -> None:
    assert Principal("ann", {"operator"}).may("viewer", "operator") and not Principal("ann", set()).may("operator")
    with pytest.raises(TypeError, match="a set"):
        Principal("ann", ["operator"])  # type: ignore[arg-type]


class Flaky(key_set.KeySet):
    """A key server whose answers are given."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        super().__init__("https://keys.test")
        self.answers = list(answers)

    def _fetched(self) -> dict[str, Any]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_key_server_that_failed_is_left_alone_for_a_while_and_then_trusted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("holdfast.http.key_set.time.monotonic", lambda: now[0])
    keys = Flaky(OSError("gone"), {"keys": []}, {"keys": []})
    for moment in (100.0, 104.9):
        now[0] = moment
        with pytest.raises(jwt.PyJWKClientConnectionError):
            keys.fetch_data()
        assert len(keys.answers) == 2
    now[0] = 105.0
    assert keys.fetch_data() == {"keys": []}
    assert keys.fetch_data() == {"keys": []} and not keys.answers


def test_every_gauge_of_a_scrape() -> None:
    """The age is of those that are due; a store that is away asks for a person, and is no number."""
    lanes = [Lane("wishes", "queued", 4, 9.0), Lane("wishes", "processing", 2, 77.0)]
    seen = Snapshot(1_000, lanes, 5, 6.0, {}, breakers=[], effects=[("mail", "unknown", 3)], workers_alive=7)
    asking = [AttentionNotice(Topic.UNDECLARED, "page", "2 jobs wait.", number=2, subject="wishes")]
    families = metrics._families([("well", seen, []), ("away", None, asking)])
    found = {
        (each.name.removeprefix("holdfast_"), *each.labels.values()): each.value
        for family in families
        for each in family.samples
    }
    asks = {labels: found.pop(labels) for labels in list(found) if labels[0] == "asks_for_a_person"}
    assert found == {
        ("store_up", "well"): 1, ("store_up", "away"): 0, ("workers", "well"): 7,
        ("queue_depth", "well", "wishes", "queued"): 4, ("queue_depth", "well", "wishes", "processing"): 2,
        ("queue_oldest_age_seconds", "well", "wishes"): 9, ("outbox_pending", "well"): 5,
        ("outbox_lag_seconds", "well"): 6, ("dead_letters_open", "well"): 0, ("effects", "well", "mail", "unknown"): 3,
        ("oldest_transaction_seconds", "well"): 0, ("dead_row_versions", "well"): 0,
    }  # fmt: skip
    assert asks == {("asks_for_a_person", "away", "undeclared", "page", "wishes"): 2}
