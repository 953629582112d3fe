"""The files of a change laid out for programs that read whole files, and how such a program is run on them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from holdfast_systems.review.changelist import ChangedFile, Changelist
from holdfast_systems.review.command import run


@dataclass(frozen=True, slots=True)
class Placed:
    """The files of a change, laid out for the tools under names of our own."""

    directory: str
    whole: Mapping[str, ChangedFile]
    fragments: Mapping[str, ChangedFile]
    search_path: str
    timeout_s: float

    def of(self, name: str) -> ChangedFile | None:
        """The changed file behind a name that a tool reports, absolute or relative."""
        relative = os.path.relpath(os.path.join(self.directory, name), self.directory)
        return self.whole.get(relative) or self.fragments.get(relative)

    def line_of(self, name: str, line: int) -> int:
        """The number in the changed file of a line that a tool reports."""
        relative = os.path.relpath(os.path.join(self.directory, name), self.directory)
        fragment = self.fragments.get(relative)
        if fragment is None:
            return line
        return fragment.added_lines[line - 1][0] if 0 < line <= len(fragment.added_lines) else 0

    def env(self) -> dict[str, str]:
        return {"PATH": self.search_path, "LC_ALL": "C.UTF-8", "HOME": self.directory, "NO_COLOR": "1"}


def place_files(
    changelist: Changelist, contents: Mapping[str, str], directory: str, search_path: str, timeout_s: float
) -> Placed:
    """Write the files as 'number/name': the change chooses no path, and the name still tells the language."""
    whole: dict[str, ChangedFile] = {}
    fragments: dict[str, ChangedFile] = {}
    for index, file in enumerate(changelist.files):
        if not file.is_text or not file.added_lines:
            continue
        name = os.path.join(str(index), _safe_name(file.path))
        text = whole_text(file, contents)
        (fragments if text is None else whole)[name] = file
        target = Path(directory, name)
        target.parent.mkdir()
        target.write_bytes((_added(file) if text is None else text).encode("utf-8", "replace"))
    return Placed(directory, whole, fragments, search_path, timeout_s)


def whole_text(file: ChangedFile, contents: Mapping[str, str]) -> str | None:
    """The new side of a file; None where only parts of it are known."""
    text = contents.get(file.path)
    if text is None and file.is_new:
        text = _added(file)
    return text


def _safe_name(path: str) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]", "_", PurePosixPath(path).name)[-100:]
    return f"_{name}" if not name or name[0] in ".-" else name


def _added(file: ChangedFile) -> str:
    """The added lines and nothing in between: a diff may give them any number."""
    return "\n".join(text for _, text in file.added_lines) + "\n"


async def json_of(placed: Placed, argv: tuple[str, ...], codes: tuple[int, ...] = (0,)) -> Any:
    ran = await run(argv, timeout_s=placed.timeout_s, env=placed.env(), cwd=placed.directory)
    if ran.code not in codes:
        raise ValueError(f"exit code {ran.code}")
    return json.loads(ran.stdout)
