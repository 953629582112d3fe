"""What mkdocs.yml cannot say: headings get the anchors they have on GitHub, every page is in the navigation, and
what a page links to outside of docs/ comes along, so that the site is whole by itself."""

from __future__ import annotations

import os.path
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TOP = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
SECTIONS = {"how-to": "Operate", "explanation": "Understand", "reference": "Look up", "decisions": "Decisions"}
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")
COMMENT = re.compile(r"\A<!--.*?-->\s*", re.DOTALL)
"""What stands before a written page's heading, which would keep it from being the title."""
REPOSITORY = "repository/"
"""Where the site has what lies outside of docs/."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.mdx_configs["toc"] = {"slugify": anchor, "permalink": True}
    top = [f"{REPOSITORY}{name}" for name in TOP]
    config.nav = [*(config.nav or []), {"Decisions": ["decisions.md"]}, {"The project": top}]
    _add_the_rest(config.nav)
    return config


def anchor(title: str, separator: str) -> str:
    """The anchor of a heading, as GitHub and the link check of the tests know it."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", separator)


def _add_the_rest(nav: list[Any]) -> None:
    """Pages that mkdocs.yml does not name stand at the end of their folder's section."""
    sections = {name: listed for entry in nav for name, listed in entry.items()}
    known = {page for listed in sections.values() for page in listed}
    for page in sorted(DOCS.rglob("*.md")):
        path = page.relative_to(DOCS).as_posix()
        section = SECTIONS.get(path.partition("/")[0])
        if path not in known and section is not None:
            sections[section].append(path)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    wanted = {target for page in DOCS.rglob("*.md") for target in _outside(page)}
    for path in sorted({*TOP, *wanted, *(target for name in TOP for target in _outside(ROOT / name))}):
        files.append(File.generated(config, REPOSITORY + path, abs_src_path=str(ROOT / path)))
    return files


def _outside(page: Path) -> list[str]:
    """The files that a page links to and that are not in docs/."""
    targets = [_target(page.parent, link["path"]) for link in LINK.finditer(page.read_text())]
    return [path for path in targets if not path.startswith("docs/") and (ROOT / path).is_file()]


def _target(folder: Path, link: str) -> str:
    """What a link leads to, from the top of the repository."""
    return os.path.relpath(os.path.normpath(folder / link), ROOT)


def on_page_markdown(markdown: str, *, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Links by the place that their target has in the site. A folder has none: of its link only the words stay."""
    source: str = page.file.src_uri
    is_outside = source.startswith(REPOSITORY)
    folder = (ROOT / source.removeprefix(REPOSITORY) if is_outside else DOCS / source).parent

    def moved(link: re.Match[str]) -> str:
        target = _target(folder, link["path"])
        if (ROOT / target).is_dir():
            return link["text"]
        place = target.removeprefix("docs/") if target.startswith("docs/") else REPOSITORY + target
        return f"[{link['text']}]({os.path.relpath(place, os.path.dirname(source) or '.')}{link['anchor'] or ''})"

    return LINK.sub(moved, COMMENT.sub("", markdown))
