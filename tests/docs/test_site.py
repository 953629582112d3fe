"""The documentation as a site: built strictly, whole by itself, and with nothing fetched from elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

ROOT = Path(__file__).parents[2]
FETCHED = re.compile(r"""<(?:script|img|iframe|source)[^>]*\bsrc="?(https?:)?//|<link[^>]*\bhref="?(https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "scripts/build_site", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_the_site_has_every_page_and_fetches_nothing(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        name = "index.html" if page.name == "README.md" else f"{page.stem}.html"
        assert (site / page.relative_to(ROOT / "docs").with_name(name)).exists(), page
    pages = {path: path.read_text() for path in site.rglob("*.html")}
    assert [path.name for path, text in pages.items() if FETCHED.search(text)] == []
    styles = [path.read_text() for path in site.rglob("*.css")]
    assert not any(re.search(r"(?:url\(|@import)[\s\"']*(?:https?:)?//", style) for style in styles)


@pytest.mark.slow
def test_every_page_can_be_reached_and_searched(site: Path) -> None:
    front = (site / "index.html").read_text()
    linked = set(re.findall(r'href="([^"#]+\.html)"', front))
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")} - {"404.html"}
    unlisted = {page for page in pages if not page.startswith("examples/")} - linked - {"index.html"}
    assert unlisted == set(), "no entry in the navigation leads there"
    index = json.loads((site / "search" / "search_index.json").read_text())
    assert any("idempotency tokens" in entry["text"] for entry in index["docs"])


def test_the_python_reference_has_every_public_name() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    assert [name for name in holdfast.__all__ if f"### `{name}`" not in page] == []
