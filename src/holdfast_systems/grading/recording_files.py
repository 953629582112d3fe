"""Where uploaded recordings lie, and how a URL names one. Apart from the routes: a worker needs no web framework."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

PATH = "/api/recordings"
KEPT_S = 86_400.0
_NAME = re.compile(r"[A-Za-z0-9_-]{43}")


def uploaded(folder: Path, url: str) -> bytes | None:
    """The recording that a URL names, if it was uploaded to this data folder. Blocks."""
    head, _, name = urlsplit(url).path.rpartition("/")
    path = path_of(folder, name) if head.endswith(PATH) else None
    return path.read_bytes() if path is not None and path.is_file() else None


def path_of(folder: Path, name: str) -> Path | None:
    return folder / name if _NAME.fullmatch(name) else None


def keep(folder: Path, name: str, content: bytes, now_s: float) -> None:
    """Write a recording, and forget those whose day is over."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.stat().st_mtime < now_s - KEPT_S:
            old.unlink(missing_ok=True)
    (folder / name).write_bytes(content)
