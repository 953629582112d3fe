"""Reads the fenced blocks of the documentation, and runs what they say in a real shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
_FENCE = re.compile(r"^(?P<tick>```|~~~)(?P<kind>[^\n]*)\n(?P<body>.*?)^(?P=tick)[ \t]*$", re.MULTILINE | re.DOTALL)
SPLIT = "@@ block "


@dataclass(frozen=True)
class Block:
    """A fenced block: its kind (`sh`, `python`, `text`, ...), its text, and the paragraph that stands before it."""

    page: str
    number: int
    kind: str
    text: str
    before: str

    @property
    def name(self) -> str:
        return f"{self.page}#{self.number}"


def blocks(path: Path) -> list[Block]:
    text = path.read_text()
    found = []
    for number, match in enumerate(_FENCE.finditer(text), 1):
        before = text[: match.start()].rstrip().rpartition("\n\n")[2]
        found.append(Block(path.relative_to(ROOT).as_posix(), number, match["kind"].strip(), match["body"], before))
    return found


def everything() -> list[Block]:
    return [block for path in PAGES for block in blocks(path)]


def install(folder: Path) -> dict[str, str]:
    """A folder with `holdfast` and this `python3` on its path; the environment to run a page in."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    (programs / "holdfast").write_text(f"#!{sys.executable}\nfrom holdfast.cli import main\nmain()\n")
    (programs / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    return kept | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(folder),
        "HOLDFAST_LOG_LEVEL": "ERROR",
        "COLUMNS": "240",
    }


def run(script: list[str], folder: Path, env: dict[str, str], timeout_s: float = 600) -> list[str]:
    """Run the blocks one after the other in one shell; what each printed. The first that fails stops the page."""
    lines = ["set -euo pipefail"]
    for text in script:
        lines += [f"echo '{SPLIT}'", text]
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout.split(f"{SPLIT}\n")[1:]


def missing(expected: str, printed: str) -> list[str]:
    """The lines of a `text` block that the output does not have, in order; `…` stands for anything."""
    left = printed.splitlines()
    absent = []
    for line in filter(str.strip, expected.splitlines()):
        pattern = re.compile(".*".join(re.escape(part) for part in line.strip().split("…")))
        while left and not pattern.fullmatch(left[0].strip()):
            left.pop(0)
        if not left:
            absent.append(line)
            left = printed.splitlines()
    return absent
