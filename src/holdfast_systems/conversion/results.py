"""Results: XML that is checked as it arrives, and a file for each, written so that it is whole or absent.

    JOB.SHA256.xml       what it is called says whose it is and what is in it

A worker that was taken for dead may write its own result long after another one's was marked; under a name of its own
it overwrites nothing, and the sweep of orphans takes it away.

A file is written beside its place under another name, flushed, and renamed; the rename is flushed too. A crash at any
point leaves the old state or the new one, and at most a `.partial` for `uploads.sweep_partials`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar
from uuid import UUID
from xml.parsers import expat

PARTIAL = ".partial"
_SHA256 = re.compile("[0-9a-f]{64}")

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredResult:
    path: Path
    size: int
    sha256: str


def path_of(folder: Path, job_id: str, sha256: str) -> Path:
    """Where a result of a job is. Raises ValueError for anything but a UUID and a hash in their usual spellings."""
    if not _SHA256.fullmatch(sha256):
        raise ValueError("not a SHA-256 in its usual spelling")
    return folder / f"{checked_uuid(job_id)}.{sha256}.xml"


def checked_uuid(text: str) -> str:
    """`text`, if it is a UUID as `str(uuid)` writes it: so no name can lead out of a folder."""
    if str(UUID(text)) != text:
        raise ValueError("not a UUID in its usual spelling")
    return text


async def save(folder: Path, job_id: str, xml: bytes) -> StoredResult:
    """Store the result of a job. Durable when it returns; the same content twice is one file."""
    return await in_thread(_save, path_of(folder, job_id, hashlib.sha256(xml).hexdigest()), xml)


async def remove(folder: Path, job_id: str, sha256: str) -> bool:
    """Remove a result of a job. False if there was none."""
    return await in_thread(_remove, path_of(folder, job_id, sha256))


class BadXml(Exception):
    """Not well-formed, or with a document type: nobody needs one here, and entities are how XML attacks."""


class XmlCheck:
    """Checks XML piece by piece. `feed` and `close` raise BadXml; no entity is ever expanded or fetched."""

    def __init__(self) -> None:
        self._parser = expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = _refuse_doctype

    def feed(self, piece: bytes) -> None:
        self._parse(piece, last=False)

    def close(self) -> None:
        self._parse(b"", last=True)

    def _parse(self, piece: bytes, *, last: bool) -> None:
        try:
            self._parser.Parse(piece, last)
        except (expat.ExpatError, LookupError, ValueError) as error:  # the last two: unknown encodings
            raise BadXml(str(error)) from None


def _refuse_doctype(*_: object) -> None:
    raise BadXml("it has a document type")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking file work in a thread. A cancelled caller goes on only when the thread is done,
    so that no file is touched behind the back of a clean-up."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # seen; the cancellation is what the caller hears of
        raise


def _save(path: Path, xml: bytes) -> StoredResult:
    result = StoredResult(path, len(xml), hashlib.sha256(xml).hexdigest())
    if _holds(path, xml):
        sync_folder(path.parent)  # an earlier writer may have died between its rename and this
        return result
    handle, name = tempfile.mkstemp(prefix=f".{path.stem[:36]}.", suffix=PARTIAL, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(xml)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return result


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.stat().st_size == len(content) and path.read_bytes() == content
    except FileNotFoundError:
        return False


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    sync_folder(path.parent)
    return True


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder, so that a rename in it outlives a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
