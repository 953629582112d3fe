"""The console of grading: submissions by how they stand, one with its history, and the dead-letter queue."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from tests.browser.deployment import Deployment
from tests.browser.pages import HOSTILE, says, signed_in

from holdfast.transports.seam import Delivery
from holdfast_systems.grading.callbacks import receive_callback
from holdfast_systems.grading.contract import CALLBACK_QUEUE, DEAD_LETTER_QUEUE
from holdfast_systems.grading.letters import keep_letter

# An address that nobody may make the service fetch: it fails at once, and for good.
SPOKEN = {"audioUrl": "http://127.0.0.1:9/a.wav", "durationSeconds": 5, "questionId": "q-1"}


@pytest.mark.spec("000.22", "002.6", "002.15")
async def test_an_operator_finds_a_failed_submission_and_submits_it_again(browser: Any, place: Deployment) -> None:
    asked = {"json": {"skill": "speaking", "payload": SPOKEN}, "headers": {"Idempotency-Key": str(uuid.uuid4())}}
    made = await place.ask("POST", "/api/submissions", sub="lena", **asked)
    await receive_callback(place.kernel("grading-main"), Delivery(CALLBACK_QUEUE, HOSTILE.encode()))
    async with signed_in(browser, place, to="/console#submissions") as page:
        refused = page.locator("section", has_text="Refused callbacks")
        await refused.get_by_text("The message is not JSON").wait_for()
        await page.get_by_label("Status").select_option("FAILED")
        row = page.locator("tbody tr", has_text=made["id"])
        await row.get_by_text("AUDIO_UNAVAILABLE").wait_for()
        await row.get_by_role("button", name="Submit again").click()
        await page.get_by_role("dialog").get_by_role("button", name="Submit again").click()
        await says(page, "The next attempt has begun.")
        await page.goto(f"{page.url.partition('#')[0]}#submission/{made['id']}")
        await page.get_by_role("heading", name="Earlier attempts").wait_for()
        await page.locator("tbody tr", has_text="AUDIO_UNAVAILABLE").wait_for()


@pytest.mark.spec("002.3")
async def test_an_operator_archives_a_letter_of_the_queue(browser: Any, place: Deployment) -> None:
    body = b'{"requestId": "R-77", "submissionId": "s-77"}'
    await keep_letter(place.kernel("grading-main"), Delivery(DEAD_LETTER_QUEUE, body, "m-77"))
    async with signed_in(browser, place, to="/console#dlq") as page:
        row = page.locator("tbody tr", has_text="R-77")
        await row.get_by_role("button", name="Show").click()
        await page.get_by_role("dialog").get_by_text("s-77").wait_for()
        await page.get_by_role("dialog").get_by_role("button", name="Close").click()
        await row.get_by_role("button", name="Archive").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Why (for the audit)").fill("a stranger's noise")
        await dialog.get_by_role("button", name="Archive").click()
        await says(page, "It is archived.")
        await row.wait_for(state="detached")
