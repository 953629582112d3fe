"""Scripts decide by exit codes: 0 done, 1 something is wrong with what was asked or found, 2 wrong usage."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli import shop
from tests.cli.conftest import Place

NOBODY = "0191f3a0-7c1e-7abc-8def-0123456789ab"
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
CODES = {
    "jobs list": 0,
    "dead list --state open": 0,
    "breakers list": 0,
    "costs": 0,
    "audit": 0,
    "migrate": 0,
    "relay --once": 0,
    "jobs show {job}": 0,
    f"jobs show {NOBODY}": 1,
    f"jobs cancel {NOBODY}": 1,
    "jobs cancel {job}": 1,
    "dead replay {case}": 1,
    "breakers open nobody": 1,
    "effects answer nothing --sent": 1,
    "jobs list --system nobody": 1,
    "jobs": 2,
    "nothing": 2,
    "jobs list --nothing": 2,
    "jobs list --state nothing": 2,
    "jobs list --limit 0": 2,
    "dead triage {case}": 2,
}


@pytest.mark.parametrize("words", CODES)
def test_a_script_can_tell_what_happened(place: Place, words: str) -> None:
    job, case = place.dead()
    words = words.format(job=job, case=case)
    plain = words in ("jobs", "nothing", "jobs list --system nobody")
    done = place.run(*words.split()) if plain else place.on_shop(*words.split())
    wanted = CODES[next(one for one in CODES if one.format(job=job, case=case) == words)]
    assert done.exit_code == wanted, done.output
    if wanted == 1:
        assert done.stdout == "" and len(done.stderr.splitlines()) == 1


def test_a_check_and_an_audit_that_find_something_exit_1(place: Place) -> None:
    place.job(shop.Pay, 5)
    assert Place(place.env | {"HOLDFAST_PORT": "high"}).run("check").exit_code == 1

    with closing(sqlite3.connect(Path(place.env["HOLDFAST_DATA_DIR"]) / "shop.db")) as database, database:
        database.execute("UPDATE holdfast_jobs SET state = 'cancelled' WHERE state = 'succeeded'")
    found = place.on_shop("audit")
    assert found.exit_code == 1 and "finding" in found.stdout


def test_the_codes_are_in_the_reference() -> None:
    page = REFERENCE.read_text()
    assert all(f"| {code} |" in page for code in (0, 1, 2, 130))


def test_a_wrong_setting_of_celery_is_a_sentence(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("celery")
    monkeypatch.setenv("HOLDFAST_ENGINE", "celery")
    monkeypatch.setenv("RABBITMQ_URL", "amqp://127.0.0.1:1")
    monkeypatch.setenv("HOLDFAST_CELERY_PROCESSES", "many")
    done = place.on_shop("worker")
    assert done.exit_code == 1, done.output
    assert done.stderr.splitlines() == ["HOLDFAST_CELERY_PROCESSES is 'many'; it must be a whole number."]
