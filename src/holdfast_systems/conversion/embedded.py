"""The embedded gateway: each conversion is a child process that may die without hurting anyone.

    parent (worker)                                child (`pdf_to_xml`)
    spawn: own session, no fds, no environment --> limits itself: memory, CPU, output, no core, low priority,
    wait with a timeout                            dies with its parent; only then opens the file
    read the exit code, then the output       <--  writes to an unnamed file: nothing to clean up, ever

What an ending means, and whether another attempt may help:

    refused by content (password, damage, no text, pages)   VALIDATION   no
    died of a limit, or crashed on the file                 VALIDATION   no: it would die the same way again
    took too long by the wall clock                         NETWORK      yes: the machine may have been busy
    killed from outside (SIGKILL), or could not be started  UPSTREAM     yes: local pressure

A hostile file is thus run once, not three times for nothing. A crash is read as the file's doing because the
child does nothing else; a kill without a limit's signal is read as the machine's (the out-of-memory killer).
None counts against a breaker: no pause mends a document, and one user's file must not stop everyone's.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from holdfast import CallError, Category
from holdfast_systems.conversion.results import BadXml, XmlCheck, in_thread

_CHILD = "holdfast_systems.conversion.pdf_to_xml"
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What one document may cost. Generous for honest files: 400 dense pages take about 4 s and 40 MB."""

    pages: int = 2_000
    memory_bytes: int = 512 << 20
    cpu_s: int = 60
    output_bytes: int = 64 << 20


# The exit codes of `pdf_to_xml.Exit`, read here by number so that the parent never loads the PDF library.
_REFUSALS: Mapping[int, tuple[str, str]] = {
    10: ("DOCUMENT_ENCRYPTED", "The document asks for a password."),
    11: ("DOCUMENT_DAMAGED", "The document cannot be opened."),
    12: ("DOCUMENT_TOO_LONG", "The document has more pages than the limit."),
    13: ("DOCUMENT_EMPTY", "The document has no text."),
    14: ("DOCUMENT_TOO_COMPLEX", "The document needs more memory or output than the limit."),
}
_LOCAL_IO = 15
# The C library's loader neither raises nor aborts when the first thing that fits no more is a thread's own data.
_LOADER_GAVE_UP, _OUT_OF_MEMORY = 127, "cannot allocate memory"
_DEATHS_BY_FILE = frozenset(
    {
        signal.SIGABRT,  # the library's answer to a failed allocation
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGSEGV,
        signal.SIGSYS,
        signal.SIGTRAP,
        signal.SIGXCPU,
        signal.SIGXFSZ,
    }
)


@dataclass(frozen=True, slots=True)
class EmbeddedGateway:
    """Converts with the library that is installed, on this machine, without any service."""

    limits: Limits = Limits()

    async def convert(self, source: Path, *, timeout_s: float) -> bytes:
        """The TEI of `source`. Raises CallError. The child is gone at the end, whatever the end is."""
        with _unnamed() as output, _unnamed() as complaints:
            status = await self._run(_arguments(source, output, self.limits), output, complaints, timeout_s)
            if status != 0:
                raise failed(status, await in_thread(_start_of, complaints))
            try:
                return await in_thread(_checked, output, self.limits.output_bytes)
            except BadXml as error:
                raise CallError.of(Category.VALIDATION, "PARSE_ERROR", f"Bad output: {error}") from error

    async def healthy(self) -> bool:
        """Whether the child can be started and finds its library."""
        with _unnamed() as output, _unnamed() as complaints:
            try:
                return await self._run(["--help"], output, complaints, timeout_s=30) == 0
            except CallError:
                return False

    async def _run(self, arguments: list[str], output: IO[bytes], complaints: IO[bytes], timeout_s: float) -> int:
        child = await _spawned(arguments, output, complaints)
        try:
            async with asyncio.timeout(timeout_s):
                return await child.wait()
        except TimeoutError:
            message = f"The conversion took longer than {timeout_s:g} s."
            raise CallError.of(Category.NETWORK, "GATEWAY_TIMEOUT", message) from None
        finally:
            await _ended(child)


def _unnamed() -> IO[bytes]:
    return tempfile.TemporaryFile(buffering=0)


def _arguments(source: Path, output: IO[bytes], limits: Limits) -> list[str]:
    return [
        os.path.abspath(source),
        f"/dev/fd/{output.fileno()}",
        f"--pages={limits.pages}",
        f"--memory-bytes={limits.memory_bytes}",
        f"--cpu-s={limits.cpu_s}",
        f"--output-bytes={limits.output_bytes}",
        f"--parent={os.getpid()}",
    ]


async def _spawned(arguments: list[str], output: IO[bytes], complaints: IO[bytes]) -> Process:
    # The limits are set by the child and not in a `preexec_fn`, which may deadlock a parent with threads.
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-X", "utf8", "-m", _CHILD, *arguments),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=complaints,
            pass_fds=[output.fileno()],
            start_new_session=True,
            env={},
            cwd="/",
        )
    except OSError as error:
        message = f"The converter could not be started: {error.strerror}."
        raise CallError.of(Category.UPSTREAM, "LOCAL_PRESSURE", message) from error


async def _ended(child: Process) -> None:
    """Kill what still runs of the child's group, and wait until it is gone, cancelled or not."""
    if child.returncode is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    gone = asyncio.ensure_future(child.wait())
    cancelled = False
    while not gone.done():
        try:
            await asyncio.wait([gone])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


def failed(status: int, complaint: str) -> CallError:
    """What the child's exit status and the start of its standard error mean."""
    if status in _REFUSALS:
        return CallError.of(Category.VALIDATION, *_REFUSALS[status])
    if status == _LOADER_GAVE_UP and _OUT_OF_MEMORY in complaint:
        return CallError.of(Category.VALIDATION, *_REFUSALS[14])
    if status == _LOCAL_IO:
        return CallError.of(Category.UPSTREAM, "IO_ERROR", "The document or its output is out of reach.")
    if -status in _DEATHS_BY_FILE:
        message = f"The converter died of {signal.Signals(-status).name} on this document."
        return CallError.of(Category.VALIDATION, "DOCUMENT_TOO_COMPLEX", message)
    if status < 0:
        message = f"The converter was killed by signal {-status} from outside."
        return CallError.of(Category.UPSTREAM, "LOCAL_PRESSURE", message)
    message = f"The converter ended with {status}: {complaint}"
    return CallError.of(Category.UPSTREAM, "CONVERTER_BROKEN", message)


def _start_of(complaints: IO[bytes]) -> str:
    complaints.seek(0)
    return complaints.read(2_000).decode("utf-8", errors="replace")


def _checked(output: IO[bytes], bytes_max: int) -> bytes:
    """The output, which is believed only as far as it is well-formed: the child has read a hostile file."""
    output.seek(0)
    content = output.read(bytes_max)
    check = XmlCheck()
    for start in range(0, len(content), _PIECE_BYTES):
        check.feed(content[start : start + _PIECE_BYTES])
    check.close()
    return content
