"""`holdfast status`: the lights on a terminal, for people, programs and probes."""

from __future__ import annotations

import pytest

from tests.cli import shop
from tests.cli.conftest import Place

pytestmark = pytest.mark.usefixtures("migrated")


@pytest.mark.spec("K17")
def test_work_without_a_worker_is_red_and_fails_a_check(place: Place) -> None:
    assert place.ok("status", "--check").startswith("green")
    place.job(shop.Pay, 5, work=False)
    (item,) = place.json("status")["items"]
    assert item["light"] == "red" and [notice["topic"] for notice in item["asks"]] == ["no_worker"]
    shown = " ".join(place.ok("status").split())
    assert shown.startswith("red") and "no worker serves it" in shown and "1 queued; 0 workers" in shown
    assert place.on_shop("status", "--check").exit_code == 1


@pytest.mark.spec("K17", "K28")
def test_a_database_that_does_not_answer_is_red_and_not_a_refusal(place: Place) -> None:
    place.env["DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1"
    done = place.on_shop("status", "--check")
    assert (done.exit_code, done.stdout.startswith("red")) == (1, True), done.output
    assert "The database does not answer" in " ".join(done.stdout.split())
    assert "127.0.0.1" in place.refused("jobs", "list")
