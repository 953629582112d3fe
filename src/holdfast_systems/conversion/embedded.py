"""The embedded gateway: each document is read in a sandbox, where it may die without hurting anyone.

    worker                                               child of the fork server (`pdf_to_xml`)
    opens the document, hands it over             -->    confined: memory, CPU, output; no files, no network
    waits as long as a document may take          <--    ends with a code; its output is an unnamed file

What an ending means, and whether another attempt may help:

    refused by content (password, damage, no text, pages)   VALIDATION   no
    died of a limit, or crashed on the file                 VALIDATION   no: it would die the same way again
    took too long by the wall clock, with little CPU        NETWORK      yes: the machine may have been busy
    took too long by the wall clock, and worked             VALIDATION   no
    killed from outside (SIGKILL), or could not be started  UPSTREAM     yes: local pressure

A hostile file is thus run once, not three times for nothing. A crash is read as the file's doing because the
child does nothing else; a kill without a limit's signal is read as the machine's (the out-of-memory killer).
None counts against a breaker: no pause mends a document, and one user's file must not stop everyone's.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from holdfast import CallError, Category
from holdfast.sandbox.parent import Confines, Ending, SandboxDown, sandbox_for
from holdfast_systems.conversion.results import BadXml, XmlCheck, in_thread

TASK = "holdfast_systems.conversion.pdf_to_xml:TASK"
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What one document may cost. Generous for honest files: 2,000 dense pages take about 13 s of CPU."""

    pages: int = 2_000
    memory_bytes: int = 512 << 20
    cpu_s: int = 18
    output_bytes: int = 64 << 20
    wall_s: float = 25.0
    page_cpu_s: float = 5.0


# The exit codes of `pdf_to_xml.Exit`, read here by number so that the parent never loads the PDF library.
_REFUSALS: Mapping[int, tuple[str, str]] = {
    10: ("DOCUMENT_ENCRYPTED", "The document asks for a password."),
    11: ("DOCUMENT_DAMAGED", "The document cannot be opened."),
    12: ("DOCUMENT_TOO_LONG", "The document has more pages than the limit."),
    13: ("DOCUMENT_EMPTY", "The document has no text."),
    14: ("DOCUMENT_TOO_COMPLEX", "The document needs more memory or output than the limit."),
}
_DAMAGED, _LOCAL_IO = 11, 15
# The C library's loader neither raises nor aborts when the first thing that fits no more is a thread's own data.
_LOADER_GAVE_UP, _OUT_OF_MEMORY = 127, "cannot allocate memory"
_DEATHS_BY_FILE = frozenset(
    {
        signal.SIGABRT,  # the library's answer to a failed allocation
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGPROF,  # one page took longer than any may
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
        wall_s = min(timeout_s, self.limits.wall_s)
        document = await in_thread(_opened, source)
        with document, tempfile.TemporaryFile(buffering=0) as output:
            ending = await self._read_in_sandbox(document, output, wall_s)
            if ending.out_of_time:
                raise _late(ending, wall_s, self.limits.cpu_s)
            if ending.status != 0:
                raise failed(ending.status, ending.complaint)
            try:
                return await in_thread(_checked, output, self.limits.output_bytes)
            except BadXml as error:
                raise CallError.of(Category.VALIDATION, "PARSE_ERROR", f"Bad output: {error}") from error

    async def healthy(self) -> bool:
        """Whether a child can be started and finds its library."""
        with tempfile.TemporaryFile(buffering=0) as nothing, tempfile.TemporaryFile(buffering=0) as output:
            try:
                return (await self._read_in_sandbox(nothing, output, 30.0)).status == _DAMAGED
            except CallError:
                return False

    async def _read_in_sandbox(self, source: IO[bytes], output: IO[bytes], wall_s: float) -> Ending:
        limits = self.limits
        confines = Confines(limits.cpu_s, limits.memory_bytes, limits.output_bytes, wall_s)
        options = {"pages": limits.pages, "page_cpu_s": limits.page_cpu_s}
        try:
            return await sandbox_for(TASK).run(source, output, confines, options)
        except SandboxDown as error:
            raise CallError.of(Category.UPSTREAM, "LOCAL_PRESSURE", str(error)) from error


def _opened(source: Path) -> IO[bytes]:
    try:
        return source.open("rb", buffering=0)
    except OSError as error:
        message = "The document or its output is out of reach."
        raise CallError.of(Category.UPSTREAM, "IO_ERROR", message) from error


def _late(ending: Ending, wall_s: float, cpu_s: int) -> CallError:
    """A busy machine explains a child that hardly ran; one that ran on and on would do so again."""
    if ending.cpu_s >= 0.5 * min(cpu_s, wall_s):
        message = f"The conversion took {ending.cpu_s:.0f} s of processor time and was not done."
        return CallError.of(Category.VALIDATION, "DOCUMENT_TOO_COMPLEX", message)
    return CallError.of(Category.NETWORK, "GATEWAY_TIMEOUT", f"The conversion took longer than {wall_s:g} s.")


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


def _checked(output: IO[bytes], bytes_max: int) -> bytes:
    """The output, which is believed only as far as it is well-formed: the child has read a hostile file."""
    output.seek(0)
    content = output.read(bytes_max)
    check = XmlCheck()
    for start in range(0, len(content), _PIECE_BYTES):
        check.feed(content[start : start + _PIECE_BYTES])
    check.close()
    return content
