"""Dead letters in the console: one from triage to resolved, an escalation, many at once, and all of it audited."""

from __future__ import annotations

from typing import Any

import pytest
from tests.browser.deployment import Deployment
from tests.browser.pages import go, picture, says, signed_in

pytestmark = pytest.mark.spec("K8")


async def act(page: Any, verb: str) -> None:
    await page.locator("li.now").get_by_role("button", name=verb).click()


async def reaches_step(page: Any, title: str) -> Any:
    """The step that is the next one, once it is."""
    step = page.locator("li.now", has=page.get_by_role("heading", name=title))
    await step.wait_for()
    return step


async def mend(
    page: Any, letter: str, evidence: str = "INC-7: the card was replaced; a test charge went through"
) -> None:
    """Steps 1 to 4 of one letter."""
    await go(page, f"letter/{letter}", "CARD_REFUSED in charge")
    await (await reaches_step(page, "Triage")).get_by_label("What kind of cause").select_option("data")
    await page.get_by_label("What you found").fill("an expired card")
    await act(page, "Triage")
    step = await reaches_step(page, "Remediate")
    await step.get_by_text("Correct the source or its mapping.").wait_for()
    await step.get_by_label("What was fixed").fill(evidence)
    await act(page, "Record the evidence")
    step = await reaches_step(page, "Validate")
    await step.get_by_text("The remediation is recorded.").wait_for()
    await step.get_by_label("I have looked at").check()
    await act(page, "Dry run")
    step = await reaches_step(page, "Replay")
    await step.get_by_label("From where").select_option("false")
    await act(page, "Replay")


@pytest.mark.spec("004.14")
async def test_a_letter_is_worked_through_its_five_steps(browser: Any, place: Deployment) -> None:
    job_id, letter = await place.dies("bell")
    async with signed_in(browser, place, to="/console#dead") as page:
        await page.get_by_role("link", name=letter).click()
        step = await reaches_step(page, "Triage")
        await step.get_by_text("permanent: no retry can fix it").wait_for()
        assert await page.locator("ol.steps > li").count() == 5
        assert await page.get_by_role("button", name="Replay", exact=True).count() == 0, "no replay without evidence"
        del place.mood.broken["bell"]
        await mend(page, letter)
        step = await reaches_step(page, "Verify and close")
        await step.get_by_text("succeeded").first.wait_for()
        await picture(page, "letter")
        await step.get_by_label("How it ended").fill("charged and sent")
        await act(page, "Resolve")
        await page.locator("li.done", has_text="Verify and close").get_by_text("charged and sent").wait_for()
        assert await page.locator("ol.steps > li.done").count() == 5
    case = await place.ask("GET", f"/api/ops/dead-letters/{letter}")
    assert (case["state"], case["cause"]) == ("resolved", "data")
    steps = [(one["actor"], one["action"]) for one in case["audit"] if one["actor"] != "kernel"]
    assert steps == [("olga", f"case.{name}") for name in ("triaged", "remediated", "replayed", "resolved")]
    assert (await place.reaches(job_id, "succeeded"))["results"][0]["stage"] == "charge"


@pytest.mark.spec("004.13", "004.16")
async def test_an_input_is_corrected_with_its_difference_and_replayed(browser: Any, place: Deployment) -> None:
    job_id, letter = await place.dies("bugle")
    async with signed_in(browser, place, to=f"/console#letter/{letter}") as page:
        await page.get_by_text("Correct the input").click()
        field = page.get_by_label("The input;")
        words = await field.input_value()
        await field.fill(words.replace("bugle", "trumpet").replace('"item"', '"itemm"'))
        await page.get_by_role("button", name="Show the difference").click()
        await says(page, "item: Field required")
        assert "trumpet" in await field.input_value(), "what was typed is not lost"
        await field.fill(words.replace("bugle", "trumpet"))
        await page.get_by_role("button", name="Show the difference").click()
        await page.locator("del", has_text="bugle").wait_for()
        await page.locator("ins", has_text="trumpet").wait_for()
        assert (await place.ask("GET", f"/api/ops/dead-letters/{letter}"))["state"] == "open", "only looked at"
        await page.get_by_label("Why it is corrected").fill("INC-7")
        await page.get_by_role("button", name="Correct it").click()
        step = await reaches_step(page, "Validate")
        await step.get_by_label("I have looked at").check()
        await act(page, "Dry run")
        await reaches_step(page, "Replay")
        await act(page, "Replay")
        step = await reaches_step(page, "Verify and close")
        await step.get_by_text("succeeded").first.wait_for()
        await step.get_by_label("How it ended").fill("a trumpet was sent")
        await act(page, "Resolve")
        await page.locator("li.done", has_text="Verify and close").get_by_text("a trumpet was sent").wait_for()
        await page.get_by_text("Corrected by olga").first.wait_for()
    case = await place.ask("GET", f"/api/ops/dead-letters/{letter}")
    assert (case["state"], case["input"]["item"], case["original_input"]["item"]) == ("resolved", "trumpet", "bugle")
    assert (await place.reaches(job_id, "succeeded"))["results"][0]["value"] == "paid for trumpet"


async def test_one_that_dies_again_in_the_same_way_is_escalated_and_stands_on_top(
    browser: Any, place: Deployment
) -> None:
    _, letter = await place.dies("drum")
    async with signed_in(browser, place, to="/console") as page:
        await mend(page, letter)
        await says(page, "Escalated: it was fixed and replayed, and died again")
        await go(page, "dead", "Dead letters")
        top = page.get_by_label("Escalated")
        await top.get_by_role("link", name=letter).wait_for()
        await go(page, "overview", "Overview")
        await says(page, "1 dead letter is escalated")
        await go(page, f"letter/{letter}", "CARD_REFUSED in charge")
        await page.get_by_role("button", name="Close without a replay").click()
        await page.get_by_role("dialog").get_by_label("Why").fill("the customer has left")
        await page.get_by_role("button", name="Close it").click()
        await page.locator("li", has_text="the customer has left").first.wait_for()
    assert (await place.ask("GET", f"/api/ops/dead-letters/{letter}"))["state"] == "resolved"


async def test_a_group_is_mended_and_replayed_in_one_dialog_and_followed_on_its_page(
    browser: Any, place: Deployment
) -> None:
    place.mood.error_class = "OUT_OF_PAPER"
    dead = [await place.dies(f"book-{n}") for n in range(4)]
    place.mood.error_class = "CARD_REFUSED"
    async with signed_in(browser, place, to="/console#dead") as page:
        await page.get_by_role("link", name="OUT_OF_PAPER in charge").wait_for()
        await picture(page, "dead-letters", whole=False)
        await page.get_by_role("link", name="OUT_OF_PAPER in charge").click()
        await page.get_by_label(f"Choose {dead[0][1]}").check()
        await page.get_by_role("button", name="Close 1 letter without a replay").click()
        await page.get_by_role("dialog").get_by_label("Why").fill("nobody wants that book")
        await page.get_by_role("button", name="Close them").click()
        await says(page, "1 letter closed.")
        for n in range(4):
            del place.mood.broken[f"book-{n}"]
        await page.get_by_role("button", name="Fix and replay 3 letters").click()
        dialog = page.get_by_role("dialog", name="Fix and replay the group")
        await dialog.get_by_text("3 letters begin at charge.").wait_for()
        await dialog.get_by_text("Nothing was sent to the outside yet.").wait_for()
        await dialog.get_by_label("Set this field").fill("item")
        await dialog.get_by_label("to", exact=True).fill("7")
        await dialog.get_by_text("No letter can be corrected so: The input of").wait_for()
        assert await dialog.get_by_role("button", name="Replay").is_disabled(), "what can do nothing is not offered"
        assert await dialog.get_by_label("What kind of cause").input_value() == "data", "as the category says"
        await dialog.get_by_label("Set this field").fill("")
        await dialog.get_by_text("be corrected so").wait_for(state="detached")
        await dialog.get_by_label("What was fixed").fill("paper was bought")
        await dialog.get_by_label("Letters a minute").fill("20")
        await picture(page, "group", whole=False)
        await dialog.get_by_role("button", name="Replay").click()
        await page.get_by_role("heading", name="Replay of OUT_OF_PAPER in charge").wait_for()
        await page.get_by_role("button", name="Pause").click()
        await says(page, "It takes no further letter.")
        await page.get_by_text("paused", exact=True).wait_for()
        await picture(page, "replay", whole=False)
        await page.get_by_role("button", name="Go on").click()
        await page.get_by_text("3 of 3 letters have ended: 3 succeeded.").wait_for()
        await page.get_by_label("How it ended").fill("all printed")
        await page.get_by_role("button", name="Resolve what has succeeded of 3 replayed letters").click()
        await says(page, "3 letters resolved.")
    letters = (await place.ask("GET", "/api/ops/dead-letters?error_class=OUT_OF_PAPER"))["items"]
    assert [one["state"] for one in letters] == ["resolved"] * 4
    story = await place.ask("GET", f"/api/ops/dead-letters/{dead[3][1]}")
    assert story["evidence"] == "paper was bought"
    acts = [one["action"] for one in story["audit"] if one["actor"] == "olga"]
    assert acts == [f"case.{name}" for name in ("triaged", "remediated", "replayed", "resolved")]


async def test_a_refresh_takes_neither_the_words_nor_the_focus_from_a_hand(browser: Any, place: Deployment) -> None:
    _, letter = await place.dies("fork")
    async with signed_in(browser, place, to=f"/console#letter/{letter}") as page:
        found = page.get_by_label("What you found")
        await found.fill("half a sent")
        drawn = await page.evaluate("performance.getEntriesByType('resource').length")
        await place.dies("knife")
        await page.locator("nav .count").first.wait_for()
        await page.wait_for_function(
            "(before) => performance.getEntriesByType('resource').filter((one) => one.name.includes('/dead-letters/'))"
            ".length > 1 && performance.getEntriesByType('resource').length > before + 3",
            arg=drawn,
        )
        await found.press_sequentially("ence")
        assert await found.input_value() == "half a sentence"
