"""From which number on a relay looks for what is pending of a busy aggregate: below it nothing can enter any more."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from holdfast.core.aggregates import BUSY, FOLLOWED_MAX, KNOWN_MAX, LOOK_MS, AggregateLook, Aggregates

pytestmark = pytest.mark.spec("K10", "K21")


class Relay:
    """A process that publishes messages of aggregates, and looks now and then."""

    def __init__(self, *names: str, last: int = 100) -> None:
        self.aggregates = Aggregates()
        self.now = 0
        for name in names or ("a",):
            self.claim(name, last, BUSY)

    def claim(self, name: str, last: int, times: int = 1) -> None:
        self.aggregates.claimed([(name, last)] * times)

    def look(self, first: Mapping[str, int], *writers: str) -> Mapping[str, int]:
        """One look that finds this, and from where on claims begin after it."""
        self.claim("a", 0)
        self.now += LOOK_MS
        asked = self.aggregates.begin_look(self.now)
        self.aggregates.end_look(asked, AggregateLook(frozenset(writers), first), self.now, self.now)
        return dict(self.aggregates.begins)


def test_what_two_looks_have_found_counts_while_nobody_else_writes() -> None:
    relay = Relay()
    assert relay.look({"a": 70}) == {}
    assert relay.look({"a": 90}) == {"a": 70}
    assert relay.look({"a": 95}) == {"a": 90}
    assert relay.look({}) == {"a": 95}, "all is published"
    assert relay.look({"a": 120}) == {"a": 100}, "up to the last that was claimed"


def test_a_number_counts_once_every_transaction_that_was_writing_after_it_was_found_has_ended() -> None:
    relay = Relay()
    assert relay.look({"a": 70}, "before") == {}
    assert relay.look({"a": 80}, "one", "two") == {}
    assert relay.look({"a": 85}, "two", "three") == {}
    assert relay.look({"a": 90}, "three", "four") == {"a": 70}, "'three' began after 70 was found"
    assert relay.look({"a": 95}, "four") == {"a": 70}
    assert relay.look({"a": 97}, "five") == {"a": 70}
    assert relay.look({"a": 99}, "six") == {"a": 90}


def test_what_was_committed_late_is_not_passed_over() -> None:
    relay = Relay()
    relay.look({"a": 70}, "late")
    assert relay.look({"a": 80}, "late") == {}
    assert relay.look({"a": 41}) == {"a": 41}
    assert relay.look({"a": 41}) == {"a": 41}


def test_a_look_is_due_for_busy_aggregates_and_for_one_look_at_a_time() -> None:
    aggregates = Aggregates()
    aggregates.claimed([("a", 1)] * (BUSY - 1))
    assert not aggregates.is_any_busy and aggregates.begin_look(0) == {}
    aggregates = Relay().aggregates
    asked = aggregates.begin_look(0)
    assert asked == {"a": 0}
    aggregates.claimed([("a", 1)])
    assert aggregates.begin_look(60_000) == {}, "another is under way"
    aggregates.end_look(asked, AggregateLook(frozenset(), {}), 0, 40)
    assert aggregates.begin_look(839) == {}, "twenty times what the last one took"
    assert aggregates.begin_look(840) == {"a": 0}


def test_what_breaks_off_forgets_everything_and_the_look_that_was_under_way() -> None:
    relay = Relay()
    relay.look({"a": 70})
    assert relay.look({"a": 70}) == {"a": 70}
    relay.claim("a", 100)
    asked = relay.aggregates.begin_look(relay.now + LOOK_MS)
    with pytest.raises(ZeroDivisionError), relay.aggregates.unless_broken_off():
        raise ZeroDivisionError
    relay.claim("a", 100, BUSY)
    relay.look({"a": 70})
    relay.aggregates.end_look(asked, AggregateLook(frozenset(), {"a": 70}), 0, 0)
    assert relay.aggregates.begins == {}


def test_no_more_is_remembered_than_is_of_use() -> None:
    names = [f"n{number}" for number in range(2 * FOLLOWED_MAX)]
    relay = Relay(*names)
    for _ in range(6):
        for name in names:
            relay.claim(name, 100)
        begins = relay.look({})
        assert len(begins) <= FOLLOWED_MAX
    assert len(begins) == FOLLOWED_MAX
    relay.aggregates.claimed((f"m{number}", 1) for number in range(2 * KNOWN_MAX))
    assert len(relay.aggregates._known) == KNOWN_MAX
