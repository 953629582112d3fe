"""Whose turn it is: tables of keys, of what each may start, and of how the room is shared."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.turns import NOBODY, KeyUse, Limit, Share, TurnRules, Turns, allowed, share, turn_at

RULES = TurnRules({"big": 3}, {})


@pytest.mark.spec("K25")
@pytest.mark.parametrize(
    ("by", "input", "owner", "key"),
    [
        ("owner", {}, "ann", "ann"),
        ("owner", {}, None, NOBODY),
        ("owner", {}, "", NOBODY),
        ("owner", {"owner": "bea"}, None, "bea"),
        ("owner", {"owner": "bea"}, "ann", "ann"),
        ("owner", {"owner": 7}, "", "7"),
        ("owner", {"owner": {"name": "bea"}}, None, NOBODY),
        ("owner", {"owner": True}, None, NOBODY),
        ("team", {"team": "red"}, "ann", "red"),
        ("team", {"team": 7}, "ann", "7"),
        ("team", {"team": ""}, "ann", NOBODY),
        ("team", {}, "ann", NOBODY),
    ],
)
def test_a_job_waits_under_the_key_that_turns_go_by(by: str, input: Any, owner: str | None, key: str) -> None:
    assert Turns(by).key_of("k", input, owner) == key


@pytest.mark.spec("K25")
@pytest.mark.parametrize("value", [True, 1.5, ["a"], "x" * 1_000, "two\nlines"])
def test_what_is_no_short_text_is_no_key(value: object) -> None:
    with pytest.raises(ValueError, match="the field 'team', which turns go by,"):
        Turns("team").key_of("k", {"team": value}, None)


@pytest.mark.spec("K25")
def test_a_key_of_a_kind_with_a_limit_is_its_own_and_its_starts_are_dated() -> None:
    limit = Limit("owner", at_once=2)
    plain, limited = Turns("owner").key_of("k", {}, "ann"), Turns("owner", limit=limit).key_of("k", {}, "ann")
    rules = TurnRules({"ann": 5}, {"k": limit})
    assert plain != limited and (rules.weight(plain), rules.weight(limited)) == (5, 5)
    assert (rules.limit(plain), rules.limit(limited)) == (None, limit)
    assert (turn_at(plain, 9), turn_at(limited, 9)) == (None, 9)


@pytest.mark.spec("K25")
@pytest.mark.parametrize(
    ("limit", "begun", "number"),
    [
        (None, KeyUse(99, 99), 10),
        (Limit("owner", at_once=3), None, 3),
        (Limit("owner", at_once=3), KeyUse(2, 99), 1),
        (Limit("owner", at_once=3), KeyUse(4, 0), 0),
        (Limit("owner", per_minute=5), KeyUse(99, 3), 2),
        (Limit("owner", at_once=4, per_minute=5), KeyUse(3, 3), 1),
        (Limit("owner", at_once=99), KeyUse(0, 0), 10),
    ],
)
def test_a_key_may_start_as_many_as_its_limit_leaves(limit: Limit | None, begun: KeyUse | None, number: int) -> None:
    assert allowed(limit, begun, 10) == number


@pytest.mark.spec("K25")
@pytest.mark.parametrize(
    ("keys", "most", "room", "owed", "shared"),
    [
        ("a b", {"a": 9, "b": 9}, 4, 0, Share({"a": 2, "b": 2}, "b", 0)),
        ("a b", {"a": 1, "b": 9}, 4, 0, Share({"a": 1, "b": 3}, "b", 0)),
        ("big b", {"big": 9, "b": 9}, 4, 0, Share({"big": 3, "b": 1}, "b", 0)),
        ("big b", {"big": 9, "b": 9}, 2, 0, Share({"big": 2}, "big", 1)),
        ("big b", {"big": 9, "b": 9}, 2, 1, Share({"big": 1, "b": 1}, "b", 0)),
        ("a b", {"a": 0, "b": 1}, 4, 0, Share({"b": 1}, "b", 0)),
    ],
)
def test_the_room_is_shared_by_weight_and_a_turn_that_was_cut_short_goes_on(
    keys: str, most: dict[str, int], room: int, owed: int, shared: Share
) -> None:
    assert share(keys.split(), RULES, most, room, owed) == shared
