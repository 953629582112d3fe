"""`holdfast submissions` and `holdfast dlq`, as an operator types them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.systems.grading.callbacks_made import completed, error, result
from tests.systems.grading.pair import WRITING
from typer.testing import CliRunner, Result

from holdfast.cli import brought, cli
from holdfast.main import close_systems, open_systems
from holdfast.settings import Settings, read
from holdfast.transports.seam import Delivery
from holdfast_systems.grading.callbacks import receive_callback
from holdfast_systems.grading.contract import CALLBACK_QUEUE, DEAD_LETTER_QUEUE
from holdfast_systems.grading.letters import keep_letter
from holdfast_systems.grading.main_app import submit
from holdfast_systems.grading.settings import MainSettings


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A deployment with a failed submission of ann's, a flagged one of bob's, a refused callback and a letter."""
    env = {"HOLDFAST_DATA_DIR": str(tmp_path), "HOLDFAST_LOG_LEVEL": "ERROR"}
    assert CliRunner().invoke(cli, ["migrate", "--system", "grading-main"], env=env).exit_code == 0
    asyncio.run(fill(env))
    return env


@pytest.mark.spec("G15")
def test_too_few_reviews_calibrate_nothing_and_say_so(env: dict[str, str]) -> None:
    answer = run(env, "grading", "calibrate")
    assert (
        answer.exit_code == 0 and answer.stdout.strip() == "0 answers have been reviewed and measured; 50 are needed."
    )
    assert said(env, "grading", "calibrations")["items"] == []
    refused = run(env, "grading", "rollback")
    assert refused.exit_code == 1 and "There is no calibration of writing to roll back." in refused.output


def run(env: dict[str, str], *words: str) -> Result:
    """The system's own commands; the entry point adds them to `holdfast`."""
    desk = typer.Typer()
    brought.add_to(desk, words)
    return CliRunner().invoke(desk, list(words), env=env)


def said(env: dict[str, str], *words: str) -> Any:
    answer = run(env, *words, "--json")
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


async def fill(env: dict[str, str]) -> None:
    opened = await open_systems(read(Settings, env), env, ["grading-main"])
    kernel = opened[0].kernel
    async with kernel.store.transaction() as tx:
        one = await submit(kernel, tx, MainSettings(), "ann", "writing", WRITING)
        two = await submit(kernel, tx, MainSettings(), "bob", "writing", WRITING)
    foreign = result(6.5, 87).model_copy(update={"audit_flag": False})
    for callback in (error(one.request_id, one.id, "LLM_FAIL"), completed(two.request_id, two.id, foreign)):
        await receive_callback(kernel, Delivery(CALLBACK_QUEUE, callback.body()))
    spoiled = json.dumps({"requestId": one.request_id, "submissionId": one.id, "kind": "dance"}).encode()
    await receive_callback(kernel, Delivery(CALLBACK_QUEUE, spoiled))
    await receive_callback(kernel, Delivery(CALLBACK_QUEUE, b"<html>"))
    await keep_letter(kernel, Delivery(DEAD_LETTER_QUEUE, b'{"requestId": "R-1", "submissionId": "s-1"}', "m-1"))
    await close_systems(opened)


@pytest.mark.spec("000.22", "002.15", "002.6")
def test_an_operator_finds_shows_and_resubmits_submissions(env: dict[str, str]) -> None:
    assert {row["userId"] for row in said(env, "submissions", "list")["items"]} == {"ann", "bob"}
    (failed,) = said(env, "submissions", "list", "--status", "FAILED", "--reason", "LLM_FAIL")["items"]
    (flagged,) = said(env, "submissions", "list", "--flagged")["items"]
    assert (failed["userId"], flagged["userId"], flagged["aiResult"]["auditFlag"]) == ("ann", "bob", True)
    assert said(env, "submissions", "list", "--late")["items"] == []
    whole = said(env, "submissions", "show", failed["id"])
    assert [one["reason"] for one in whole["refusedCallbacks"]] and whole["callbacks"][0]["outcome"] == "applied"
    assert '"taskType": "' in run(env, "submissions", "show", failed["id"]).output, "JSON, and no Python"
    begun = said(env, "submissions", "resubmit", failed["id"], "--actor", "olga")
    assert (begun["attempt"], begun["status"]) == (2, "PENDING")
    again = run(env, "submissions", "resubmit", failed["id"])
    assert again.exit_code == 1 and "only a failed one" in again.output
    acts = said(env, "submissions", "show", failed["id"])["audit"]
    assert [(act["actor"], act["action"]) for act in acts] == [("olga", "submission.resubmitted")]
    heads, *rows = run(env, "submissions", "list").output.splitlines()
    assert heads.split()[:2] == ["id", "userId"] and "ann" in rows[1], "no column stands empty"
    short = {row.split()[0] for row in rows if row.strip()}
    shown = {run(env, "submissions", "show", each).output.split()[1] for each in short}
    assert {len(each) for each in short} != {36} and failed["id"] in shown and len(shown) == 2
    assert "Several submissions begin with" in run(env, "submissions", "show", failed["id"][:8]).output
    for words in (("show", "no-id"), ("show", "0190a000-0000-7000-8000-000000000000"), ("resubmit", "no-id")):
        assert run(env, "submissions", *words).exit_code == 1


@pytest.mark.spec("000.22")
def test_an_operator_sees_every_refused_callback(env: dict[str, str]) -> None:
    """Also one that names nobody's submission, which no submission can show."""
    stranger, named = said(env, "submissions", "refused")["items"]
    assert (stranger["submissionId"], stranger["sizeBytes"]) == (None, 6) and named["submissionId"]
    assert run(env, "submissions", "refused").output.split()[:2] == ["last", "times"]
    assert len(said(env, "submissions", "refused", "--limit", "1")["items"]) == 1


@pytest.mark.spec("002.3")
def test_an_operator_lists_shows_resends_and_archives_letters(env: dict[str, str]) -> None:
    (letter,) = said(env, "dlq", "list")["items"]
    assert (letter["requestId"], letter["failureReason"], letter["state"]) == ("R-1", "NOT_A_LETTER", "open")
    assert "R-1" in run(env, "dlq", "show", letter["id"]).output
    printed = run(env, "dlq", "list").output
    short = printed.splitlines()[1].split()[0]
    assert printed.split()[:2] == ["id", "state"] and len(short) < len(letter["id"])
    assert "R-1" in run(env, "dlq", "show", short).output
    assert run(env, "dlq", "resend", letter["id"]).exit_code == 2, "a reason is required"
    assert said(env, "dlq", "resend", short, "--reason", "mended", "--actor", "olga")["state"] == "resent"
    assert said(env, "dlq", "list")["items"] == []
    again = run(env, "dlq", "archive", letter["id"], "--reason", "gone")
    assert again.exit_code == 1 and "was resent by olga" in again.output, "who did what, and not only that it is gone"
    assert "There is no letter" in run(env, "dlq", "archive", "f" * 32, "--reason", "gone").output
    assert said(env, "dlq", "show", letter["id"])["actedBy"] == "olga"
