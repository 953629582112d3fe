"""Reads a multipart upload while it arrives: the file goes on piece by piece, the small fields are kept.

    request.stream() --parser--> file()  one iterator over the bytes of the part `file`
                             \\--> fields  what else the form says, complete once `file()` is exhausted

Nothing is spooled: memory holds one chunk of the socket, whatever the size of the file.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from holdfast.http.problem import Problem

FILE_FIELD = "file"
FIELD_BYTES_MAX = 4_096
PARTS_MAX = 16
FORM_BYTES_MAX = 64 << 10  # what a form may weigh besides its file
FILENAME_LENGTH_MAX = 200


class UploadForm:
    """One form under way. `file()` may be iterated once; it ends with the form, not with the file."""

    def __init__(self, content_type: str, stream: AsyncIterator[bytes]) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if kind != b"multipart/form-data" or not boundary:
            raise Problem(415, "UNSUPPORTED_MEDIA_TYPE", "Send the PDF as multipart/form-data, in the field 'file'.")
        self.fields: dict[str, str] = {}
        self.filename = "document.pdf"
        self._stream = stream
        self._pieces: deque[bytes] = deque()
        self._parts = 0
        self._seen_file = False
        self._ended = False
        self._bytes_beside = 0
        self._start_part()
        try:
            self._parser = MultipartParser(boundary, self._callbacks())  # type: ignore[arg-type]
        except FormParserError as error:
            raise _malformed() from error

    async def file(self) -> AsyncIterator[bytes]:
        """The bytes of the file as they come. Raises Problem if the form is broken, has no file, or never ends."""
        async for chunk in self._stream:
            try:
                self._parser.write(chunk)
            except FormParserError as error:
                raise _malformed() from error
            self._bytes_beside += len(chunk) - sum(map(len, self._pieces))
            if self._bytes_beside > FORM_BYTES_MAX:
                raise Problem(422, "INVALID_INPUT", f"The form has more than {FORM_BYTES_MAX} bytes beside its file.")
            while self._pieces:
                yield self._pieces.popleft()
        if not self._ended:
            raise _malformed()
        if not self._seen_file:
            raise Problem(422, "INVALID_INPUT", "The form has no file in the field 'file'.", field=FILE_FIELD)

    def _callbacks(self) -> dict[str, Any]:
        return {
            "on_part_begin": self._start_part,
            "on_header_field": lambda data, start, end: self._header_name.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._header_value.extend(data[start:end]),
            "on_header_end": self._end_header,
            "on_headers_finished": self._end_headers,
            "on_part_data": self._take,
            "on_part_end": self._end_part,
            "on_end": self._end,
        }

    def _start_part(self) -> None:
        self._header_name, self._header_value = bytearray(), bytearray()
        self._disposition = b""
        self._name: str | None = None
        self._value = bytearray()

    def _end_header(self) -> None:
        if self._header_name.lower() == b"content-disposition":
            self._disposition = bytes(self._header_value)
        self._header_name.clear()
        self._header_value.clear()

    def _end_headers(self) -> None:
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise Problem(422, "INVALID_INPUT", f"The form has more than {PARTS_MAX} parts.")
        _, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        if self._name == FILE_FIELD:
            if self._seen_file:
                raise Problem(
                    422, "INVALID_INPUT", "The form has more than one file; send one at a time.", field="file"
                )
            self._seen_file = True
            self.filename = clean_filename(options.get(b"filename", b"").decode("utf-8", "replace"))

    def _take(self, data: bytes, start: int, end: int) -> None:
        if self._name == FILE_FIELD:
            self._pieces.append(data[start:end])
            return
        self._value += data[start:end]
        if len(self._value) > FIELD_BYTES_MAX:
            raise Problem(422, "INVALID_INPUT", f"A field of the form is over {FIELD_BYTES_MAX} bytes.")

    def _end_part(self) -> None:
        if self._name is not None and self._name != FILE_FIELD:
            self.fields[self._name] = self._value.decode("utf-8", "replace")

    def _end(self) -> None:
        self._ended = True


def clean_filename(name: str) -> str:
    """A client's file name made fit to be shown: no folders, no control or direction characters, not too long."""
    last = re.split(r"[/\\]", name)[-1]
    shown = "".join(char for char in last if unicodedata.category(char)[0] != "C").strip()
    return shown[:FILENAME_LENGTH_MAX] or "document.pdf"


def _malformed() -> Problem:
    return Problem(400, "BAD_REQUEST", "The multipart form is malformed or cut off.")
