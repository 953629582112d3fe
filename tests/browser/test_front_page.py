"""The front page in a real browser: what runs here, and each system tried from the form to the result."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.browser.deployment import Deployment
from tests.browser.pages import CONTRAST, HOSTILE, PATIENCE_MS, picture, says, signed_in, watched
from tests.systems.conversion import pdfs
from tests.systems.review.git_repo import Repo

from holdfast.http.pages import OIDC_WAY

VILLAGE = Path(__file__).parents[1] / "systems" / "grading" / "data" / "village.ogg"
LONG_ESSAY = " ".join(["Although the weather was unpleasant, we nevertheless decided to continue our journey."] * 12)


def card(page: Any, title: str) -> Any:
    return page.locator("section.card", has=page.get_by_role("heading", name=title))


async def test_anybody_sees_what_runs_here_and_that_trying_needs_a_sign_in(browser: Any, place: Deployment) -> None:
    page = await browser.new_page(reduced_motion="reduce")
    noted = watched(page)
    try:
        await page.goto(place.address)
        await says(page, "Ready to accept work.")
        assert await page.locator("#health .good").count() == 0, "the lights are for who may see them"
        assert await page.locator("#systems li").count() == 5
        await page.get_by_role("link", name="Sign in to try it").wait_for()
        await card(page, "Grade an essay").get_by_role("button").click()
        await card(page, "Grade an essay").get_by_text("Sign in first; what you typed stays.").wait_for()
        await page.get_by_label("Essay or email").fill("typed too early")
        await page.get_by_label("Mail to").fill("rita@example.test")
        await page.goto(f"{place.address}/login#{place.token()}")
        await page.wait_for_url(f"{place.address}/")
        for _ in range(2):  # after the sign-in, and after a reload
            await page.locator("#systems li").first.wait_for()
            assert await page.get_by_label("Essay or email").input_value() == "typed too early"
            assert await page.get_by_label("Mail to").input_value() == "rita@example.test"
            await page.reload()
        assert noted == []
    finally:
        await page.close()


async def test_there_is_no_way_into_the_console_without_an_operators_token(browser: Any, place: Deployment) -> None:
    page = await browser.new_page(reduced_motion="reduce")
    try:
        await page.goto(f"{place.address}/console")
        assert page.url.endswith("/login?next=console")
        await page.get_by_label("Token").fill("not-a-token")
        await page.get_by_role("button", name="Sign in").click()
        await says(page, "The bearer token is not valid.")
        await page.get_by_label("Token").fill(place.token("lena", ["learner"]))
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url("**/console")
        assert "operators" in await page.content()
        await page.goto(f"{place.address}/login?next=console#{place.token()}")
        await page.wait_for_url("**/console")
        await page.get_by_role("heading", name="Overview").wait_for()
        assert place.token()[:20] not in page.url
    finally:
        await page.close()


async def test_what_is_not_well_is_said(browser: Any, place: Deployment) -> None:
    """The answers of a server in trouble, as `/readyz` gives them."""
    page = await browser.new_page(reduced_motion="reduce")
    ill = {"systems": {"conversion": "the database does not answer or is not migrated", "review": "ready"}}
    try:
        await page.route("**/readyz", lambda route: route.fulfill(status=503, json=ill))
        await page.goto(place.address)
        await says(page, "Not everything is ready.")
        await says(page, "the database does not answer or is not migrated")
        await page.unroute("**/readyz")
        await page.route("**/readyz", lambda route: route.abort())
        await says(page, "The server does not answer.")
    finally:
        await page.close()


async def test_an_operator_is_told_that_a_ready_system_asks_for_a_person(browser: Any, place: Deployment) -> None:
    seen = await place.ask("GET", "/api/ops/overview")
    for item in seen["items"]:
        item["light"] = "yellow" if item["system"] == "shop" else "green"
    async with signed_in(browser, place) as page:
        await page.route("**/api/ops/overview", lambda route: route.fulfill(json=seen))
        await page.reload()
        await says(page, "Ready for work; 1 system asks for a person.")


async def test_a_second_tab_needs_no_second_sign_in(browser: Any, place: Deployment) -> None:
    async with signed_in(browser, place) as page:
        second = await page.context.new_page()
        await second.goto(f"{place.address}/console#jobs")
        await second.get_by_role("heading", name="Jobs").wait_for()
        await says(second, "olga")


@pytest.mark.spec("G15")
async def test_an_essay_is_graded_while_one_looks_on(browser: Any, place: Deployment) -> None:
    async with signed_in(browser, place) as page:
        box = card(page, "Grade an essay")
        await box.get_by_label("Essay or email").fill(f"{LONG_ESSAY} {HOSTILE}")
        await box.get_by_label("Task").select_option("essay")
        await box.get_by_role("button", name="Grade it").click()
        await box.get_by_text("accepted as").wait_for()
        await box.get_by_text("graded, but not surely enough").wait_for()
        await box.get_by_role("heading", name="What the machine says").wait_for()
        assert await box.locator("dl.criteria dt").count() == 4, "the grade is shown with its criteria"
        await page.reload()
        await box.get_by_role("button", name="I am the instructor").click()
        await box.locator(".story").get_by_text(re.compile("graded$")).wait_for()
        assert await box.get_by_role("heading", name="What the machine says").count() == 0, (
            "the final one took its place"
        )
        await page.reload()
        await box.locator(".score").get_by_text("/ 10").wait_for()


@pytest.mark.spec("G15")
async def test_a_recording_is_transcribed_and_graded(browser: Any, place: Deployment) -> None:
    async with signed_in(browser, place) as page:
        box = card(page, "Grade a recording")
        await box.get_by_label("Audio file").set_input_files(str(VILLAGE))
        await box.get_by_role("button", name="Grade it").click()
        await box.get_by_text("16 s of audio received").wait_for()
        await box.locator(".follow").get_by_text("graded").first.wait_for(timeout=2 * PATIENCE_MS)


@pytest.mark.spec("C10")
async def test_a_pdf_is_converted_to_the_end_and_a_fake_one_is_refused(
    browser: Any, place: Deployment, tmp_path: Path
) -> None:
    good, fake = tmp_path / "tides.pdf", tmp_path / "<img src=x onerror=alert(1)>.pdf"
    good.write_bytes(pdfs.good())
    fake.write_bytes(b"<html>" * 300)
    async with signed_in(browser, place) as page:
        box = card(page, "Convert a PDF")
        await box.get_by_label("PDF file").set_input_files(str(good))
        await box.get_by_role("button", name="Convert it").click()
        await box.locator(".document").get_by_role("heading", name="Chapter 2").wait_for()
        await box.get_by_text("The whole XML").click()
        whole = await box.locator("details pre").inner_text()
        assert "<head>Chapter 2</head>" in whole and whole.rstrip().endswith("</TEI>")
        async with page.expect_download() as saved:
            await box.get_by_role("link", name="Download the XML").click()
        assert (await (await saved.value).path()).read_text().strip() == whole.strip()
        await box.get_by_label("PDF file").set_input_files(str(fake))
        await box.get_by_role("button", name="Convert it").click()
        await box.get_by_text("The file is not a PDF.").wait_for()


@pytest.mark.spec("R1")
async def test_a_git_range_is_reviewed_and_its_reviewer_told(browser: Any, place: Deployment) -> None:
    repo = Repo(place.folder / "repo")
    repo.commit("begin", {"a.py": "print(1)\n"})
    repo.commit("break it", {"a.py": "try:\n    pass\nexcept:\n    pass\npassword = 'hunter2hunter2'\n"})
    async with signed_in(browser, place) as page:
        box = card(page, "Review a git range")
        await box.get_by_label("Repository").fill(str(repo.path))
        await box.get_by_label("Mail to").fill("ann@example.test, ben@example.test")
        await box.get_by_role("button", name="Review it").click()
        await box.get_by_text("ann@example.test: sent; ben@example.test: sent").wait_for()
        assert await box.locator(".result li").count() >= 1
        await box.get_by_text("The mail to ann@example.test").click()
        await box.locator("details.mail[open] pre").get_by_text("a.py").first.wait_for()
        await box.get_by_label("Range").fill("nowhere..HEAD")
        await box.get_by_role("button", name="Review it").click()
        await box.get_by_text("failed: The repository has no commit").wait_for()
        await box.get_by_label("Mail to").evaluate("(input) => { input.type = 'text'; }")  # whoever asks the API itself
        await box.get_by_label("Mail to").fill(f"{HOSTILE.split('>')[0]}>@example.test")
        await box.get_by_role("button", name="Review it").click()
        await box.get_by_text("none of the recipients is an address").wait_for()


async def test_every_page_is_readable_in_both_schemes(browser: Any, place: Deployment) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    grounds: dict[str, set[str]] = {"light": set(), "dark": set()}
    async with signed_in(browser, place) as page:
        await page.locator("#systems li").first.wait_for()
        for path in ("/", "/convert", "/login", "/console"):
            if path != "/":
                await page.goto(place.address + path)
                await page.get_by_role("heading").first.wait_for()
            for scheme in ("light", "dark"):
                await page.emulate_media(color_scheme=scheme)
                assert await page.evaluate(CONTRAST) == [], (path, scheme)
                grounds[scheme].add(await page.evaluate(ground))
                if path == "/":
                    await picture(page, f"front-{scheme}")
        assert {scheme: len(seen) for scheme, seen in grounds.items()} == {"light": 1, "dark": 1}, "one style sheet"
        await page.get_by_role("button", name="Light or dark").click()
        assert await page.evaluate(ground) not in grounds["dark"]


async def test_the_cookie_alone_may_do_nothing(place: Deployment) -> None:
    """Another site can make a browser send the cookie, and nothing else: it opens a page and no route of the API."""
    async with httpx.AsyncClient(base_url=place.address) as client:
        token = place.token()
        begun = await client.post("/api/session", headers={"Authorization": f"Bearer {token}"})
        assert "HttpOnly" in begun.headers["set-cookie"] and "SameSite=strict" in begun.headers["set-cookie"]
        client.cookies.set("holdfast_console", token)
        assert (await client.get("/console")).status_code == 200
        for path in ("/api/ops/breakers/bank/open", "/api/tickets", "/api/submissions"):
            assert (await client.post(path, json={})).status_code == 401, path
        assert (await client.delete("/api/session")).status_code == 401, "nor sign anybody out"


async def test_whoever_is_no_operator_is_told_in_words_and_a_program_in_a_problem(
    browser: Any, place: Deployment
) -> None:
    async with signed_in(browser, place, sub="ivo", roles=["instructor"], to="/console") as page:
        await page.get_by_role("heading", name="The console is for operators").wait_for()
        await says(page, "ivo")
        await page.get_by_role("link", name="Instructors").wait_for()
        assert await page.evaluate(CONTRAST) == []
        await picture(page, "forbidden")
    async with httpx.AsyncClient(base_url=place.address) as client:
        client.cookies.set("holdfast_console", place.token("ivo", ["instructor"]))
        pages = {kind: await client.get("/console", headers={"Accept": kind}) for kind in ("text/html", "*/*")}
    assert {kind: (page.status_code, page.headers["content-type"]) for kind, page in pages.items()} == {
        "text/html": (403, "text/html; charset=utf-8"),
        "*/*": (403, "application/problem+json"),
    }


async def test_signing_out_ends_the_session_in_every_tab(browser: Any, place: Deployment) -> None:
    async with signed_in(browser, place, to="/console") as page:
        other = await page.context.new_page()
        await other.goto(f"{place.address}/convert")
        await says(other, "olga")
        await page.get_by_role("button", name="Sign out").click()
        for tab in (page, other):
            await tab.wait_for_url(f"{place.address}/login")
            assert await tab.evaluate("sessionStorage.length") == 0
        await page.goto(f"{place.address}/console")
        assert page.url == f"{place.address}/login?next=console"
        assert await page.get_by_role("button", name="Sign out").count() == 0


@pytest.mark.spec("K30")
async def test_the_view_that_somebody_wanted_survives_the_organisations_sign_in(
    browser: Any, place: Deployment
) -> None:
    """What the server does between the two pages is tested with a provider of its own (tests/http/test_oidc.py)."""
    context = await browser.new_context(reduced_motion="reduce")
    page = await context.new_page()
    token = place.token("carla", ["viewer"])

    async def invite(route: Any) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, body=(await answer.text()).replace("<form>", f"{OIDC_WAY}<form>"))

    async def sign_in(route: Any) -> None:
        where = route.request.url.replace("/login/oidc?", "/login?")
        await route.fulfill(status=303, headers={"Location": f"{where}#{token}"})

    try:
        await page.route("**/login?next=*", invite)
        await page.route("**/login/oidc?*", sign_in)
        await page.goto(f"{place.address}/login?next=console#jobs?q=owner%3Anobody")
        await page.get_by_role("link", name="Sign in with your organisation").click()
        await page.get_by_role("heading", name="Jobs that fit owner:nobody").wait_for()
    finally:
        await context.close()
