"""Floors: how far a scan has come, what lowers it, when the look from the bottom comes round."""

from __future__ import annotations

import pytest

from holdfast.core.floor import BOTTOM, LOOK_MS, SLACK_MS, Claiming, Floor, Floors, Lanes, Rhythm, Seen, reached

pytestmark = pytest.mark.spec("K21")
A, B, C = ("q", 0), ("q", 1), ("q", 2)
NOW = 1_000_000


def end(lanes: Lanes, claiming: Claiming, reached: Floors, entered: Floors, now: int) -> None:
    claiming.reached, claiming.entered = reached, entered
    lanes.end(claiming, now)


def test_lanes_that_gave_all_they_had_start_near_now_and_the_one_that_was_cut_goes_on() -> None:
    seen = {A: Seen(A, 3, 500, None), B: Seen(B, 7, 900, None)}
    assert reached([A, B, C], seen, 10, NOW) == {A: NOW - SLACK_MS, B: 900}, "the third was not looked at"
    assert reached([A, B, C], seen, 11, NOW) == dict.fromkeys([A, B, C], NOW - SLACK_MS)


def test_a_row_that_was_left_stays_above_the_floor() -> None:
    seen = {A: Seen(A, 3, 900, 400)}
    assert reached([A], seen, 3, NOW) == {A: 400}
    assert reached([A], seen, 9, NOW) == {A: 400}


def test_a_floor_is_not_raised_over_a_row_that_entered_meanwhile() -> None:
    lanes = Lanes()
    end(lanes, lanes.begin(NOW), {A: 100}, {}, NOW)
    slow = lanes.begin(NOW)
    quick = lanes.begin(NOW)
    end(lanes, quick, {A: 300}, {A: 50}, NOW)
    assert lanes.floors == {A: 50}
    end(lanes, slow, {A: 400}, {}, NOW)
    assert lanes.floors == {A: 50}, "the slow one began before the row was there"
    end(lanes, lanes.begin(NOW), {A: 400}, {}, NOW)
    assert lanes.floors == {A: 400}


def test_a_floor_is_not_raised_over_what_a_look_has_reached_meanwhile() -> None:
    """A look that finds more than it takes says with what it reached that more lies there; whoever scanned beside it,
    from higher up or before those rows were committed, has not seen them."""
    lanes = Lanes()
    end(lanes, lanes.begin(NOW), {A: 100, B: 100}, {}, NOW)
    beside = lanes.begin(NOW)
    look = lanes.begin(NOW + LOOK_MS)
    assert look.looks_since is not None
    end(lanes, look, {A: 50, B: 150}, {}, NOW + LOOK_MS)
    end(lanes, beside, {A: 300, B: 300}, {}, NOW + LOOK_MS)
    assert lanes.floors == {A: 50, B: 150}
    end(lanes, lanes.begin(NOW + LOOK_MS), {A: 300, B: 300}, {}, NOW + LOOK_MS)
    assert lanes.floors == {A: 300, B: 300}, "whoever begins after the look starts where it ended"


def test_the_floor_of_a_step_is_not_raised_over_what_a_look_or_an_error_has_left() -> None:
    floor: Floor[int] = Floor(60_000)
    now = NOW
    with floor.scan(lambda: now) as scan:
        scan.reached(100)
    with floor.scan(lambda: now) as beside:
        now += 60_000
        with floor.scan(lambda: now) as look:
            assert look.start is None
            look.reached(50)
        beside.reached(300)
    assert floor.at == 50
    with floor.scan(lambda: now) as beside:
        with pytest.raises(ValueError), floor.scan(lambda: now):
            raise ValueError
        beside.reached(300)
    assert floor.at is None, "nobody knows what was written"


def test_an_error_forgets_every_floor_and_whoever_was_under_way() -> None:
    lanes = Lanes()
    end(lanes, lanes.begin(NOW), {A: 100}, {}, NOW)
    under_way = lanes.begin(NOW)
    with pytest.raises(ValueError), lanes.claim(lambda: NOW):
        raise ValueError
    end(lanes, under_way, {A: 400}, {}, NOW)
    assert lanes.floors == {}
    with lanes.claim(lambda: NOW) as claiming:
        assert claiming.looks_since == NOW
        claiming.reached = {A: 400}
    assert lanes.floors == {A: 400}


def test_the_look_comes_round_after_a_second_or_twenty_times_what_the_last_one_took() -> None:
    lanes = Lanes()
    end(lanes, lanes.begin(NOW), {A: 100}, {}, NOW + 10)
    assert lanes.begin(NOW + 10).floors == {A: 100}
    again = lanes.begin(NOW + 10 + LOOK_MS)
    assert again.floors == {} and again.looks_since == NOW + 10 + LOOK_MS
    assert lanes.begin(NOW + 10 + LOOK_MS).floors == {A: 100}, "one look at a time"
    end(lanes, again, {A: 100}, {}, NOW + 2_010)
    assert lanes.begin(NOW + 21_000).floors == {A: 100} and not lanes.begin_look(NOW + 21_000)
    assert lanes.begin_look(NOW + 22_010), "a look that takes a second is made beside the claims"
    assert not lanes.begin_look(NOW + 22_010)
    lanes.end_look(NOW + 22_010, {A: 40}, NOW + 22_020)
    assert lanes.floors == {A: 40}


def test_a_clock_that_is_set_back_makes_the_look_due() -> None:
    rhythm = Rhythm(1_000)
    assert rhythm.is_due(NOW)
    rhythm.end(NOW, NOW)
    assert not rhythm.is_due(NOW + 999) and rhythm.is_due(NOW + 1_000) and rhythm.is_due(NOW - 1)


def test_the_floor_of_a_step_is_forgotten_by_an_error_and_by_the_time() -> None:
    floor: Floor[int] = Floor(60_000)
    now = NOW
    with floor.scan(lambda: now) as scan:
        assert scan.start is None
        scan.reached(7)
    with floor.scan(lambda: now) as scan:
        assert scan.start == 7
    with pytest.raises(ValueError), floor.scan(lambda: now) as scan:
        raise ValueError
    with floor.scan(lambda: now) as scan:
        assert scan.start is None
        scan.reached(9)
    now += 60_000
    with floor.scan(lambda: now) as scan:
        assert scan.start is None, "the look from the bottom"
    with floor.scan(lambda: now) as scan:
        assert (scan.start or BOTTOM) == 9


def test_a_look_that_stood_still_puts_the_next_one_off_for_a_minute_at_most() -> None:
    rhythm = Rhythm()
    rhythm.end(0, 200_000)
    assert not rhythm.is_due(259_999) and rhythm.is_due(260_000)
