"""The console as a place to look: the overview's charts, jobs by filter and by any id, breakers, deliveries, people."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from tests.browser.deployment import Deployment
from tests.browser.pages import go, picture, says, signed_in

from holdfast.kernel.operate import cancel
from holdfast.stores.statement import _statement
from holdfast.tables import outbox

MOVED = "UPDATE holdfast_jobs SET stage = 'weigh', run_at = created_at, is_due = 1 WHERE id = :id"
WAIT_AT_LEAST = """(least) => [...document.querySelectorAll("section.card")].some((card) => {
  const chart = card.querySelector("svg[aria-label^='Waiting jobs: ']");
  return card.querySelector("h2, h3")?.textContent.includes("shop") && Number(/\\d+/.exec(chart?.ariaLabel)) >= least;
})"""
"""The shop's chart says so; how many a neighbour has left to wait changes meanwhile."""


@pytest.mark.spec("K17")
async def test_the_overview_draws_a_chart_for_every_measure_of_every_system(browser: Any, place: Deployment) -> None:
    await place.reaches(await place.order("rope"), "succeeded")
    async with signed_in(browser, place, to="/console") as page:
        shop = page.locator("section.card", has=page.get_by_role("heading", name="shop"))
        await shop.get_by_text("bank, P95").wait_for()
        names = await shop.locator("figure figcaption span").all_inner_texts()
        assert names[:4] == ["Stages", "Waiting jobs", "Oldest waits", "Failed attempts"]
        drawn = "(figure) => figure.querySelector('svg').querySelectorAll('.line, .dot, .bar, .base').length"
        counts = [await one.evaluate(drawn) for one in await shop.locator("figure.chart").all()]
        assert len(counts) >= 5 and min(counts) >= 1, "a chart with one point draws something too"
        heard = await shop.locator("svg[aria-label^='Waiting jobs: ']").get_attribute("aria-label")
        waiting = int(re.match(r"Waiting jobs: (\d+)", heard)[1])  # what others have left for later
        assert await shop.locator("svg[aria-label^='Stages']").count() == 1
        place.mood.slow = asyncio.Event()
        jobs = [await place.order("rope") for _ in range(9)]
        await page.wait_for_function(WAIT_AT_LEAST, arg=waiting + 3)
        place.mood.slow.set()
        await asyncio.gather(*(place.reaches(job, "succeeded") for job in jobs))
        await shop.locator("svg[aria-label^='Waiting jobs: ']").wait_for()
        assert await page.locator("#live[data-on=true]").count() == 1
    place.mood.slow = None


async def test_a_busy_system_is_not_said_to_be_at_rest(browser: Any, place: Deployment) -> None:
    """Stages that were done count where no job has ended yet."""
    rest = {"jobs": 0, "died": 0, "failed": 0, "error_rate": 0.0}
    async with signed_in(browser, place) as page:

        async def only_stages(route: Any) -> None:
            answer = await (await route.fetch()).json()
            for system in answer["items"]:
                assert all("stages" in point for point in system["points"])
                system["points"] = [{**point, **rest, "stages": 30} for point in system["points"]]
            await route.fulfill(json=answer)

        await page.route("**/api/ops/charts*", only_stages)
        await page.goto(f"{place.address}/console")
        shop = page.locator("section.card", has=page.get_by_role("heading", name="shop"))
        await shop.get_by_text("30/min").wait_for()


@pytest.mark.spec("K22")
async def test_the_overview_names_a_stage_that_no_running_worker_declares(browser: Any, place: Deployment) -> None:
    kernel = place.kernel()
    job = await place.order("rope", delay_s=3_600)
    async with kernel.store.transaction() as tx:
        await tx.rows(_statement("moved", {None: MOVED}), id=job)
    async with signed_in(browser, place, to="/console") as page:
        await page.get_by_text("1 job is due: no running worker declares the stage 'weigh' of 'shop.order'.").wait_for()
    await cancel(kernel, job, "olga")


async def test_jobs_are_filtered_and_the_filter_is_in_the_address(browser: Any, place: Deployment) -> None:
    done = await place.order("lamp", owner="ann")
    await place.dies("candle", owner="ben")
    await place.dies("wick", owner="bea")
    await place.reaches(done, "succeeded")
    async with signed_in(browser, place, to="/console#jobs") as page:
        await page.get_by_label("Query", exact=True).fill("state:dead owner:b*")
        await page.get_by_label("System", exact=True).select_option("shop")
        await page.get_by_role("button", name="Find").click()
        await page.locator("tbody tr", has_text="CARD_REFUSED").first.wait_for()
        assert "state%3Adead" in page.url and "system=shop" in page.url
        await page.go_back()
        await page.get_by_role("link", name=done).wait_for()
        await page.reload()
        await page.get_by_role("link", name=done).wait_for()


async def test_any_id_finds_its_job(browser: Any, place: Deployment) -> None:
    job_id, letter = await place.dies("kettle", "No kettle.", key="order-77", trace="trace-77")
    parcel = await place.order("cup", "parcel-5")
    story = await place.reaches(parcel, "succeeded")
    wanted = {job_id: job_id, "order-77": job_id, "trace-77": job_id, letter: job_id}
    wanted |= {story["effects"][0]["key"]: parcel, "parcel of parcel-5": parcel, story["outbox"][0]["id"]: parcel}
    async with signed_in(browser, place, to="/console") as page:
        for text, found in wanted.items():
            await go(page, "machines", "Workers and cost")
            await page.get_by_label("Find by any id").fill(text)
            await page.keyboard.press("Enter")
            await page.wait_for_url(f"**/console#job/{found}")
        await page.get_by_label("Find by any id").fill("nothing-has-this-id")
        await page.keyboard.press("Enter")
        await says(page, "No job here fits this.")
        await page.get_by_label("Find by any id").fill("CARD_REFUSED")
        await page.keyboard.press("Enter")
        await page.get_by_role("link", name="Look for it among the errors: error:CARD_REFUSED").click()
        await page.wait_for_function(
            "() => location.hash.includes('error%3ACARD_REFUSED') || location.hash.startsWith('#job/')"
        )


@pytest.mark.spec("K17")
async def test_a_job_tells_its_whole_story_and_why_it_does_not_run(browser: Any, place: Deployment) -> None:
    done = await place.order("chair", "parcel-chair")
    await place.reaches(done, "succeeded")
    async with signed_in(browser, place, to=f"/console#job/{done}") as page:
        await says(page, "there is nothing left to run")
        await page.get_by_text("Timeline in words").click()
        story = page.locator("ol.story")
        for words in (
            "Accepted",
            "Attempt 1 began",
            "Stage done; next is send",
            "bank called in charge: ok",
            "cost 0.0015",
        ):
            await story.get_by_text(words).first.wait_for()
        for words in ("parcel/parcel-chair is known to have happened", "parcel to shop.exchange/parcels", "Succeeded"):
            await story.get_by_text(words).first.wait_for()
        for title in ("Waterfall", "Stages done", "Provider calls", "External effects", "Messages", "Input"):
            assert await page.get_by_role("heading", name=title, exact=True).count() == 1, title
        await says(page, "0.0015 in 2 calls")
        await picture(page, "job")


@pytest.mark.spec("K9", "K18")
async def test_a_breaker_is_opened_its_jobs_wait_in_words_and_it_is_closed(browser: Any, place: Deployment) -> None:
    async with signed_in(browser, place, to="/console#breakers") as page:
        await page.get_by_role("button", name="Open the breaker of bank").click()
        await page.get_by_role("dialog").get_by_label("Why").fill("the bank has announced an outage")
        await page.get_by_role("button", name="Open it").click()
        row = page.locator("tbody tr", has_text="bank")
        await row.get_by_text("open until a person closes it; the bank has announced an outage").wait_for()
        job_id = await place.order("table")
        await row.locator("td:nth-child(5)", has_text="1").wait_for()
        await go(page, f"job/{job_id}", "shop.order")
        await says(page, "a person has opened the breaker of 'bank' (the bank has announced an outage)")
        await picture(page, "held", whole=False)
        await go(page, "breaker/shop/bank", "Breaker of bank")
        await page.locator("tbody tr", has_text="olga").get_by_text("breaker.opened").first.wait_for()
        await picture(page, "breaker")
        await page.get_by_role("button", name="Close the breaker of bank").click()
        await page.get_by_role("dialog").get_by_label("Why").fill("it is back")
        await page.get_by_role("button", name="Close it").click()
        await says(page, "It is closed: calls go through.")
        await page.locator("tbody tr", has_text="breaker.closed").get_by_text("it is back").first.wait_for()
    await place.reaches(job_id, "succeeded")


@pytest.mark.spec("K18")
async def test_a_job_is_cancelled_after_a_question_and_the_audit_says_by_whom(browser: Any, place: Deployment) -> None:
    place.mood.slow = asyncio.Event()
    job_id = await place.order("sofa")
    await place.reaches(job_id, "processing")
    async with signed_in(browser, place, to=f"/console#job/{job_id}") as page:
        await says(page, "It is running")
        await page.get_by_role("button", name="Cancel").click()
        await page.get_by_role("button", name="Leave it").click()
        await page.get_by_role("button", name="Cancel").click()
        await page.get_by_role("button", name="Cancel the job").click()
        await says(page, "It was cancelled by olga")
        await go(page, "audit", "Audit")
        await page.locator("tbody tr", has_text=job_id).get_by_text("job.cancelled").wait_for()
        assert '{"' not in "".join(await page.locator("td[data-title=Details]").all_inner_texts())
    place.mood.slow.set()
    place.mood.slow = None


@pytest.mark.spec("K10", "K12")
async def test_what_is_stuck_says_why_and_a_person_can_move_it(browser: Any, place: Deployment) -> None:
    kernel = place.kernel("grading-main")
    message = kernel.new_uuid4()
    async with kernel.store.transaction() as tx:
        await outbox.put(tx, [(message, "agg-1", "nowhere/at-all", "lost", "{}", "{}")], kernel.now())
        (row,) = await outbox.claim(tx, "a-token", kernel.now(), kernel.now() + 60_000, 1)
        await outbox.refused(tx, "a-token", row.seq, "no route to <b>nowhere</b>", kernel.now(), 1)
    place.mood.vague.add("parcel-9")
    job_id = await place.order("vase", "parcel-9")
    await place.reaches(job_id, "dead")
    async with signed_in(browser, place, to="/console#outbox") as page:
        row = page.locator("tbody tr", has_text="nowhere/at-all")
        await row.get_by_text("Set aside after 1 refusal: no route to <b>nowhere</b>").wait_for()
        doubt = page.locator("tbody tr", has_text="parcel/parcel-9")
        await doubt.get_by_text("Only a person can know whether it happened").wait_for()
        await picture(page, "outbox")
        await row.get_by_role("button", name="Publish again").click()
        await says(page, "It is published again.")
        await doubt.get_by_role("button", name="It happened").click()
        await page.get_by_label("The provider's id").fill("POST-9")
        await page.get_by_role("button", name="It has happened").click()
        await says(page, "Recorded as sent.")
        await doubt.wait_for(state="detached")
    story = await place.ask("GET", f"/api/ops/jobs/{job_id}")
    assert story["effects"][0]["provider_id"] == "POST-9"
    acts = await place.ask("GET", "/api/ops/audit?actor=olga")
    assert {"outbox.requeued", "effect.answered"} <= {one["action"] for one in acts["items"]}


async def test_the_instructor_queue_names_the_role_it_needs(browser: Any, place: Deployment) -> None:
    async with signed_in(browser, place, roles=["operator"], to="/console#queue") as page:
        await says(page, "This needs the role instructor")
