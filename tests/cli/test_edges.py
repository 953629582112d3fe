"""Where a command turns the other way: which light fails a check, which numbers and systems are refused."""

from __future__ import annotations

import pytest

from holdfast.cli.status import has_red
from tests.cli.conftest import Place


@pytest.mark.spec("K17")
@pytest.mark.parametrize(
    ("lights", "fails"), [("red green", True), ("green red", True), ("yellow green", False), ("", False)]
)
def test_one_red_light_of_any_system_fails_a_check(lights: str, fails: bool) -> None:
    assert has_red({"items": [{"light": light} for light in lights.split()]}) is fails


@pytest.mark.spec("K19")
@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_a_number_that_is_none_is_refused(place: Place, number: str) -> None:
    done = place.run("schedules", "add", "s", "* * * * *", "shop.pay", "{}", f"--jitter-sec={number}")
    assert (done.exit_code, "finite number" in done.stderr) == (2, True), done.output


@pytest.mark.spec("K19")
def test_a_server_is_asked_about_one_system_at_most(place: Place) -> None:
    there = ("--url", "http://127.0.0.1:9", "--token", "t")
    done = place.run(*there, "jobs", "list", "--system", "grading", "--system", "review")
    assert (done.exit_code, done.stderr) == (1, "With --url give no --app, and at most one --system.\n")


@pytest.mark.spec("K19")
def test_a_system_that_was_asked_for_by_name_is_not_left_out(place: Place) -> None:
    assert place.run("migrate", "--system", "review").exit_code == 0
    done = place.run("jobs", "list", "--system", "review", "--system", "conversion")
    assert done.exit_code == 1 and "Left out" not in done.stderr and "holdfast migrate" in done.stderr
