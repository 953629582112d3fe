"""Redaction of values and exceptions: a planted secret does not come out, whatever it is wrapped in."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.redact import allow, redact, redact_stack


@pytest.mark.spec("K7", "K17")
@pytest.mark.parametrize(
    "key",
    [
        "password",
        "Password",
        "DB_PASSWORD",
        "user-pass-word",
        "api_key",
        "Api-Key",
        "x.api.key",
        "secret",
        "clientSecret",
        "accessToken",
        "Authorization",
        "Set-Cookie",
        "private_key",
        "credentials",
        "pwd",
        "user_pwd",
        "auth",
        "pin",
        "SSN",
    ],
)
def test_everything_under_a_telling_key_is_masked(key: str) -> None:
    for value in ("weak", 1234, ["weak"], {"inner": "weak"}, b"weak"):
        assert redact({key: value}) == {key: "[redacted]"}
    assert redact({key: None, "n": 1}) == {key: None, "n": 1}


@pytest.mark.spec("K7")
def test_what_is_no_secret_passes_unchanged() -> None:
    value = {
        "author": "Bob",
        "key": "digest:1",
        "idempotency_key": "a-b",
        "max_tokens": 512,
        "usage": {"total_tokens": 7},
        "pinned": True,
        "rate": 0.5,
        "at": None,
        5: ("a", ["b"]),
    }
    assert redact(value) == value


class Colour(Enum):
    RED = "red"


@dataclass
class Login:
    user: str
    password: str
    extra: list[str] = field(default_factory=list)


@pytest.mark.spec("K7")
def test_other_types_become_plain_values() -> None:
    moment = datetime(2030, 1, 2, tzinfo=UTC)
    uid = UUID(int=5)
    assert redact([moment, uid, Decimal("1.5"), Colour.RED, b"raw"]) == [
        str(moment),
        str(uid),
        "1.5",
        "red",
        "raw",
    ]
    assert redact({1}) == [1]
    assert redact(Login("bob", "weak")) == {"user": "bob", "password": "[redacted]", "extra": []}
    assert redact(object()) == "<object>"


@pytest.mark.spec("K7")
def test_pairs_and_named_values_count_as_keys() -> None:
    assert redact([("Authorization", "weak"), ("Accept", "x")]) == [("Authorization", "[redacted]"), ("Accept", "x")]
    assert redact([[b"x-api-key", b"weak"]]) == [["x-api-key", "[redacted]"]]
    assert redact({"name": "DB_PASSWORD", "value": "weak"}) == {"name": "DB_PASSWORD", "value": "[redacted]"}
    assert redact({"name": "COLOUR", "value": "red"}) == {"name": "COLOUR", "value": "red"}


@pytest.mark.spec("K7")
def test_keys_that_hold_secrets_are_masked_and_kept_apart() -> None:
    assert redact({"a@x.com": 1, "b@x.com": 2}) == {"[email]": 1, "[email]#2": 2}
    assert redact({"a@x.com": "b@y.org"}, emails=False) == {"a@x.com": "b@y.org"}


@pytest.mark.spec("K7")
def test_a_key_that_is_one_word_is_masked_in_values_and_keys() -> None:
    planted = "ghp_" + "16C7e42F292c"
    assert redact([planted, {planted: 1}]) == ["[redacted]", {"[redacted]": 1}]
    assert redact([1, planted]) == [1, "[redacted]"]


@pytest.mark.spec("K7")
def test_cycles_depth_and_width_are_bounded() -> None:
    loop: dict[str, object] = {}
    loop["again"] = [loop, loop]
    assert "[cut]" in json.dumps(redact(loop))
    wide = redact(list(range(50_000)))
    assert isinstance(wide, list) and len(wide) <= 10_001 and wide[-1] == "[cut]"
    many = redact({str(n): n for n in range(50_000)})
    assert isinstance(many, dict) and len(many) <= 10_001 and many["[cut]"] == "[cut]"
    deep: object = "core"
    for _ in range(16):
        deep = [deep]
    assert "core" in str(redact(deep))
    deep = [deep]
    assert "core" not in str(redact(deep)) and "[cut]" in str(redact(deep))


Wrap = Callable[[str], object]
WRAPS: list[Wrap] = [
    lambda secret: {"password": secret},
    lambda secret: {"nested": {"api-key": [secret]}},
    lambda secret: [("Authorization", secret)],
    lambda secret: f"password={secret}",
    lambda secret: f'{{"token":"{secret}"}}',
    lambda secret: f"https://bob:{secret}@host/",
    lambda secret: f"Authorization: Bearer {secret}",
    lambda secret: json.dumps(json.dumps({"password": secret})),
    lambda secret: Login("bob", secret),
    lambda secret: {f"token={secret}": 1},
    lambda secret: {"name": "SECRET", "value": secret},
    lambda secret: f"{secret}@example.com",
    lambda secret: f"password={secret}".encode(),
]
OUTER: list[Callable[[object], object]] = [
    lambda value: [value],
    lambda value: (1, value, "x"),
    lambda value: {"payload": value},
    lambda value: {"a": {"b": value}, "c": 1},
    lambda value: Login("bob", "x", [value]),  # type: ignore[list-item]
    lambda value: json.dumps(value) if isinstance(value, str) else [value],
]
canaries = st.text("abcdefghijkmnopqrstuvwxyzABCDEF0123456789", min_size=6, max_size=40).map("CaNaRy".__add__)


@pytest.mark.spec("K7", "K17")
@given(canaries, st.sampled_from(WRAPS), st.lists(st.sampled_from(OUTER), max_size=5))
def test_a_planted_secret_survives_in_no_nesting(
    canary: str, wrap: Wrap, outer: list[Callable[[object], object]]
) -> None:
    value = wrap(canary)
    for around in outer:
        value = around(value)
    assert canary not in repr(redact(value))
    assert canary not in repr(allow({"kept": value, "dropped": canary}, {"kept"}))


@pytest.mark.spec("K7")
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(), st.lists))
def test_redact_takes_any_value(value: object) -> None:
    redact(value)


@pytest.mark.spec("K7")
def test_allow_keeps_the_named_fields_and_fingerprints_the_rest() -> None:
    message = {"requestId": "r-1", "note": "token=abc to a@b.com", "text": "my essay", "n": [1, {"b": 1, "a": 2}]}
    clean = allow(message, {"requestId", "note", "absent"})
    assert clean["requestId"] == "r-1"
    assert clean["note"] == "token=[redacted] to [email]"
    assert clean["text"] == {"$redacted": "sha256:5bf8a55eba9e", "len": 8}
    assert clean["n"] == allow({"n": [1, {"a": 2, "b": 1}]}, ())["n"]
    assert clean["n"] != allow({"n": [1, {"a": 2, "b": 3}]}, ())["n"]
    assert allow({"password": "weak"}, {"password"}) == {"password": "[redacted]"}


@pytest.mark.spec("K7")
def test_allow_fingerprints_what_json_cannot_hold() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert allow({"raw": b"abc"}, ())["raw"] == allow({"raw": "abc"}, ())["raw"]
    for odd in (loop, {1: "a", "b": 2}, object, b"\xff\x00", "\ud800"):
        assert set(allow({"odd": odd}, ())["odd"]) == {"$redacted", "len"}  # type: ignore[call-overload]


def _raise_chain() -> None:
    try:
        local_secret = "planted-local"
        raise KeyError(f"password={local_secret}-in-message")
    except KeyError as inner:
        raise RuntimeError("could not log in as bob@example.com") from inner


def _caught(run: Callable[[], object]) -> BaseException:
    try:
        run()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.spec("K7")
def test_a_stack_names_types_messages_and_frames_and_nothing_else() -> None:
    stack = redact_stack(_caught(_raise_chain))
    lines = stack.splitlines()
    assert lines[0] == "RuntimeError: could not log in as [email]"
    assert any(line.startswith("  core/test_redact.py:") and line.endswith(" _raise_chain") for line in lines)
    assert any(line.startswith("caused by: KeyError: 'password=[redacted]") for line in lines)
    assert "planted-local" not in stack and "raise " not in stack and "/work" not in stack
    assert all(line.count("/") <= 1 for line in lines)


@pytest.mark.spec("K7")
def test_a_stack_follows_context_unless_it_is_suppressed() -> None:
    def handling() -> None:
        try:
            raise ValueError("first")
        except ValueError:
            raise TypeError("second")  # noqa: B904

    def suppressed() -> None:
        try:
            raise ValueError("first")
        except ValueError:
            raise TypeError("second") from None

    assert "while handling: ValueError: first" in redact_stack(_caught(handling))
    assert "first" not in redact_stack(_caught(suppressed))


@pytest.mark.spec("K7")
def test_a_stack_is_bounded() -> None:
    def down(levels: int) -> None:
        if levels == 0:
            raise ValueError("long " * 10_000)
        down(levels - 1)

    error = _caught(lambda: down(50))
    stack = redact_stack(error, limit=3)
    assert stack.count("\n  ") == 3 and len(stack) < 2_500
    assert stack.count("\n  ") == stack.count(" test_a_stack_is_bounded.<locals>.down")  # the innermost ones
    error.__cause__ = error
    assert redact_stack(error).count("ValueError") == 1
    chained: BaseException = ValueError("0")
    for number in range(1, 30):
        chained.__cause__, chained = None, ValueError(str(number))
    tip = chained = ValueError("tip")
    for _ in range(30):
        chained.__cause__ = chained = ValueError("more")
    assert redact_stack(tip).count("ValueError") == 10


@pytest.mark.spec("K7")
def test_a_stack_shows_the_members_of_a_group_and_survives_a_broken_message() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    stack = redact_stack(ExceptionGroup("two", [ValueError("token=abc"), Mute()]))
    assert "one of the group: ValueError: token=[redacted]" in stack
    assert f"{__name__}." in stack and "Mute: (its message cannot be read)" in stack
    assert redact_stack(ValueError()) == "ValueError"
