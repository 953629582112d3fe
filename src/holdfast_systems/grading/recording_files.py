"""Where uploaded recordings lie, and how a URL names one. Apart from the routes: a worker needs no web framework."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.providers.gate import path_in

PATH = "/api/recordings"
KEPT_S = 14 * 86_400.0
"""An instructor may have to hear it, and may be away for a week."""
_NAME = re.compile(r"[A-Za-z0-9_-]{43}")


def uploaded(folder: Path, url: str) -> bytes | None:
    """The recording that a URL names, if it was uploaded to this data folder. Blocks."""
    path = find_uploaded(folder, url)
    return None if path is None else path.read_bytes()


def find_uploaded(folder: Path, url: str) -> Path | None:
    """The file of a recording that was uploaded to this data folder; None if it was not, or is gone. Blocks."""
    head, _, name = path_in(url).rpartition("/")
    path = path_of(folder, name) if head.endswith(PATH) else None
    return path if path is not None and path.is_file() else None


def path_of(folder: Path, name: str) -> Path | None:
    return folder / name if _NAME.fullmatch(name) else None


def keep(folder: Path, name: str, content: bytes, now_s: float) -> None:
    """Write a recording, and forget those whose time is over."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.stat().st_mtime < now_s - KEPT_S:
            old.unlink(missing_ok=True)
    (folder / name).write_bytes(content)
