"""Receives a PDF into a folder while it arrives, and keeps it only if it is whole, small enough and a PDF.

    stream --limit--> .NAME.partial --sniffed, flushed--> NAME --folder flushed--> Upload

Memory holds one batch of bytes, whatever the size of the file. Names come from the caller, who makes them
from a UUID; nothing that a client says reaches the file system.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from holdfast_systems.conversion.codes import Code, ConversionError
from holdfast_systems.conversion.results import PARTIAL, checked_uuid, in_thread, sync_folder

SNIFFED_BYTES = 1_024  # a PDF's header may follow some rubbish, but it stands in its first kilobyte
BATCH_BYTES = 1 << 20  # one hop to a thread for each: a hop costs about 50 us, a write of 1 MiB about 1 ms


@dataclass(frozen=True, slots=True)
class Upload:
    path: Path
    size: int
    sha256: str


async def receive(stream: AsyncIterator[bytes], folder: Path, *, limit_bytes: int, new_name: str) -> Upload:
    """Store what arrives as `folder/new_name` (`UUID` or `UUID.pdf`). Durable when it returns.

    Raises ConversionError TOO_LARGE as soon as the limit is passed and NOT_PDF as soon as the content shows
    it. An error or a cancellation, wherever it comes, leaves nothing behind.
    """
    checked_uuid(new_name.removesuffix(".pdf"))
    incoming = _Incoming(folder / new_name, folder / f".{new_name}{PARTIAL}", limit_bytes)
    try:
        await in_thread(incoming.open)
        async for chunk in stream:
            if incoming.take(chunk):
                await in_thread(incoming.flush)
        return await in_thread(incoming.keep)
    except BaseException:
        await in_thread(incoming.discard)
        raise


def sweep_partials(folder: Path, older_than_s: float, now: float) -> int:
    """Remove what killed processes left half written: partial files untouched for longer than `older_than_s`
    seconds before `now` (seconds since the epoch). Gives their number; safe beside running uploads."""
    removed = 0
    for path in sorted(folder.glob(f".*{PARTIAL}")):
        with suppress(FileNotFoundError):  # another sweep was quicker
            if path.stat().st_mtime < now - older_than_s:
                path.unlink()
                removed += 1
    return removed


@dataclass(slots=True)
class _Incoming:
    """One upload under way. `take` is cheap and runs on the loop; the rest blocks and runs in a thread."""

    final: Path
    partial: Path
    limit_bytes: int
    size: int = 0
    sniffed: bool = False
    batch: bytearray = field(default_factory=bytearray)
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    file: FileIO | None = None  # present means that the names are ours to remove

    def open(self) -> None:
        if self.final.exists():
            raise FileExistsError("an upload of this name exists")
        handle = os.open(self.partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self.file = FileIO(handle, "wb")

    def take(self, chunk: bytes) -> bool:
        """Take a chunk; True when there is enough to write."""
        self.size += len(chunk)
        if self.size > self.limit_bytes:
            raise ConversionError(Code.TOO_LARGE, f"The upload is over {self.limit_bytes} bytes.")
        self.batch += chunk
        if not self.sniffed and self.size >= SNIFFED_BYTES:
            self._sniff()
        return len(self.batch) >= BATCH_BYTES

    def _sniff(self) -> None:
        if b"%PDF-" not in self.batch[:SNIFFED_BYTES]:
            raise ConversionError(Code.NOT_PDF)
        self.sniffed = True

    def flush(self) -> None:
        assert self.file is not None
        self.digest.update(self.batch)
        with memoryview(self.batch) as whole:
            written = 0
            while written < len(whole):
                written += self.file.write(whole[written:])
        self.batch.clear()

    def keep(self) -> Upload:
        assert self.file is not None
        if not self.sniffed:
            self._sniff()
        self.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        os.replace(self.partial, self.final)
        sync_folder(self.final.parent)
        return Upload(self.final, self.size, self.digest.hexdigest())

    def discard(self) -> None:
        if self.file is not None:
            self.file.close()
            self.partial.unlink(missing_ok=True)
            self.final.unlink(missing_ok=True)  # the cancellation may have come after the rename
