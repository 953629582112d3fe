"""Corrections of an input, without a database: paths, differences, masked values, and where a replay begins."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.correction import (
    BadPath,
    StageInput,
    changed_fields,
    changes,
    keep_masked,
    replay_start,
    unknown_field,
    value_of_text,
    with_values,
)
from holdfast.core.redact import MASK, redact

ORDER: dict[str, Any] = {
    "title": "a",
    "amount": 7,
    "to": [{"address": "ada@example.test", "required": True}, {"address": "bob@example.test", "required": False}],
    "api_key": "sk-live-51HxAbCdEfGhIjKlMnOpQrStUv",
    "note": None,
}
pytestmark = pytest.mark.spec("K8", "004.13")


def test_values_are_set_by_their_paths_and_nothing_else_moves() -> None:
    after = with_values(ORDER, {"title": "b", "to.1.address": "cy@example.test", "to.2": {"address": "dan"}})
    assert after["title"] == "b" and [one["address"] for one in after["to"]][1:] == ["cy@example.test", "dan"]
    assert ORDER["title"] == "a" and len(ORDER["to"]) == 2, "the original is not touched"
    assert [change[:1] for change in changes(ORDER, after)] == [("title",), ("to.1.address",), ("to.2",)]
    assert changed_fields(ORDER, after) == {"title", "to"}


def test_an_element_of_a_list_is_replaced_or_comes_at_its_end() -> None:
    assert with_values({"tags": ["a", "b", "e"]}, {"tags.1": "c", "tags.3": "d"}) == {"tags": ["a", "c", "e", "d"]}


@pytest.mark.parametrize(
    "path", ["", "to..address", "to.9.address", "to.x", "title.inner", "nobody.home", "to.-1", "to.3", "to.4"]
)
def test_a_path_that_leads_nowhere_is_refused(path: str) -> None:
    with pytest.raises(BadPath):
        with_values(ORDER, {path: 1})


def test_a_difference_shows_addresses_and_hides_secrets() -> None:
    after = with_values(ORDER, {"to.0.address": "eve@example.test", "api_key": "sk-live-99HxAbCdEfGhIjKlMnOpQrStUv"})
    told = {change.path: (change.before, change.after) for change in changes(ORDER, after)}
    assert told == {"to.0.address": ("ada@example.test", "eve@example.test"), "api_key": (MASK, MASK)}
    assert changes({"a": 1}, {"b": 1})[0] == ("a", 1, "(absent)")
    assert changes({"a": 1}, {"a": True}) and not changes({"a": [1, 2]}, {"a": [1, 2]})


def test_what_comes_back_masked_stays_as_it_was() -> None:
    shown = {**ORDER, "api_key": MASK, "title": "b"}
    assert keep_masked(shown, ORDER) == {**ORDER, "title": "b"}
    assert keep_masked({**ORDER, "api_key": "another"}, ORDER)["api_key"] == "another"


def test_a_field_that_the_type_dropped_is_named() -> None:
    assert unknown_field({"title": "b", "titel": "c"}, {"title": "b"}, {"title": "a"}) == "titel"
    assert unknown_field({"to": [{"adress": 1}]}, {"to": [{"address": 2}]}, {}) == "to.0.adress"
    assert unknown_field({"old": 1, "title": "b"}, {"title": "b"}, {"old": 1}) is None


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("title", "7", "7"),
        ("amount", "7", 7),
        ("amount", "seven", "seven"),
        ("note", "true", "true"),
        ("note", '{"a": 1}', {"a": 1}),
        ("to", '["x"]', ["x"]),
        ("to.0.required", "false", False),
        ("absent", "null", "null"),
    ],
)
def test_a_typed_word_means_what_stands_there_now(path: str, text: str, value: Any) -> None:
    assert value_of_text(ORDER, path, text) == value


READS = [
    StageInput("fetch", frozenset({"source"})),
    StageInput("llm", frozenset({"source", "title"})),
    StageInput("notify", None),
]


@pytest.mark.parametrize(
    ("failed", "changed", "start"),
    [
        ("notify", {"to"}, "notify"),
        ("notify", {"title"}, "llm"),
        ("notify", {"title", "source"}, "fetch"),
        ("llm", {"title"}, "llm"),
        ("llm", {"source"}, "fetch"),
        ("fetch", {"to"}, "fetch"),
        ("gone", {"to"}, "fetch"),
        ("notify", {""}, "fetch"),
    ],
)
def test_a_replay_begins_where_the_input_has_changed(failed: str, changed: set[str], start: str) -> None:
    assert replay_start(READS, failed, frozenset(changed)) == start


def test_a_stage_that_does_not_say_what_it_reads_is_run_again() -> None:
    stages = [StageInput("read", None), StageInput("ask", None)]
    assert replay_start(stages, "ask", frozenset({"x"})) == "read"


@pytest.mark.spec("K8")
def test_what_is_added_to_a_list_with_masked_values_is_kept() -> None:
    original = {"hosts": [{"password": "hunter2-hunter2"}]}
    shown = redact(original, emails=False)
    assert isinstance(shown, dict)
    given = {"hosts": [*shown["hosts"], {"password": "another"}]}
    assert keep_masked(given, original) == {"hosts": [{"password": "hunter2-hunter2"}, {"password": "another"}]}
    assert keep_masked({"hosts": []}, original) == {"hosts": []}
