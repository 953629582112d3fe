"""Every relative link in the documentation leads to a file, and to a heading of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def links(text: str) -> Iterator[str]:
    """The links of a page that lead within the repository."""
    for found in LINK.finditer(re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))):
        target = found[1] or found[2]
        if not re.match(r"[a-z][a-z0-9+.-]*:|//", target):
            yield target


def headings(text: str) -> set[str]:
    """The anchors that a page's headings get."""
    titles = re.findall(r"^#+\s+(.*?)\s*#*$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in links(page.read_text()):
        path, _, anchor = unquote(link).partition("#")
        target = page if not path else ROOT / path[1:] if path.startswith("/") else page.parent / path
        if not target.exists() or (target.suffix == ".md" and anchor and anchor not in headings(target.read_text())):
            broken.append(link)
    assert broken == []


def test_the_link_check_sees() -> None:
    page = "[a](b.md#c) ![d](e.png) [f](https://x.test) `[g](h)`\n```\n[i](j)\n```\n[k]: l.md\n"
    assert list(links(page)) == ["b.md#c", "e.png", "l.md"]
    assert headings("# One `two`, three!\n") == {"one-two-three"}


def test_every_decision_has_a_number_of_its_own_and_says_it() -> None:
    numbers = []
    for page in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        numbers.append(int(page.name[:4]))
        assert page.read_text().startswith(f"# {numbers[-1]}. "), page.name
    assert len(numbers) == len(set(numbers))
