"""The ten public codes of the conversion API, and the one table that leads from every failure to one of them.

Inside, failures have many stable classes (`core.failure`, the gateways, the embedded converter). Outside, a
client sees a `Code` and a sentence from `TABLE`, never a word of what the provider, the file or the exception
said. So nothing can leak, whatever the text of an error is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from holdfast import Category, Failure, HoldfastError
from holdfast.kit import PublicFailure, classify, failure


class Code(StrEnum):
    """What a client may see. No other code leaves the system."""

    NOT_PDF = "NOT_PDF"
    TOO_LARGE = "TOO_LARGE"
    GW_4XX = "GW_4XX"
    GW_5XX = "GW_5XX"
    GW_TIMEOUT = "GW_TIMEOUT"
    IO_ERROR = "IO_ERROR"
    NOT_READY = "NOT_READY"
    EXPIRED = "EXPIRED"
    FORBIDDEN = "FORBIDDEN"
    UNKNOWN = "UNKNOWN"


RETRIED = frozenset({Code.GW_5XX, Code.GW_TIMEOUT, Code.IO_ERROR, Code.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Public:
    """What a client is told of a failure. `by_user`: the document is the cause, and nobody who runs the service is
    called for it."""

    code: Code
    message: str
    by_user: bool = False


def _document(message: str) -> Public:
    """The converter, well as it is, cannot take this document."""
    return Public(Code.GW_4XX, message, by_user=True)


_REFUSED = _document("The converter refused this document.")
_CLASHED = Public(Code.GW_4XX, _REFUSED.message)
_NO_ACCESS = Public(Code.GW_4XX, "The converter did not accept our request.")
_UNREADABLE = Public(Code.GW_4XX, "The converter's answer could not be read.")
_DOWN = Public(Code.GW_5XX, "The converter is not available.")
_FAILED = Public(Code.GW_5XX, "The converter failed.")
_BUSY = Public(Code.GW_5XX, "The converter is busy.")
_SLOW = Public(Code.GW_TIMEOUT, "The conversion took too long.")
_LOCAL = Public(Code.IO_ERROR, "The server could not read or write the document.")
_PRESSED = Public(Code.IO_ERROR, "The server is short of resources.")
_UNKNOWN = Public(Code.UNKNOWN, "The conversion failed for an unknown reason.")

# Keys in capitals are error classes. The nine in small letters are categories, for classes not named here.
TABLE: Mapping[str, Public] = {
    # the public codes themselves, raised by uploads and the HTTP layer
    Code.NOT_PDF: Public(Code.NOT_PDF, "The file is not a PDF.", by_user=True),
    Code.TOO_LARGE: Public(Code.TOO_LARGE, "The file is too large.", by_user=True),
    Code.GW_4XX: _REFUSED,
    Code.GW_5XX: _FAILED,
    Code.GW_TIMEOUT: _SLOW,
    Code.IO_ERROR: _LOCAL,
    Code.NOT_READY: Public(Code.NOT_READY, "The result is not ready yet."),
    Code.EXPIRED: Public(Code.EXPIRED, "The result has expired."),
    Code.FORBIDDEN: Public(Code.FORBIDDEN, "This job belongs to someone else."),
    Code.UNKNOWN: _UNKNOWN,
    # internal codes that the specification names
    "GW_UNAVAILABLE": _DOWN,
    "PARSE_ERROR": _UNREADABLE,
    "VALIDATION_ERROR": _REFUSED,
    "INVALID_MAPPING": _REFUSED,
    "MEMORY_ERROR": _UNKNOWN,
    "LOCAL_PRESSURE": _PRESSED,
    # the embedded converter
    "DOCUMENT_ENCRYPTED": _document("The document is protected by a password."),
    "DOCUMENT_DAMAGED": _document("The document is damaged and cannot be read."),
    "DOCUMENT_EMPTY": _document("The document holds no text."),
    "DOCUMENT_TOO_LONG": _document("The document has too many pages."),
    "DOCUMENT_TOO_COMPLEX": _document("The document is too complex to convert."),
    "CONVERTER_BROKEN": _UNKNOWN,
    # the HTTP gateways
    "GATEWAY_TIMEOUT": _SLOW,
    "GATEWAY_BUSY": _BUSY,
    "GATEWAY_MISCONFIGURED": _NO_ACCESS,
    "NOTHING_EXTRACTED": _document("The converter found nothing in this document."),
    "RESULT_TOO_LARGE": _document("The converted document is too large."),
    "UPSTREAM_TOO_LARGE": _document("The document is too large for the converter."),
    "UPSTREAM_TIMEOUT": _SLOW,
    "UPSTREAM_GATEWAY_TIMEOUT": _SLOW,
    "UPSTREAM_BAD_GATEWAY": _DOWN,
    "UPSTREAM_UNAVAILABLE": _DOWN,
    "NETWORK_TIMEOUT": _SLOW,
    # the kernel
    "PROVIDER_HELD": _BUSY,
    "DEADLINE_EXCEEDED": _SLOW,
    "STAGE_TIMEOUT": _SLOW,
    "INPUT_INVALID": _UNKNOWN,
    "RESULT_INVALID": _UNKNOWN,
    # the categories
    Category.NETWORK: _DOWN,
    Category.RATE_LIMIT: _BUSY,
    Category.UPSTREAM: _FAILED,
    Category.CONFLICT: _CLASHED,
    Category.VALIDATION: _REFUSED,
    Category.AUTH: _NO_ACCESS,
    Category.NOT_FOUND: _NO_ACCESS,
    Category.POLICY: _REFUSED,
    Category.BUG: _UNKNOWN,
}


class ConversionError(HoldfastError):
    """A request or a job ends with `code`. The message is for the log; clients get the table's sentence."""

    def __init__(self, code: Code, message: str = "") -> None:
        super().__init__(message or TABLE[code].message)
        self.code = code
        category = Category.UPSTREAM if code in RETRIED else Category.VALIDATION
        self.failure = failure(category, code.value, str(self))


def public_error(error: Failure | BaseException) -> tuple[Code, str]:
    """The code and the one-line sentence that a client may see."""
    found = _public(error if isinstance(error, Failure) else conversion_failure(error))
    return found.code, found.message


def public_failure(why: Failure) -> PublicFailure:
    """The code of log lines and metrics, and whether the document is the cause."""
    found = _public(why)
    return PublicFailure(found.code.value, found.by_user)


def conversion_failure(error: BaseException) -> Failure:
    """The failure behind an exception, with this system's view of which failures are worth another attempt.

    Local trouble and defects are retried (IO_ERROR, UNKNOWN); whatever shows as GW_4XX is not, even where its
    category would be. A provider that asks not to be called again is obeyed.
    """
    found = classify(error)
    if found.error_class == "BUG":
        found = _local(error, found)
    code = _public(found).code
    defect = found.category is Category.BUG
    return replace(found, retryable=code in RETRIED and (found.retryable or defect))


def _local(error: BaseException, found: Failure) -> Failure:
    if isinstance(error, MemoryError):
        return replace(found, error_class="LOCAL_PRESSURE")
    if isinstance(error, OSError):
        return replace(found, error_class="IO_ERROR")
    return found


def _public(found: Failure) -> Public:
    return TABLE.get(found.error_class) or TABLE[found.category]
