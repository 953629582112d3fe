"""Node clients with other people's libraries, which know the published contract and nothing else of ours."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.grading_site import PATIENCE_S, GradingSite
from tests.acceptance.process import until
from tests.interop.npm import HERE, Strangers
from tests.services import child

pytestmark = pytest.mark.slow
KEY, OLD_KEY = "a-key-of-both-services-that-is-long-enough", "a-key-on-its-way-out-that-is-long-enough"


@pytest.mark.spec("G18")
def test_a_foreign_validator_agrees_with_every_golden_message(strangers: Strangers) -> None:
    said = subprocess.run(strangers.command("golden.cjs"), env=strangers.env(), capture_output=True, check=True)
    judged: dict[str, str] = json.loads(said.stdout)
    wrong = {name: trouble for name, trouble in judged.items() if (trouble == "") != name.startswith("valid/")}
    assert wrong == {} and len(judged) > 70


@pytest.mark.spec("G17", "G18", "G4", "G5", "002.22")
async def test_a_node_main_app_is_served_by_our_grading_service(
    grading_site: GradingSite, strangers: Strangers
) -> None:
    site = grading_site
    site.service(HOLDFAST_MESSAGE_KEYS=f"{KEY},{OLD_KEY}")
    patience = str(int(PATIENCE_S * 1_000))
    env = strangers.env(RABBITMQ_URL=site.broker, PATIENCE_MS=patience, HOLDFAST_MESSAGE_KEYS=f"{OLD_KEY},{KEY}")
    process = await asyncio.create_subprocess_exec(
        *strangers.command("main_app.cjs"), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    async with asyncio.timeout(2 * PATIENCE_S):
        said, trouble = await process.communicate()
    assert process.returncode == 0, trouble.decode()
    told: dict[str, Any] = json.loads(said)
    assert set(told["complaints"]) == {""}, "every message of ours is valid to a foreign validator"
    assert told["unsigned"] == 0, "and signed, as the contract says"
    _assert_graded(told)
    _assert_refused(told)
    assert site.in_service("SELECT COUNT(*) AS n FROM grading_jobs")[0]["n"] == len(told["sent"])


def _assert_graded(told: dict[str, Any]) -> None:
    finals = Counter(one["requestId"].lower() for one in told["callbacks"] if one["kind"] == "completed")
    asked = [one["body"]["requestId"].lower() for one in told["sent"]]
    assert finals == Counter({one: 3 if one == asked[0] else 1 for one in asked}), "duplicates are answered again"
    events = [one["eventId"] for one in told["callbacks"]]
    assert len(events) == len(set(events))


def _assert_refused(told: dict[str, Any]) -> None:
    """Each wrong request is one dead letter, and one error where its id could be read."""
    refused = Counter(one["requestId"] for one in told["callbacks"] if one["kind"] == "error")
    refused.pop("", None)  # a request without an id that names its submission is answered without one
    readable = {one["requestId"] for one in told["letters"] if one["requestId"] is not None}
    assert refused == Counter(readable) and len(told["letters"]) == len(told["wrong"])
    assert {one["failureReason"] for one in told["letters"]} == {"INVALID_INPUT"}
    fresh = [one["body"]["requestId"] for one in told["wrong"] if "request-id" not in one["name"] and _has_id(one)]
    assert set(fresh) <= readable, "an error is told wherever the id is one"


def _has_id(one: dict[str, Any]) -> bool:
    return isinstance(one["body"], dict) and "requestId" in one["body"]


@pytest.mark.spec("G17", "G18", "G8", "G9", "G10", "002.22")
async def test_our_main_app_is_served_by_a_node_grading_service(
    grading_site: GradingSite, strangers: Strangers, tmp_path: Path
) -> None:
    site, log = grading_site, tmp_path / "node.log"
    main = await site.main(HOLDFAST_MESSAGE_KEYS=KEY)
    env = strangers.env(RABBITMQ_URL=site.broker, HOLDFAST_MESSAGE_KEYS=KEY)
    service = child.start(strangers.command("grading_service.cjs"), log=log, env=env)
    try:
        made = {text: await main.submit(text) for text in ("sure", "review", "fail", "again", "twice")}
        expected = {"sure": "COMPLETED", "review": "REVIEW_REQUIRED", "fail": "FAILED", "again": "REVIEW_REQUIRED"}
        for text, status in (expected | {"twice": "COMPLETED"}).items():
            await main.until_status(made[text]["id"], status)

        async def all_taken() -> bool:
            async with site.stranger() as stranger:
                return await stranger.depth("grading.callback") == 0

        await until(all_taken, "every callback to be taken", PATIENCE_S, process=main.process)
    finally:
        child.end(service, signal.SIGTERM)
    seen = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert {one["requestId"] for one in seen} == {one["requestId"] for one in made.values()}
    facts = {(one["trouble"], one["contentType"], one["deliveryMode"], one["signed"]) for one in seen}
    assert facts == {("", "application/json; charset=utf-8", 2, True)}, "our requests are valid to a foreign validator"
    events = site.in_main(f"SELECT kind FROM submission_events WHERE submission_id = '{made['twice']['id']}'")
    assert Counter(one["kind"] for one in events)["grading.completed"] == 1
    invalid = len(list((HERE.parents[1] / "docs/contract/examples/invalid").glob("grading.callback.*")))
    assert site.in_main("SELECT SUM(times) AS n FROM refused_callbacks")[0]["n"] == invalid * len(made)
