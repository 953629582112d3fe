"""The page's files are served as they are, and hold nothing that the content security policy would have to allow."""

from __future__ import annotations

import re

import pytest
from tests.systems.conversion.place import Place

pytestmark = pytest.mark.spec("C10")
ASSETS = ("text/css", "text/javascript", "image/svg+xml")


async def test_the_page_and_its_files_are_there_for_anyone(place: Place) -> None:
    client = place.client(None)
    page = await client.get("/convert")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    wanted = re.findall(r'(?:src|href)="([^"]+\.\w+)"', page.text)
    assert {"static/holdfast.css", "static/conversion/convert.css"} < set(wanted)
    for path in wanted:
        answer = await client.get(path)
        assert answer.status_code == 200 and answer.headers["content-type"].startswith(ASSETS)
    assert (await client.get("/static/conversion/..%2fsettings.py")).status_code == 404


async def test_nothing_in_the_page_needs_an_exception(place: Place) -> None:
    page = await place.client(None).get("/convert")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", page.text) == []
    script = (await place.client(None).get("/static/conversion/convert.js")).text
    assert "innerHTML" not in script and "eval(" not in script, "what a user names a file could run"


async def test_what_a_person_needs_to_know_is_labelled(place: Place) -> None:
    page = (await place.client(None).get("/convert")).text
    for mark in ('<label for="files">', 'aria-live="polite"', 'role="status"', 'role="alert"', '<html lang="en">'):
        assert mark in page
