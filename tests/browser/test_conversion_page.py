"""The conversion page in a real browser: drop, watch, retry, download; by keyboard too; light and dark."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.browser.pages import CONTRAST, PATIENCE_MS, picture, watched
from tests.systems.conversion import pdfs
from tests.systems.conversion.live import live
from tests.systems.conversion.place import Place, ToldGateway

from holdfast.errors import CallError
from holdfast.http.auth import token_for
from holdfast.kernel.hold import force
from holdfast_systems.conversion.embedded import EmbeddedGateway

pytestmark = pytest.mark.spec("C10")


@asynccontextmanager
async def opened_page(browser: Any, place: Place, address: str, sub: str = "ann", **options: Any) -> AsyncIterator[Any]:
    """The page, signed in, in a tab of its own; every error that the browser notes fails the test."""
    context = await browser.new_context(reduced_motion="reduce", **options)
    context.set_default_timeout(PATIENCE_MS)
    page = await context.new_page()
    noted = watched(page)
    await page.goto(f"{address}/convert#token={token_for(place.base, sub, [])}")
    try:
        yield page
        assert noted == []
    finally:
        await context.close()


def stored(folder: Path, name: str, content: bytes) -> str:
    path = folder / name
    path.write_bytes(content)
    return str(path)


def form_of(name: str, content: bytes) -> tuple[bytes, str]:
    """An upload as a browser sends it, and its content type."""
    head = f'--edge\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    return head.encode() + content + b"\r\n--edge--\r\n", "multipart/form-data; boundary=edge"


def read(path: str) -> str:
    return Path(path).read_text()


async def shows(page: Any, name: str, status: str) -> Any:
    """The row of a file, once it says this."""
    row = page.locator("li.job", has_text=name)
    await row.locator(".status", has_text=status).wait_for()
    return row


async def test_a_person_drops_a_pdf_and_downloads_its_xml(browser: Any, tmp_path: Path) -> None:
    async with live(tmp_path, EmbeddedGateway()) as (place, address), opened_page(browser, place, address) as page:
        await page.get_by_text("No documents yet.").wait_for()
        assert "token" not in page.url, "the token stays out of the address"
        files = [stored(tmp_path, "tides.pdf", pdfs.good()), stored(tmp_path, "fake.pdf", b"<html>" * 300)]
        await page.set_input_files("#files", files)
        refused = await shows(page, "fake.pdf", "Not accepted")
        assert await refused.locator(".line").inner_text() == "The file is not a PDF."
        row = await shows(page, "tides.pdf", "Complete")
        assert await page.locator("#news").inner_text() != "", "nothing was announced"
        async with page.expect_download() as caught:
            await row.get_by_role("button", name="Download XML of tides.pdf").click()
        saved = await caught.value
        assert saved.suggested_filename == "tides.xml"
        assert "<head>Chapter 2</head>" in read(await saved.path())
        await page.reload()
        await shows(page, "tides.pdf", "Complete")


async def test_a_drop_is_an_upload(browser: Any, tmp_path: Path) -> None:
    async with live(tmp_path, ToldGateway()) as (place, address), opened_page(browser, place, address) as page:
        await page.get_by_text("No documents yet.").wait_for()
        await page.evaluate(
            """() => {
              const data = new DataTransfer();
              data.items.add(new File(["%PDF-1.7\\n" + "x".repeat(2000)], "dropped.pdf", {type: "application/pdf"}));
              document.getElementById("drop").dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true}));
            }"""
        )
        await shows(page, "dropped.pdf", "Complete")


async def test_an_answer_that_comes_after_the_news_of_the_end_changes_nothing(browser: Any, tmp_path: Path) -> None:
    """The stream says that the job is complete while its upload still waits to hear that it is queued."""
    async with live(tmp_path, ToldGateway()) as (place, address), opened_page(browser, place, address) as page:
        told = asyncio.Event()

        async def hold_back(route: Any) -> None:
            if route.request.method != "POST":
                await route.fallback()
                return
            form, kind = form_of("quick.pdf", pdfs.good())  # a route is not shown the content of a file
            answer = await route.fetch(headers={**route.request.headers, "content-type": kind}, post_data=form)
            await told.wait()
            await route.fulfill(response=answer)

        await page.route("**/api/jobs", hold_back)
        await page.get_by_text("No documents yet.").wait_for()
        await page.set_input_files("#files", stored(tmp_path, "quick.pdf", pdfs.good()))
        await page.locator("li.job .status", has_text="Complete").wait_for()
        assert await page.locator("li.job .status", has_text="Uploading").count() == 1
        told.set()
        await page.locator("li.job .status", has_text="Uploading").wait_for(state="detached")
        assert await page.locator("li.job .status").all_inner_texts() == ["Complete"]
        assert await page.locator("#news").inner_text() == "quick.pdf: Complete."


@pytest.mark.spec("001.26")
async def test_a_failure_is_one_line_and_retry_works_while_the_source_is_here(browser: Any, tmp_path: Path) -> None:
    gateway = ToldGateway(errors=[CallError.from_status(422, "at /srv/x", {}, now_ms=0)])
    async with (
        live(tmp_path, gateway, EXPIRY_CHECK_SEC="0.1") as (place, address),
        opened_page(browser, place, address) as page,
    ):
        await page.set_input_files("#files", stored(tmp_path, "odd.pdf", pdfs.good()))
        row = await shows(page, "odd.pdf", "Failed")
        assert await row.locator(".line").inner_text() == "The converter refused this document."
        retry = row.get_by_role("button", name="Retry odd.pdf")
        assert await retry.is_enabled()
        await retry.focus()
        await page.keyboard.press("Enter")
        await shows(page, "odd.pdf", "Complete")
        assert await row.evaluate("(row) => row === document.activeElement"), "the keyboard lost its place"


@pytest.mark.spec("001.26")
async def test_retry_is_disabled_when_the_source_is_gone(browser: Any, tmp_path: Path) -> None:
    gateway = ToldGateway(errors=[CallError.from_status(422, "no", {}, now_ms=0)])
    env = {"EXPIRY_CHECK_SEC": "0.1", "SOURCE_RETENTION_SEC": "0"}
    async with live(tmp_path, gateway, **env) as (place, address), opened_page(browser, place, address) as page:
        await page.set_input_files("#files", stored(tmp_path, "odd.pdf", pdfs.good()))
        row = await shows(page, "odd.pdf", "Failed")
        await row.get_by_text("The PDF is no longer here; upload it again.").wait_for()
        assert await row.get_by_role("button", name="Retry odd.pdf").is_disabled()


@pytest.mark.spec("C4", "001.19")
async def test_the_banner_comes_and_goes_by_itself(browser: Any, tmp_path: Path) -> None:
    async with live(tmp_path, ToldGateway()) as (place, address), opened_page(browser, place, address) as page:
        await page.get_by_text("No documents yet.").wait_for()
        await force(place.kernel, "gateway", open=True, actor="ops", reason="a drill")
        banner = page.get_by_text("Converter busy - jobs will resume automatically")
        await banner.wait_for()
        await page.set_input_files("#files", stored(tmp_path, "later.pdf", pdfs.good()))
        await shows(page, "later.pdf", "Queued")
        await force(place.kernel, "gateway", open=False, actor="ops", reason="over")
        await banner.wait_for(state="hidden")
        await shows(page, "later.pdf", "Complete")


async def test_many_jobs_share_one_stream_and_a_cancel_is_seen(browser: Any, tmp_path: Path) -> None:
    """A browser opens six connections to a host: a stream for each row would block the eighth upload."""
    gateway = ToldGateway(hold=asyncio.Event())
    async with live(tmp_path, gateway) as (place, address), opened_page(browser, place, address) as page:
        await page.set_input_files("#files", [stored(tmp_path, f"n{i}.pdf", pdfs.good()) for i in range(12)])
        await page.locator("li.job .status", has_text="Queued").nth(9).wait_for()
        await page.get_by_role("button", name="Cancel n11.pdf").click()
        await shows(page, "n11.pdf", "Cancelled")
        assert gateway.hold is not None
        gateway.hold.set()
        await page.locator("li.job .status", has_text="Complete").nth(10).wait_for()


async def test_it_is_usable_by_keyboard_and_readable_in_both_schemes(browser: Any, tmp_path: Path) -> None:
    async with live(tmp_path, ToldGateway()) as (place, address), opened_page(browser, place, address) as page:
        # Asked for well before the key: `expect_file_chooser` does not wait until the browser has heard of it.
        chooser: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        page.once("filechooser", lambda opened: chooser.set_result(opened))
        await page.get_by_text("No documents yet.").wait_for()
        while await page.evaluate("document.activeElement.id") != "choose":
            await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await (await asyncio.wait_for(chooser, PATIENCE_MS / 1_000)).set_files(
            stored(tmp_path, "keys.pdf", pdfs.good())
        )
        await shows(page, "keys.pdf", "Complete")
        assert await page.locator("[aria-live=polite]").count() == 1
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            assert await page.evaluate(CONTRAST) == [], scheme
            await picture(page, f"convert-{scheme}")
