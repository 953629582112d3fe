"""Where a change comes from, and how it is kept between the stages: packed, by its content's hash.

A small change travels in the stage's result. A large one lies in the data folder, and the result says its hash: what
is read later is what was fetched, or nothing. A file that is gone is fetched again; if the source then gives
something else, the stage says so instead of reviewing another change under the same name.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast import CallError, Category
from holdfast_systems.review.changelist import FetchedDiff
from holdfast_systems.review.fetch_git import fetch_range
from holdfast_systems.review.fetch_p4 import fetch_changelist
from holdfast_systems.review.fetch_url import fetch_diff
from holdfast_systems.review.settings import ReviewSettings

INLINE_BYTES_MAX = 32_768
_TEXT = r"^[^\x00-\x1f\x7f]+$"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GitSource(_Strict):
    """A range of a repository: a path on this machine or a remote address."""

    type: Literal["git"]
    repo: Annotated[str, Field(min_length=1, max_length=2_000, pattern=_TEXT)]
    range: Annotated[str, Field(min_length=1, max_length=510, pattern=_TEXT)]


class UrlSource(_Strict):
    """A unified diff at a URL."""

    type: Literal["url"]
    url: Annotated[str, Field(min_length=1, max_length=2_000, pattern=_TEXT)]


class P4Source(_Strict):
    """A submitted Perforce changelist, by number."""

    type: Literal["p4"]
    changelist: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,9}$")]


Source = Annotated[GitSource | UrlSource | P4Source, Field(discriminator="type")]


@dataclass(frozen=True, slots=True)
class Change:
    """A fetched change by reference. `packed` holds it where it is small; else it lies in a file named by its hash."""

    sha256: str
    title: str
    author: str
    size_bytes: int
    packed: str | None = None


async def fetch_source(settings: ReviewSettings, source: Source, *, trusted: bool) -> FetchedDiff:
    """Fetch a change under the policies that the settings give its kind of source."""
    match source:
        case GitSource(repo=repo, range=rev_range):
            policy = settings.git_policy(trusted=trusted)
            return await fetch_range(repo, rev_range, timeout_s=settings.fetch_s, policy=policy)
        case UrlSource(url=url):
            return await fetch_diff(url, policy=settings.outbound)
        case P4Source(changelist=number):
            return await fetch_changelist(number, policy=settings.p4_policy, timeout_s=settings.fetch_s)


def keep(fetched: FetchedDiff, folder: Path) -> Change:
    """Pack the change, on disk if it is large. Durable when it returns; keeping the same change twice is harmless."""
    text = json.dumps(asdict(fetched), sort_keys=True, ensure_ascii=True).encode()
    digest = hashlib.sha256(text).hexdigest()
    packed = gzip.compress(text, mtime=0)
    inline = base64.b64encode(packed).decode() if len(packed) <= INLINE_BYTES_MAX else None
    if inline is None:
        _write(folder / f"{digest}.json.gz", packed)
    return Change(digest, _storable(fetched.title), _storable(fetched.author), len(text), inline)


def kept(change: Change, folder: Path) -> FetchedDiff | None:
    """The change as it was fetched, or None if its file is gone or is not what was written."""
    if change.packed is not None:
        packed = base64.b64decode(change.packed)
    else:
        try:
            packed = (folder / f"{change.sha256}.json.gz").read_bytes()
        except FileNotFoundError:
            return None
    try:
        text = gzip.decompress(packed)
    except (OSError, EOFError):
        return None
    return FetchedDiff(**json.loads(text)) if hashlib.sha256(text).hexdigest() == change.sha256 else None


def same_again(change: Change, again: Change) -> Change:
    """What was fetched a second time, if it is still the change of the first time."""
    if again.sha256 != change.sha256:
        message = "The fetched change was lost and its source gives another one now; replay the review in full."
        raise CallError.of(Category.NOT_FOUND, "CHANGE_LOST", message)
    return again


def forget_older(folder: Path, oldest_s: float) -> int:
    """Remove the files that nobody touched since."""
    old = [path for path in folder.glob("*.json.gz") if path.stat().st_mtime < oldest_s] if folder.exists() else []
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def _storable(text: str) -> str:
    """A title as both databases can hold it."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, and synced: the stage's result will say that it is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
