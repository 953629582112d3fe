"""How the tests use the pages: signed in as anyone, every error of the browser noted, waiting for what is shown."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.browser.deployment import Deployment
from tests.roles import ROLES

PATIENCE_MS = int(os.environ.get("PATIENCE_MS", "60000"))
"""A busy machine is slow, not wrong: what is waited for has this long to come."""

HOSTILE = """<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'"&lt;/td>{{7*7}}"""
"""What somebody may have written into any field: it is to be seen as it is, and never to run."""


@asynccontextmanager
async def signed_in(
    browser: Any, place: Deployment, *, sub: str = "olga", roles: Sequence[str] = ROLES, to: str = "/", **options: Any
) -> AsyncIterator[Any]:
    """A tab of its own, signed in as the sign-in leaves it; whatever the browser complains of fails the test. It asks
    for little motion: a light that pulses is drawn sixty times a second, and was a third of the browser's time."""
    context = await browser.new_context(reduced_motion="reduce", **options)
    context.set_default_timeout(PATIENCE_MS)
    page = await context.new_page()
    noted = watched(page)
    token = place.token(sub, roles)
    await page.goto(f"{place.address}/healthz")  # an answer without scripts: storage belongs to an address
    await page.evaluate("(token) => sessionStorage.setItem('holdfast.token', token)", token)
    host = urlsplit(place.address).hostname
    await context.add_cookies([{"name": "holdfast_console", "value": token, "domain": host, "path": "/console"}])
    await page.goto(f"{place.address}{to}")
    try:
        yield page
        assert noted == []
        assert await page.evaluate("window.hacked") is None, "a script that somebody wrote has run"
    finally:
        await context.close()


def watched(page: Any) -> list[str]:
    """The page's own errors and its breaches of the content security policy, as they come."""
    noted: list[str] = []
    page.on("pageerror", lambda error: noted.append(str(error)))
    page.on("console", lambda line: noted.append(line.text) if "Content Security Policy" in line.text else None)
    return noted


async def go(page: Any, view: str, title: str) -> None:
    """To a view of the console, once it is drawn: what was drawn before may have the same heading."""
    await page.evaluate("(hash) => { location.hash = hash; }", view)
    await page.wait_for_function("() => document.querySelector('#view').dataset.place === location.hash")
    await page.get_by_role("heading", name=title, level=2).first.wait_for()


async def says(page: Any, words: str) -> None:
    """Something on the page says this."""
    await page.get_by_text(words).first.wait_for()


async def picture(page: Any, name: str, *, whole: bool = True) -> None:
    """A picture for the documentation, where one is asked for: SCREENSHOTS names the folder."""
    if folder := os.environ.get("SCREENSHOTS"):
        await page.evaluate("scrollTo(0, 0)")  # the rail stands where the page is scrolled to
        await page.wait_for_timeout(300)
        await page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=whole)


BROKEN_WORDS = """() => {
  const broken = [];
  for (const cell of document.querySelectorAll("td, th, figcaption span")) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const words = texts.currentNode.data.trim();
      const range = document.createRange();
      range.selectNode(texts.currentNode);
      if (words.length < 32 && !/\\s/.test(words) && range.getClientRects().length > 1) broken.push(words);
    }
  }
  return broken;
}"""
"""The short words of tables that stand in two lines."""

CONTRAST = """() => {
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const numbers = (color) => {
    if (!known.has(color)) {
      probe.clearRect(0, 0, 1, 1);
      probe.fillStyle = color;
      probe.fillRect(0, 0, 1, 1);
      known.set(color, [...probe.getImageData(0, 0, 1, 1).data]);
    }
    return known.get(color);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((part) => {
      const share = part / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const rgba = numbers(getComputedStyle(one).backgroundColor);
      if (rgba[3] > 250) return rgba;
    }
    return numbers("Canvas");
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const unseen = element.closest("[hidden], svg, noscript, script, .unseen, .skip");
    if (!own || element.disabled || unseen || !element.getClientRects().length) continue;
    const pair = [light(numbers(getComputedStyle(element).color).slice(0, 3)), light(ground(element).slice(0, 3))];
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    const name = `${element.tagName}.${element.className} "${element.textContent.slice(0, 40)}"`;
    if (ratio < 4.5) poor.push(`${name}: ${ratio.toFixed(2)}`);
  }
  return poor;
}"""
"""The texts of the page that cannot be read well: less than 4.5 to 1 against what they stand on."""
