"""Tables for a terminal of eighty columns: short ids that tell rows apart, times from now, errors in a line."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.cli.table import brief_error, from_now, lines, table_of, unique_length
from tests.cli import shop
from tests.cli.conftest import APP, Place

ROOT = Path(__file__).parents[2]
WHOLE_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "moment, words",
    [
        ("2030-01-01T11:59:20Z", "40 s ago"),
        ("2030-01-01T11:55:00.000Z", "5 min ago"),
        ("2030-01-01T15:00:00+00:00", "in 3 h"),
        ("2029-12-20T12:00:00Z", "12 d ago"),
        ("2030-01-01T11:59:00Z", "1 min ago"),
        ("2030-01-01T12:00:20Z", "in 20 s"),
        ("soon", "soon"),
    ],
)
def test_a_time_is_told_from_now(moment: str, words: str) -> None:
    assert from_now(moment, NOW) == words


def test_what_is_known_of_one_thing_is_a_line_each_and_what_is_not_is_left_out() -> None:
    known = {"to": {"name": "Jörg"}, "tags": ["ü", 1], "count": 0, "held": False, "note": "", "error": None, "rows": []}
    assert lines(known).plain.splitlines() == [
        'to                 {"name": "Jörg"}',
        'tags               ["ü", 1]',
        "count              0",
        "held               False",
    ]


def test_ids_are_as_long_as_it_takes_to_tell_them_apart() -> None:
    assert unique_length([]) == unique_length(["0199aaaa-1"]) == 8
    assert unique_length(["0199aaaa-1000", "0199aaaa-1001", "0199bbbb-1000"]) == len("0199aaaa-1001")


def test_a_failure_is_a_line() -> None:
    assert (
        brief_error({"error_class": "NO_SUCH", "message": "no such amount", "stack": "x"}) == "NO_SUCH: no such amount"
    )


@pytest.mark.usefixtures("migrated")
def test_an_id_may_be_given_by_its_beginning(place: Place) -> None:
    ids = [place.job(shop.Pay, amount, work=False) for amount in (5, 6, 7)]
    length = unique_length(ids)
    assert place.json("jobs", "show", ids[1][:length])["id"] == ids[1]
    alike = next(left for left, right in pairwise(ids) if left[:8] == right[:8])  # they change every 65 s
    assert "type more of it" in place.refused("jobs", "show", alike[:8])
    assert "no job whose id begins with ffffffff" in place.refused("jobs", "show", "ffffffff")
    assert "There is no job abc; type eight characters of its id, or more." in place.refused("jobs", "show", "abc")


@pytest.mark.parametrize(
    ("columns", "widths"),
    [
        (80, {"state": 7, "kind": 40, "note": 12, "error": 15}),
        (60, {"state": 7, "kind": 23, "note": 12, "error": 12}),
        (21, {"state": 7, "kind": 12}),
    ],
)
def test_the_last_columns_are_cut_first_and_a_state_never(
    columns: int, widths: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    row = {"state": "waiting", "kind": "k" * 40, "note": "n" * 12, "error": "e" * 30}
    drawn = table_of([row], list(row))
    assert {str(each.header): each.width for each in drawn.columns} == widths


@pytest.mark.slow
@pytest.mark.usefixtures("migrated")
def test_lists_fit_a_terminal_of_eighty_columns(place: Place) -> None:
    place.job(shop.Pay, 5)
    place.dead()
    for words in (("jobs", "list"), ("dead", "list"), ("dead", "groups"), ("status",), ("actions",)):
        screen = _on_terminal(place, *words)
        lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in screen.splitlines()]
        assert max(map(len, lines)) <= 80, lines
        assert not any(
            re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", line) for line in lines
        )
    assert "\x1b[1;31mdead" in _on_terminal(place, "jobs", "list")


def _on_terminal(place: Place, *words: str) -> str:
    """What a command draws on a terminal of its own."""
    master, slave = pty.openpty()
    env = dict(os.environ) | place.env | {"COLUMNS": "80", "LINES": "40", "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "holdfast", *words, *APP]
    with subprocess.Popen(command, env=env, stdout=slave, stderr=subprocess.PIPE, cwd=ROOT) as process:
        os.close(slave)
        drawn = b""
        while True:
            try:
                piece = os.read(master, 65_536)
            except OSError:  # the terminal closed with the command
                break
            if not piece:
                break
            drawn += piece
        assert process.wait(60) == 0, process.stderr
    os.close(master)
    return drawn.decode().replace("\r\n", "\n")
