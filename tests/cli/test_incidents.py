"""`holdfast incidents`: the same incidents as the console's, for people and programs."""

from __future__ import annotations

import pytest

from holdfast.operator.incident_watch import watch_incidents
from tests.cli import shop
from tests.cli.conftest import Place

pytestmark = pytest.mark.usefixtures("migrated")


@pytest.mark.spec("K17")
def test_an_incident_is_seen_taken_and_closed_when_it_is_over(place: Place) -> None:
    assert place.ok("incidents", "list").strip() == "Nothing."
    place.job(shop.Pay, 5, work=False)
    place.in_kernel(watch_incidents)
    (item,) = place.json("incidents", "list")["items"]
    assert (item["topic"], item["severity"], item["state"]) == ("no_worker", "page", "open")
    shown = place.ok("incidents", "list", "--state", "open")
    assert shown.startswith("page") and "no worker serves it" in " ".join(shown.split())
    assert "None" not in shown, "it is nobody's yet"
    id = item["id"]
    assert "goes on" in place.on_shop("incidents", "close", id, "--summary", "x").output
    place.ok("incidents", "ack", id, "--actor", "olga")
    place.ok("incidents", "comment", id, "the deploy is stuck", "--actor", "olga")
    place.ok("incidents", "assign", id, "ben", "--actor", "olga")
    assert " UTC ben " in " ".join(place.ok("incidents", "list").split())
    assert "the deploy is stuck" in place.ok("incidents", "show", id)
    assert place.ok("incidents", "show", id, "--markdown").startswith("# No worker: ")
    place.on_shop("jobs", "cancel", place.items("jobs", "list")[0]["id"])
    place.in_kernel(watch_incidents)
    place.ok("incidents", "close", id, "--summary", "a worker was missing", "--actor", "ben")
    (item,) = place.json("incidents", "list")["items"]
    assert (item["state"], item["assignee"], item["summary"]) == ("closed", "ben", "a worker was missing")
