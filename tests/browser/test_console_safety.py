"""What others wrote is shown and never runs, in every view; the console works by keyboard, in light and in dark."""

from __future__ import annotations

from typing import Any

import pytest
from tests.browser.deployment import Deployment
from tests.browser.pages import CONTRAST, HOSTILE, go, picture, says, signed_in

from holdfast.kernel.hold import force
from holdfast.kernel.operate import remediate, triage
from holdfast.operator.incident_watch import watch_incidents
from holdfast.tables import outbox

FILE_NAME = "<img src=x onerror=window.hacked=1>.pdf"
VIEWS = (
    ("overview", "Overview"),
    ("jobs", "Jobs"),
    ("dead", "Dead letters"),
    ("breakers", "Breakers"),
    ("breaker/shop/bank", "Breaker of bank"),
    ("outbox?message=published&effect=sent", "Outbox and deliveries"),
    ("outbox", "Outbox and deliveries"),
    ("queue", "Instructor queue"),
    ("machines", "Workers and cost"),
    ("audit", "Audit"),
)


async def plant(place: Deployment) -> tuple[str, str, str]:
    """Hostile words in every field that somebody outside can fill. The ids of a dead job, its letter and its review."""
    kernel = place.kernel()
    place.mood.error_class = "ODD"
    job_id, letter = await place.dies(HOSTILE, HOSTILE, owner=HOSTILE[:200], key=HOSTILE, trace=HOSTILE)
    place.mood.error_class = "CARD_REFUSED"
    await triage(kernel, letter, cause="data", actor=HOSTILE, notes=HOSTILE)
    await remediate(kernel, letter, evidence=HOSTILE, actor=HOSTILE)
    async with kernel.store.transaction() as tx:
        await outbox.put(tx, [(kernel.new_uuid4(), job_id, f"x/{HOSTILE}", HOSTILE, "{}", "{}")], kernel.now())
        (row,) = await outbox.claim(tx, "a-token", kernel.now(), kernel.now() + 60_000, 1)
        await outbox.refused(tx, "a-token", row.seq, HOSTILE, kernel.now(), 1)
    place.mood.vague.add(HOSTILE)
    await place.reaches(await place.order("a parcel", HOSTILE), "dead")
    essay = {"skill": "writing", "payload": {"text": HOSTILE, "taskType": "email", "questionId": "q"}}
    headers = {"Idempotency-Key": kernel.new_uuid4()}
    await place.ask("POST", "/api/submissions", sub=HOSTILE[:200], json=essay, headers=headers)
    await place.ask("POST", "/api/jobs", files={"file": (FILE_NAME, b"%PDF-1.7\n" + b"x" * 2_000)})
    review = {
        "idempotency_key": HOSTILE,
        "review_version": 1,
        "recipients": [HOSTILE, "ann@example.com"],
        "title": HOSTILE,
    }
    review["source"] = {"type": "git", "repo": str(place.folder), "range": HOSTILE}
    made = await place.ask("POST", "/api/changelists/%3Cimg%20src=x%20onerror=window.hacked=1%3E/reviews", json=review)
    return job_id, letter, str(made["job_id"])


@pytest.mark.spec("K7")
async def test_nothing_that_somebody_wrote_runs_in_any_view(browser: Any, place: Deployment) -> None:
    kernel = place.kernel()
    job_id, letter, review = await plant(place)
    await place.reaches(review, "dead", "succeeded")
    await force(kernel, "bank", open=True, actor=HOSTILE, reason=HOSTILE)
    await watch_incidents(kernel)
    try:
        await look_at_all(browser, place, job_id, letter, review)
    finally:
        await force(kernel, "bank", open=False, actor="olga", reason="over")


async def look_at_all(browser: Any, place: Deployment, job_id: str, letter: str, review: str) -> None:
    async with signed_in(browser, place, to="/console") as page:
        views = [*VIEWS, (f"job/{job_id}", "shop.order"), (f"job/{review}", "review.review")]
        views += [(f"letter/{letter}", "ODD in charge"), ("incidents", "Incidents")]
        for view, title in views:
            await go(page, view, title)
            assert await page.locator("img[src=x], main script").count() == 0, view
        for view in ("overview", "breaker/shop/bank", "outbox", "queue", "audit", f"job/{job_id}", f"letter/{letter}"):
            await go(page, view, dict(views)[view])
            await page.get_by_text("onerror=").first.wait_for()
        fingerprint = (await place.ask("GET", f"/api/ops/dead-letters/{letter}"))["fingerprint"]
        await go(page, f"group/shop/{fingerprint}", "ODD in charge")
        await page.get_by_label("Find by any id").fill(HOSTILE)
        await page.keyboard.press("Enter")
        await page.get_by_role("link", name=job_id).wait_for()
        await page.evaluate("(hash) => { location.hash = hash; }", f"jobs?owner={HOSTILE[:60]}")
        await page.get_by_role("heading", name="Jobs").wait_for()
        assert await page.evaluate("window.hacked") is None
        await page.goto(f"{place.address}/convert")
        await page.locator("li.job .name", has_text="onerror=").wait_for()
        assert await page.locator("img[src=x]").count() == 0


@pytest.mark.spec("K7", "K30")
async def test_nothing_that_a_hand_or_a_handler_wrote_runs(browser: Any, place: Deployment) -> None:
    """Pauses, log lines of attempts, incidents from comment to post-mortem, kept views, the Time page."""
    kernel = place.kernel()
    job_id, _ = await place.dies(f"anchor {HOSTILE}", HOSTILE)
    await force(kernel, "bank", open=True, actor=HOSTILE, reason=HOSTILE)
    await watch_incidents(kernel)
    listed = (await place.ask("GET", "/api/ops/incidents"))["items"]
    incident = f"/api/ops/incidents/{next(each for each in listed if each['state'] != 'closed')['id']}"
    await place.ask("POST", f"{incident}/assign", json={"assignee": HOSTILE})
    await place.ask("POST", f"{incident}/comment", json={"text": HOSTILE})
    await place.ask("POST", "/api/ops/pauses/kind/shop.bundle/pause", json={"reason": HOSTILE})
    try:
        async with signed_in(browser, place, to="/console") as page:
            views = [("machines", "Workers and cost"), (f"job/{job_id}", "shop.order"), ("time", "Time")]
            for view, title in views[:2]:
                await go(page, view, title)
                await page.get_by_text("onerror=").first.wait_for()
            await page.get_by_text("charging for anchor <img").first.wait_for()
            await go(page, *views[2])
            await go(page, "jobs", "Jobs")
            await page.get_by_role("button", name="Save this view").click()
            await page.get_by_role("dialog").get_by_label("Its name").fill(HOSTILE[:60])
            await page.get_by_role("dialog").get_by_role("button", name="Save").click()
            await page.locator("ul.views", has_text="onerror=").wait_for()
            await go(page, "incidents", "Incidents")
            heads = "all => all.map((head) => [head.offsetHeight < 80, head.scrollWidth <= head.clientWidth])"
            assert all(map(all, await page.locator(".incident .head").evaluate_all(heads))), "a long name is cut"
            await page.get_by_role("link", name="provider down: bank").first.click()
            await page.get_by_text("onerror=").first.wait_for()
            assert await page.locator("img[src=x], main script").count() == 0
    finally:
        await place.ask("POST", "/api/ops/pauses/kind/shop.bundle/resume", json={"reason": "over"})
        await force(kernel, "bank", open=False, actor="olga", reason="over")


# In the page, as a text that was taken for markup would do it.
SLIP = """() => {
    window.ran = 0;
    const written = document.createElement("script");
    written.textContent = "window.ran = 1";
    const image = document.createElement("img");
    image.setAttribute("onerror", "window.ran = 2");
    image.src = "data:,";
    const link = document.createElement("a");
    link.href = "javascript:void(window.ran = 3)";
    document.body.append(written, image, link);
    link.click();
    return new Promise((done) => image.addEventListener("error", () => setTimeout(() => done(window.ran))));
}"""


@pytest.mark.spec("K7", "K30")
async def test_the_policy_stops_what_would_slip_in_as_markup(browser: Any, place: Deployment) -> None:
    page = await browser.new_page()
    try:
        await page.goto(f"{place.address}/login")
        assert await page.evaluate(SLIP) == 0
    finally:
        await page.close()


async def focused(page: Any) -> str:
    return str(await page.evaluate("document.activeElement.innerText || document.activeElement.id"))


async def tab_to(page: Any, words: str) -> None:
    """Press Tab until what has the focus says this."""
    for _ in range(60):
        if words in await focused(page):
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"the keyboard does not reach '{words}'")


async def test_a_letter_is_worked_with_the_keyboard_alone(browser: Any, place: Deployment) -> None:
    _, letter = await place.dies("spoon")
    async with signed_in(browser, place, to="/console") as page:
        await page.get_by_role("heading", name="Overview").wait_for()
        await page.keyboard.press("g")
        await page.keyboard.press("d")
        await page.get_by_role("heading", name="Dead letters").wait_for()
        await page.keyboard.press("/")
        assert await focused(page) == "q"
        await page.keyboard.type(letter)
        await page.keyboard.press("Enter")
        await page.get_by_role("link", name="Work on it").wait_for()
        await tab_to(page, "Work on it")
        await page.keyboard.press("Enter")
        await page.locator("li.now", has_text="Triage").wait_for()
        await tab_to(page, "f-found")
        await page.keyboard.type("seen by keyboard")
        await page.keyboard.press("Enter")
        await page.locator("li.now", has_text="Remediate").wait_for()
        await tab_to(page, "f-evidence")
        await page.keyboard.type("mended by keyboard")
        await tab_to(page, "Record the evidence")
        await page.keyboard.press("Enter")
        await page.locator("li.now", has_text="Validate").wait_for()
        await page.keyboard.press("?")
        await page.get_by_role("dialog", name="Keys").wait_for()
        await page.keyboard.press("Escape")
        await page.get_by_role("dialog").wait_for(state="detached")
    case = await place.ask("GET", f"/api/ops/dead-letters/{letter}")
    assert (case["notes"], case["evidence"]) == ("seen by keyboard", "mended by keyboard")


async def test_every_view_is_readable_in_both_schemes(browser: Any, place: Deployment) -> None:
    job_id, letter = await place.dies("plate")
    async with signed_in(browser, place, to="/console") as page:
        await page.locator("#live[data-on=true]").wait_for()
        for view, title in (*VIEWS, (f"job/{job_id}", "shop.order"), (f"letter/{letter}", "CARD_REFUSED in charge")):
            await go(page, view, title)
            for scheme in ("light", "dark"):
                await page.emulate_media(color_scheme=scheme)
                assert await page.evaluate(CONTRAST) == [], (view, scheme)
            await page.set_viewport_size({"width": 400, "height": 900})
            assert await page.evaluate("document.documentElement.scrollWidth") == 400, f"{view} is too wide"
            await page.set_viewport_size({"width": 1280, "height": 720})
        await page.evaluate("for (const one of document.querySelectorAll('.count')) one.textContent = '1000'")
        rail = page.locator("header.top")
        assert await rail.evaluate("(one) => one.scrollHeight <= innerHeight && one.offsetWidth < 230"), (
            "the rail is too large"
        )
        assert await page.evaluate("document.documentElement.scrollWidth") == 1280
        await go(page, "overview", "Overview")
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            await picture(page, f"overview-{scheme}")


async def test_a_session_that_has_ended_says_so(browser: Any, place: Deployment) -> None:
    async with signed_in(browser, place, to="/console") as page:
        await page.evaluate("sessionStorage.setItem('holdfast.token', 'gone')")
        await page.evaluate("location.hash = 'jobs'")
        await says(page, "The bearer token is not valid.")
        await page.get_by_role("link", name="Sign in again").wait_for()
