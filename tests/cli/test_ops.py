"""The operator's commands: each does what it says, speaks JSON, and fails in one sentence with exit code 1."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from tests.cli import shop
from tests.cli.conftest import Place

pytestmark = pytest.mark.usefixtures("migrated")
NOBODY = "0191f3a0-7c1e-7abc-8def-0123456789ab"


@pytest.mark.spec("K8", "K9")
def test_jobs_are_listed_the_newest_first_and_by_state(place: Place) -> None:
    paid, refused = place.job(shop.Pay, 5), place.job(shop.Pay, -5)
    assert [row["id"] for row in place.items("jobs", "list")] == [refused, paid]
    assert [row["id"] for row in place.items("jobs", "list", "--state", "dead")] == [refused]
    assert [row["id"] for row in place.items("jobs", "list", "--limit", "1")] == [refused]
    table = place.ok("jobs", "list", "--kind", "shop.pay")
    assert paid[:8] in table and "succeeded" in table
    assert place.ok("jobs", "list", "--kind", "none").strip() == "Nothing."


def test_what_a_provider_wrote_is_shown_as_it_wrote_it(place: Place) -> None:
    place.dead()
    assert "[bold]no[/b" in place.ok("dead", "list")


@pytest.mark.spec("K8")
def test_a_job_is_shown_with_its_story_and_why_it_is_where_it_is(place: Place) -> None:
    job_id = place.job(shop.Pay, 5)
    shown = place.json("jobs", "show", job_id)
    assert [event["type"] for event in shown["events"]] == ["created", "claimed", "succeeded"]
    text = place.ok("jobs", "show", job_id)
    assert shown["why"] in " ".join(text.split()) and "claimed" in text


@pytest.mark.spec("K18")
def test_a_job_that_has_not_ended_is_cancelled_once(place: Place) -> None:
    job_id = place.job(shop.Pay, 5, work=False)
    assert place.ok("jobs", "cancel", job_id).strip() == f"Job {job_id} is cancelled."
    assert "is cancelled; only a job that has not ended" in place.refused("jobs", "cancel", job_id)
    other = place.job(shop.Pay, 5, work=False)
    assert place.json("jobs", "cancel", other) == {
        "system": "shop",
        "id": other,
        "state": "cancelled",
    }


@pytest.mark.spec("K8")
def test_a_dead_job_is_retried_in_one_go_from_wherever_its_case_is(place: Place) -> None:
    job_id, case_id = place.dead()
    place.ok("dead", "triage", case_id, "--cause", "data")
    place.ok("dead", "remediate", case_id, "--evidence", "mended")
    assert "queued again" in place.ok("jobs", "retry", job_id, "--evidence", "mended twice")
    assert place.json("jobs", "show", job_id)["state"] == "queued"
    assert place.json("dead", "show", case_id)["state"] == "replayed"


def test_a_job_without_a_dead_letter_is_not_retried(place: Place) -> None:
    job_id = place.job(shop.Pay, 5)
    assert "only a dead job can be retried" in place.refused("jobs", "retry", job_id, "--evidence", "x")


@pytest.mark.spec("K8")
def test_a_dead_letter_goes_through_its_steps_and_no_other_way(place: Place) -> None:
    job_id, case_id = place.dead()
    assert [row["id"] for row in place.items("dead", "list", "--state", "open")] == [case_id]
    assert "AMOUNT_REFUSED" in place.ok("dead", "show", case_id)
    assert "Next: triage it" in place.refused("dead", "replay", case_id)
    assert place.json("dead", "triage", case_id, "--cause", "data")["cause"] == "data"
    assert "Evidence must say" in place.refused("dead", "remediate", case_id, "--evidence", " ")
    assert place.json("dead", "remediate", case_id, "--evidence", "mended")["state"] == "remediated"
    assert place.json("dead", "replay", case_id)["job_id"] == job_id
    assert "the replay has not ended" in place.refused("dead", "resolve", case_id, "--notes", "done")
    place.ok("jobs", "cancel", job_id)
    assert "No replay of it has succeeded" in place.refused("dead", "resolve", case_id, "--notes", "done")
    assert place.json("dead", "resolve", case_id, "--without-replay", "withdrawn")["state"] == "resolved"
    assert place.items("dead", "list", "--state", "open") == []


@pytest.mark.spec("K8", "004.13")
def test_a_dead_letter_is_edited_and_then_replayed(place: Place, tmp_path: Path) -> None:
    job_id, case_id = place.dead()
    dry = place.json("dead", "edit", case_id, "--set", "amount=5", "--dry-run")
    assert dry["dry_run"] and [change["path"] for change in dry["changes"]] == ["amount"]
    assert dry["changes"][0]["after"] == 5 and dry["replay_from"] == "pay"
    assert place.json("dead", "show", case_id)["state"] == "open"
    assert "amount" in place.refused("dead", "edit", case_id, "--set", "amount=much")
    assert "no field 'amuont'" in place.refused("dead", "edit", case_id, "--set", "amuont=5")
    assert "must be field=value" in place.refused("dead", "edit", case_id, "--set", "amount")
    assert "is not JSON" in place.refused("dead", "edit", case_id, "--set", "amount:=five")
    assert "cannot be read" in place.refused("dead", "edit", case_id, "--file", str(tmp_path / "none.json"))
    said = place.ok("dead", "edit", case_id, "--set", "amount:=6", "--reason", "INC-7", "--actor", "olga")
    assert "-> 6" in said and "A replay begins at the failed stage 'pay'" in said
    new = tmp_path / "new.json"
    new.write_text(json.dumps({**place.json("dead", "show", case_id)["input"], "amount": 7}))
    assert place.json("dead", "edit", case_id, "--file", str(new))["changes"][0]["after"] == 7
    case = place.json("dead", "show", case_id)
    assert (case["state"], case["input"]["amount"], len(case["corrections"])) == ("remediated", 7, 2)
    assert case["original_input"]["amount"] < 0 and case["corrections"][0]["actor"] == "olga"
    assert [each["reason"] for each in case["corrections"]] == ["INC-7", None]
    assert "original_input" in place.ok("dead", "show", case_id)
    assert place.json("dead", "replay", case_id)["job_id"] == job_id


def test_dead_letters_are_filtered_by_class_kind_and_stage(place: Place) -> None:
    _, case_id = place.dead()
    for filters in (("--error-class", "AMOUNT_REFUSED"), ("--kind", "shop.pay"), ("--stage", "pay")):
        assert [row["id"] for row in place.items("dead", "list", *filters)] == [case_id]
        assert place.items("dead", "list", filters[0], "other") == []


@pytest.mark.spec("K9")
def test_a_breaker_is_opened_and_closed_by_hand_and_holds_what_comes(place: Place) -> None:
    opened = place.json("breakers", "open", "bank", "--reason", "maintenance")
    assert opened == {"system": "shop", "name": "bank", "gate": "open", "reason": "maintenance"}
    job_id = place.job(shop.Pay, 5)
    listed = {row["name"]: row for row in place.items("breakers", "list")}
    assert (listed["bank"]["gate"], listed["bank"]["parked"]) == ("open", 1)
    assert "maintenance" in place.json("jobs", "show", job_id)["why"]
    assert "is closed" in place.ok("breakers", "close", "bank")
    assert {row["gate"] for row in place.items("breakers", "list")} == {"closed"}


def test_a_provider_of_two_systems_must_be_told_apart(place: Place) -> None:
    done = place.on_shop("breakers", "open", "bank", "--app", "tests.cli.shop:rival")
    assert done.exit_code == 1
    assert done.stderr.startswith("Several systems have a provider named 'bank'; name the system: ")


@pytest.mark.spec("K12")
def test_an_effect_that_nobody_can_vouch_for_is_answered_by_a_person(place: Place) -> None:
    place.job(shop.Remind, 5)
    doubtful = place.items("effects", "list", "--status", "review")
    assert [row["provider"] for row in doubtful] == ["post"]
    key = doubtful[0]["key"]
    assert key in place.ok("effects", "list")
    answered = place.json("effects", "answer", key, "--sent", "--provider-id", "p-1")
    assert answered == {"system": "shop", "key": key, "status": "sent", "sent": True}
    assert "there is nothing to answer" in place.refused("effects", "answer", key, "--sent")


@pytest.mark.parametrize("nobody", [NOBODY, "nope"])
@pytest.mark.parametrize(
    "words",
    [
        "jobs show {}",
        "jobs cancel {}",
        "jobs retry {} --evidence x",
        "dead show {}",
        "dead triage {} --cause code",
        "dead remediate {} --evidence x",
        "dead replay {}",
        "dead resolve {} --notes x",
    ],
)
def test_what_is_not_there_is_said_in_one_sentence(place: Place, words: str, nobody: str) -> None:
    noun = "job" if words.startswith("jobs") else "dead letter"
    assert place.refused(*words.format(nobody).split()) == f"There is no {noun} {nobody}."


@pytest.mark.parametrize("verb", ["open", "close"])
def test_a_provider_that_nobody_declares_is_refused(place: Place, verb: str) -> None:
    assert place.refused("breakers", verb, "nope") == "No system here declares a provider named 'nope'."


@pytest.mark.parametrize(
    "words",
    [
        "jobs list --state bogus",
        "dead list --state bogus",
        "effects list --status bogus",
        "jobs list --limit 0",
        "dead triage x --cause bogus",
        "dead triage x",
        "jobs retry x",
        "effects answer k",
        "dead bulk triage --cause code",
        "dead bulk triage --kind k",
        "dead bulk remediate --kind k",
        "dead bulk resolve --kind k",
        "dead bulk bury --kind k",
        "costs --days 0",
    ],
)
def test_wrong_usage_is_exit_code_2_and_changes_nothing(place: Place, words: str) -> None:
    assert place.on_shop(*words.split()).exit_code == 2


def test_a_database_that_cannot_be_reached_is_a_sentence(place: Place) -> None:
    away = Place(place.env | {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"})
    assert "127.0.0.1" not in json.dumps(place.env)
    assert away.refused("jobs", "list")


@pytest.mark.slow
def test_the_commands_do_the_same_on_postgresql(place: Place, postgres_url: str) -> None:
    on = Place(place.env | {"DATABASE_URL": postgres_url})
    job_id, case_id = on.dead()
    assert on.refused("jobs", "show", "nope") == "There is no job nope."
    assert on.refused("dead", "triage", "nope", "--cause", "data") == "There is no dead letter nope."
    assert [row["id"] for row in on.items("jobs", "list", "--state", "dead")] == [job_id]
    on.ok("jobs", "retry", job_id, "--evidence", "mended")
    assert on.json("dead", "show", case_id)["state"] == "replayed"
    on.ok("jobs", "cancel", job_id)
    assert on.items("effects", "list") == [] and on.json("audit") == {"findings": []}


@pytest.mark.spec("K8", "K18")
def test_many_dead_letters_are_taken_through_their_steps_together(place: Place) -> None:
    cases = [place.dead()[1] for _ in range(3)]
    for words in (("triage", cases[2], "--cause", "data"), ("remediate", cases[2], "--evidence", "mended")):
        place.ok("dead", *words)
    dry = place.json("dead", "bulk", "triage", "--error-class", "AMOUNT_REFUSED", "--cause", "data", "--dry-run")
    assert (dry["dry_run"], dry["matched"], len(dry["done"]), len(dry["refused"])) == (True, 3, 2, 1)
    assert len(place.items("dead", "list", "--state", "open")) == 2, "a dry run changes nothing"
    said = place.ok("dead", "bulk", "triage", "--kind", "shop.pay", "--cause", "data", "--actor", "olga")
    assert said.strip() == "2 of 3 were taken through triage; 1 refused."
    place.ok("dead", "bulk", "remediate", "--state", "triaged", "--evidence", "mended")
    done = place.json("dead", "bulk", "replay", "--stage", "pay", "--state", "remediated", "--per-minute", "1")
    assert [one["id"] for one in done["done"]] == sorted(cases)
    runs = sorted(datetime.fromisoformat(row["run_at"]) for row in place.items("jobs", "list"))
    spread = [round((at - runs[0]).total_seconds() / 60) for at in runs]
    assert spread == [0, 1, 2], "they are spread, so as not to come at once"
    early = place.json("dead", "bulk", "resolve", "--state", "replayed", "--notes", "done")
    assert early["done"] == [] and len(early["refused"]) == 3, "their replays have not ended"
    for row in place.items("jobs", "list"):
        place.ok("jobs", "cancel", row["id"])
    words = ("--state", "replayed", "--without-replay", "withdrawn")
    assert len(place.json("dead", "bulk", "resolve", *words)["done"]) == 3


@pytest.mark.spec("K18")
def test_what_the_calls_cost_is_told_by_day_provider_and_kind(place: Place) -> None:
    assert place.ok("costs").strip() == "Nothing."
    place.job(shop.Pay, 5)
    place.job(shop.Pay, -5)
    told = place.json("costs", "--days", "1")
    (item,) = told["items"]
    assert (item["system"], item["provider"], item["kind"]) == ("shop", "bank", "shop.pay")
    assert (item["calls"], item["failed"], item["cost_micros"]) == (2, 1, 2_500)
    assert told["total_cost_micros"] == 2_500, "a call that failed costs nothing here, and none is charged twice"
    table = place.ok("costs")
    assert item["day"] in table and "In all: 0.002500" in table


@pytest.mark.spec("K18")
def test_schedules_say_when_they_run_next(place: Place) -> None:
    (rent,) = place.items("schedules", "list")
    assert (rent["name"], rent["cron"], rent["kind"], rent["last_at"]) == ("rent", "0 6 * * *", "shop.pay", None)
    assert rent["next_at"].endswith("T06:00:00.000Z")
    assert "rent" in place.ok("schedules", "list")
