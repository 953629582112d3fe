"""Schedules and answers on the command line, as the page about composing jobs writes them."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Place

pytestmark = pytest.mark.usefixtures("migrated")


@pytest.mark.spec("K18")
def test_schedules_are_added_paused_resumed_and_removed(place: Place) -> None:
    bill = '{"number": 2, "amount": 5}'
    place.ok("schedules", "add", "evening", "0 18 * * *", "shop.pay", bill, "--timezone", "Europe/Berlin")
    assert [row["name"] for row in place.items("schedules", "list")] == ["evening", "rent"]
    assert place.json("schedules", "pause", "evening") == {"system": "shop", "name": "evening", "paused": True}
    assert [row["paused"] for row in place.items("schedules", "list")] == [1, 0]
    place.ok("schedules", "resume", "evening")
    place.ok("schedules", "remove", "evening")
    assert "There is no schedule 'evening'" in place.refused("schedules", "remove", "evening")
    assert "does not fit" in place.refused("schedules", "add", "bad", "0 18 * * *", "shop.pay", "{}")
    assert "no time zone" in place.refused(
        "schedules", "add", "bad", "* * * * *", "shop.pay", bill, "--timezone", "X/Y"
    )


@pytest.mark.spec("K24")
def test_an_answer_is_kept_until_a_job_waits_for_it(place: Place) -> None:
    assert place.json("jobs", "answer", "approve/7", '{"by": "ann"}') == {
        "system": "shop",
        "key": "approve/7",
        "delivered": False,
    }
    assert "no JSON" in place.refused("jobs", "answer", "approve/7", "yes")
