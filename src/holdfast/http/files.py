"""A file as an answer. A range that cannot be read, and several, get the whole file; what does not fit is a Problem."""

from __future__ import annotations

import re

from fastapi.responses import FileResponse

from holdfast.http.problem import Problem

_RANGE = re.compile(
    r"\s*+bytes\s*+=\s*+(?P<first>[0-9]{0,15}+)\s*+-\s*+(?P<last>[0-9]{0,15}+)\s*+", re.IGNORECASE | re.ASCII
)


class BinaryFile(FileResponse):
    """Bytes for `response_class`: the document says that a route answers with a file."""

    media_type = "application/octet-stream"


class FileAnswer(FileResponse):
    """The framework's own would refuse an odd range in words that are not ours, with none of the codes."""

    @classmethod
    def _parse_range_header(cls, http_range: str, file_size: int) -> list[tuple[int, int]]:
        """The part that is asked for, from its first byte to the one behind its last; none for the whole file."""
        asked = _RANGE.fullmatch(http_range)
        if asked is None or not (asked["first"] or asked["last"]):
            return []
        if not asked["first"]:
            first, end = max(0, file_size - int(asked["last"])), file_size
        else:
            first, end = int(asked["first"]), min(file_size, int(asked["last"] or file_size) + 1)
            if asked["last"] and int(asked["last"]) < first:
                return []
        if first >= file_size:
            headers = {"Content-Range": f"bytes */{file_size}"}
            raise Problem(416, "RANGE_NOT_SATISFIABLE", f"The file has {file_size} bytes.", headers=headers)
        return [(first, end)]
