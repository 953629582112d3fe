"""The embedded gateway: each document is read in a sandbox, where it may die without hurting anyone.

    worker                                               child of the fork server (`pdf_to_xml`)
    opens the document, hands it over             -->    confined: memory, CPU, output; no files, no network
    waits as long as a document may take          <--    ends with a code; its output is an unnamed file

What an ending means, and whether another attempt may help:

    refused by content (password, damage, no text, pages)   VALIDATION   no
    died of a limit, or crashed on the file                 VALIDATION   no: it would die the same way again
    took too long by the wall clock, with little CPU        NETWORK      yes: the machine may have been busy
    took all the time a document may take, and worked       VALIDATION   no
    killed from outside (SIGKILL), or could not be started  UPSTREAM     yes: local pressure

A hostile file is thus run once, not three times for nothing. A crash is read as the file's doing because the
child does nothing else; a kill without a limit's signal is read as the machine's (the out-of-memory killer).
None counts against a breaker: no pause mends a document, and one user's file must not stop everyone's.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from holdfast import CallError, Category
from holdfast_systems.conversion.results import BadXml, XmlCheck, in_thread
from holdfast_systems.sandbox.parent import Confines, SandboxDown, SandboxExit, sandbox_for

TASK = "holdfast_systems.conversion.pdf_to_xml:TASK"
PICTURES = "holdfast_systems.conversion.pdf_pictures:TASK"
OCR_PACKAGE = "rapidocr_onnxruntime"
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
    # Scans, where the extra `ocr` is installed: 4 to 12 s of CPU a page, by the number of lines.
    scan_pages: int = 20
    scan_wall_s: float = 110.0

    @property
    def of_pictures(self) -> Limits:
        """The limits within which a scan's pages are drawn."""
        return replace(self, pages=self.scan_pages, output_bytes=self.scan_pages * 7_000_000)


# The exit codes of `pdf_to_xml.Exit`, read here by number so that the parent never loads the PDF library.
_REFUSALS: Mapping[int, tuple[str, str]] = {
    10: ("DOCUMENT_ENCRYPTED", "The document asks for a password."),
    11: ("DOCUMENT_DAMAGED", "The document cannot be opened."),
    12: ("DOCUMENT_TOO_LONG", "The document has more pages than the limit."),
    13: ("DOCUMENT_EMPTY", "The document has no text that can be read."),
    14: ("DOCUMENT_TOO_COMPLEX", "The document needs more memory or output than the limit."),
}
_DAMAGED, _EMPTY, _LOCAL_IO = 11, 13, 15
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
    reads_scans: bool = field(default_factory=lambda: find_spec(OCR_PACKAGE) is not None)

    async def convert(self, source: Path, *, timeout_s: float) -> bytes:
        """The TEI of `source`. Raises CallError. The child is gone at the end, whatever the end is."""
        document = await in_thread(_opened, source)
        with document, tempfile.TemporaryFile(buffering=0) as output:
            ending = await self._read_in_sandbox(document, output, TASK, self.limits, timeout_s)
            if ending.status == _EMPTY and self.reads_scans:
                return await self._read_scan(document, timeout_s)
            if ending.status != 0:
                raise failed(ending.status, ending.complaint)
            try:
                return await in_thread(_checked, output, self.limits.output_bytes)
            except BadXml as error:
                raise CallError.of(Category.VALIDATION, "PARSE_ERROR", f"Bad output: {error}") from error

    async def _read_scan(self, document: IO[bytes], timeout_s: float) -> bytes:
        """The TEI of a document whose pages are pictures. Raises CallError; nothing to read is DOCUMENT_EMPTY still."""
        from holdfast_systems.conversion import ocr

        limits = self.limits.of_pictures
        with tempfile.TemporaryFile() as pictures:
            ending = await self._read_in_sandbox(document, pictures, PICTURES, limits, timeout_s)
            if ending.status != 0:
                raise failed(ending.status, ending.complaint)
            pictures.seek(0)
            left_s = min(self.limits.scan_wall_s, timeout_s) - self.limits.wall_s
            xml = await in_thread(ocr.tei_of_pictures, pictures, max(1.0, left_s))
        if xml is None:
            raise failed(_EMPTY, "")
        return xml

    async def healthy(self) -> bool:
        """Whether a child can be started and finds its library."""
        with tempfile.TemporaryFile(buffering=0) as nothing, tempfile.TemporaryFile(buffering=0) as output:
            try:
                return (await self._read_in_sandbox(nothing, output, TASK, self.limits, 30.0)).status == _DAMAGED
            except CallError:
                return False

    async def _read_in_sandbox(
        self, source: IO[bytes], output: IO[bytes], task: str, limits: Limits, timeout_s: float
    ) -> SandboxExit:
        """How the child ended, in time. Raises CallError where it did not."""
        wall_s = min(timeout_s, limits.wall_s)
        confines = Confines(limits.cpu_s, limits.memory_bytes, limits.output_bytes, wall_s)
        options = {"pages": limits.pages, "page_cpu_s": limits.page_cpu_s}
        try:
            ending = await sandbox_for(task).run(source, output, confines, options)
        except SandboxDown as error:
            raise CallError.of(Category.UPSTREAM, "LOCAL_PRESSURE", str(error)) from error
        if ending.out_of_time:
            raise _late(ending, wall_s, limits)
        return ending


def _opened(source: Path) -> IO[bytes]:
    try:
        return source.open("rb", buffering=0)
    except OSError as error:
        message = "The document or its output is out of reach."
        raise CallError.of(Category.UPSTREAM, "IO_ERROR", message) from error


def _late(ending: SandboxExit, wall_s: float, limits: Limits) -> CallError:
    """A busy machine explains a child that hardly ran; one that ran on and on would do so again. A caller who gave it
    less time than a document may take has learned nothing about the document."""
    if wall_s >= limits.wall_s and ending.cpu_s >= 0.5 * min(limits.cpu_s, wall_s):
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
