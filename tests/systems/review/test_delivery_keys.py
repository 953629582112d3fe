"""The identity of a delivery, and what it has used of a budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast_systems.review.deliveries import ReviewDelivery
from holdfast_systems.review.recipients import effect_key

ids = some.text(some.sampled_from("ab/%1@"), min_size=1, max_size=6)


@pytest.mark.spec("R4")
@given(some.tuples(ids, ids, some.integers(1, 99)), some.tuples(ids, ids, some.integers(1, 99)))
def test_different_deliveries_have_different_keys(one: tuple[str, str, int], other: tuple[str, str, int]) -> None:
    assert (effect_key(*one) == effect_key(*other)) == (one == other)


@pytest.mark.spec("R4", "K7")
def test_a_key_names_the_mailbox_without_showing_it() -> None:
    key = effect_key("cl-1", "ada@example.test", 3)
    assert key == effect_key("cl-1", "Ada@Example.Test", 3)
    assert "ada" not in key and "@" not in key and key.endswith("/3")


@pytest.mark.spec("R3", "004.7")
def test_only_the_budget_that_is_open_has_used_sends() -> None:
    row = ReviewDelivery(
        recipient="ada@example.test",
        required=True,
        effect_key="k",
        status="pending",
        notification_id=None,
        notified_at=None,
        provider=None,
        attempts=7,
        last_sent_at=None,
        error_class=None,
        error=None,
        budget="job/2",
        sends_before=5,
    )
    assert (row.sends_of("job/2"), row.sends_of("job/3")) == (2, 0)
