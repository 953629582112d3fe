"""What is worth watching is shown anew until Ctrl-C: as tables for a person, as lines of JSON for a program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli import shop
from tests.cli.conftest import APP, Place

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


@contextmanager
def watching(place: Place, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own; at the end it must stop for Ctrl-C, cleanly and without a word."""
    command = [sys.executable, "-c", "from holdfast.cli import main; main()", *words, "--watch", *APP]
    env = dict(os.environ) | place.env | {"PYTHONUNBUFFERED": "1"}
    started = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    )
    try:
        yield started
        started.send_signal(signal.SIGINT)
        _, said = started.communicate(timeout=60)
        assert (started.returncode, said) == (0, "")
    finally:
        if started.poll() is None:
            started.kill()
            started.wait()


def test_a_watched_list_gives_a_line_of_json_for_each_look(place: Place) -> None:
    first = place.job(shop.Pay, 5)
    with watching(place, "jobs", "list", "--json") as process:
        assert process.stdout is not None
        assert [row["id"] for row in json.loads(process.stdout.readline())["items"]] == [first]
        second = place.job(shop.Pay, 7)
        while (seen := [row["id"] for row in json.loads(process.stdout.readline())["items"]]) == [first]:
            pass
        assert seen == [second, first]


@pytest.mark.parametrize("words", ["jobs show {job}", "dead list", "dead show {case}", "breakers list", "effects list"])
def test_whatever_is_worth_it_can_be_watched(place: Place, words: str) -> None:
    job, case = place.dead()
    with watching(place, *words.format(job=job, case=case).split(), "--json") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) is not None


def test_a_person_sees_tables_again_and_again(place: Place) -> None:
    _, case = place.dead()
    with watching(place, "dead", "list") as process:
        assert process.stdout is not None
        seen = 0
        while seen < 2:
            seen += case[:8] in process.stdout.readline()


@pytest.mark.usefixtures("migrated")
def test_what_is_not_there_is_not_watched(place: Place) -> None:
    nobody = "0191f3a0-7c1e-7abc-8def-0123456789ab"
    assert place.refused("jobs", "show", nobody, "--watch") == f"There is no job {nobody}."
