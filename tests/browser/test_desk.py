"""The instructor's desk in a real browser: the work and its rubric, grades that agree with themselves, two at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.browser.deployment import Deployment
from tests.browser.pages import CONTRAST, HOSTILE, picture, says, signed_in

VILLAGE = Path(__file__).parents[1] / "systems" / "grading" / "data" / "village.ogg"
TEXT = f"I like dogs. Dogs is good.\n\nI go park every day with dog. {HOSTILE}"
QUESTION = "Write about an animal that you like."
ROLES = ["instructor"]


async def submit(place: Deployment, skill: str, payload: dict[str, Any]) -> str:
    asked = {"json": {"skill": skill, "payload": payload}, "headers": {"Idempotency-Key": place.kernel().new_uuid4()}}
    return str((await place.ask("POST", "/api/submissions", sub="lena", **asked))["id"])


async def essay(place: Deployment) -> str:
    payload = {"text": TEXT, "taskType": "email", "questionId": "q-1", "questionText": QUESTION}
    return await submit(place, "writing", payload)


async def drawn_anew(page: Any) -> None:
    """The page asks again and draws, as it does every few seconds, by itself: what no drawing knows of is gone then."""
    await page.evaluate("document.querySelector('form.card').dataset.old = '1'; dispatchEvent(new Event('hashchange'))")
    await page.locator("form.card[data-old]").wait_for(state="detached")


@pytest.mark.spec("G11")
async def test_an_instructor_reads_grades_by_the_rubric_and_finds_it_in_the_history(
    browser: Any, place: Deployment
) -> None:
    work = await essay(place)
    async with signed_in(browser, place, sub="ines", roles=ROLES, to=f"/instructor#{work}") as page:
        shown = page.get_by_label(f"Submission {work}")
        await shown.get_by_text(QUESTION).wait_for()
        assert await shown.locator(".work p").count() == 2, "its paragraphs"
        await page.keyboard.press("c")
        grade = page.get_by_role("form", name="Your grade")
        for name in ("Task achievement", "Coherence and cohesion", "Vocabulary"):
            await grade.get_by_label(name).fill("9")
        await grade.get_by_label("Grammar").fill("10")
        assert await grade.get_by_label("Score, 0 to 10").input_value() == "9.5", "it follows the criteria"
        await grade.get_by_text("Band C1").wait_for()
        assert await grade.locator("li[aria-current=true]").count() == 4, "the bands of the rubric that fit"
        assert await page.evaluate(CONTRAST) == []
        await picture(page, "instructors")
        await grade.get_by_label("Score, 0 to 10").fill("4")
        await grade.get_by_text("Your criteria have a mean of 9.25").wait_for()
        await drawn_anew(page)
        await grade.get_by_label("Feedback").fill("Read the question again.")
        await page.keyboard.press("Control+Enter")
        await says(page, "The four criteria have a mean of 9.25, more than half a point from the score of 4.")
        await page.reload()
        assert await grade.get_by_label("Feedback").input_value() == "Read the question again.", "nothing typed is lost"
        await grade.get_by_label("Vocabulary").fill("9.5")
        assert await grade.get_by_label("Score, 0 to 10").input_value() == "4", "the score is a hand's, and stays so"
        await grade.get_by_label("Score, 0 to 10").fill("9.5")
        await grade.get_by_role("button", name="Submit the grade").click()
        await says(page, "Graded: 9.5 as you said.")
        await page.get_by_role("button", name="Your decisions").click()
        await page.locator("ol.queue").get_by_text("9.5, human").wait_for()
        await page.get_by_role("heading", name="Final, by a person").wait_for()
    final = await place.ask("GET", f"/api/submissions/{work}", sub="lena")
    criteria = {name: one["score"] for name, one in final["result"]["criteria"].items()}
    assert (final["status"], final["result"]["overallScore"], criteria["grammar"]) == ("COMPLETED", 9.5, 10)
    acts = (await place.ask("GET", "/api/ops/audit?actor=ines"))["items"]
    assert [one["action"] for one in acts] == ["submission.reviewed", "submission.claimed"]


@pytest.mark.spec("G11")
async def test_two_instructors_see_each_other_and_step_through_the_queue(browser: Any, place: Deployment) -> None:
    first, second = await essay(place), await essay(place)
    async with (
        signed_in(browser, place, sub="ines", roles=ROLES, to=f"/instructor#{first}") as mine,
        signed_in(browser, place, sub="ivo", roles=ROLES, to=f"/instructor#{first}") as theirs,
    ):
        await theirs.get_by_role("button", name="Claim").wait_for()
        await mine.get_by_role("button", name="Claim").click()
        await mine.get_by_role("button", name="Release").wait_for()
        await theirs.locator(".panes-of .pill", has_text="claimed by ines").wait_for()
        assert await theirs.get_by_role("button", name="Claim").count() == 0
        await theirs.get_by_label("hide what others have").check()
        await theirs.locator(f"ol.queue a[href='#{first}']").wait_for(state="detached")
        await theirs.keyboard.press("Escape")
        await theirs.evaluate("document.activeElement.blur()")
        await mine.keyboard.press("j")
        await mine.wait_for_url("**/instructor#*")
        await mine.goto(f"{place.address}/instructor#{first}")
        await mine.get_by_role("button", name="Release").wait_for()  # only then is it what the key is about
        await mine.keyboard.press("r")
        await theirs.locator(f"ol.queue a[href='#{first}']").wait_for()
        assert second


@pytest.mark.spec("G11")
async def test_a_recording_is_heard_with_its_transcript_and_by_instructors_only(
    browser: Any, place: Deployment
) -> None:
    sound = await place.ask("POST", "/api/recordings", sub="lena", content=VILLAGE.read_bytes())
    work = await submit(place, "speaking", {**sound, "questionId": "q-2", "part": 2})
    path = f"/api/instructor/submissions/{work}/audio"
    async with signed_in(browser, place, sub="ines", roles=ROLES, to=f"/instructor#{work}") as page:
        await page.locator(f"ol.queue a[href='#{work}']").click()
        await page.get_by_role("heading", name="Transcript").wait_for()
        await page.wait_for_function("() => document.querySelector('audio')?.duration > 10")
    async with httpx.AsyncClient(base_url=place.address) as client:
        ranged = {"Range": "bytes=0-99"}
        answers = {
            role: await client.get(path, headers={"Authorization": f"Bearer {place.token('x', [role])}", **ranged})
            for role in ("instructor", "learner", "operator", "viewer")
        }
        assert (await client.get(path)).status_code == 401
    heard = answers.pop("instructor")
    assert (heard.status_code, len(heard.content), heard.headers["content-type"]) == (206, 100, "audio/ogg")
    assert {answer.status_code for answer in answers.values()} == {403}


async def test_whoever_is_no_instructor_is_told(browser: Any, place: Deployment) -> None:
    async with signed_in(browser, place, roles=["operator"], to="/instructor") as page:
        await says(page, "This needs the role instructor")
