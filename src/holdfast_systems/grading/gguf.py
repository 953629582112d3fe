"""Reads a GGUF file of weights, without any package: its notes, its vocabulary, its tensors where they lie.

The file is mapped, not read: processes share its pages, and a tensor is unpacked only while it is used. Three kinds
of storage are known, those of the model that grading uses: F32, Q4_1 and Q8_0.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAGIC = b"GGUF"
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_F32, _Q4_1, _Q8_0 = 0, 3, 8
_BLOCK = 32


class UnreadableWeights(ValueError):
    """The file is no GGUF file that this module knows."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A matrix on disk: `rows` of `columns` weights."""

    rows: int
    columns: int
    kind: int
    data: NDArray[np.uint8]

    def unpack(self, first: int = 0, last: int | None = None) -> NDArray[np.float32]:
        """Rows `first` up to `last` as floats."""
        return _unpack(self.kind, self.data[first:last], self.columns)

    def unpack_rows(self, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        return _unpack(self.kind, self.data[indices], self.columns)


class Weights:
    """An opened file. `notes` holds its settings and vocabulary by name, `tensors` its matrices."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            self.notes, self.tensors = self._read()
        except (struct.error, KeyError, UnicodeDecodeError, IndexError) as error:
            raise UnreadableWeights(f"{path.name} is not a GGUF file of a known kind.") from error

    def _read(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        if self._bytes[:4] != _MAGIC:
            raise KeyError("magic")
        self._at = 8
        tensor_count, note_count = self._scalar("Q"), self._scalar("Q")
        notes = {}
        for _ in range(note_count):
            name = self._string()
            notes[name] = self._value(self._scalar("I"))
        headers = [self._header() for _ in range(tensor_count)]
        alignment = int(notes.get("general.alignment", 32))
        start = -(-self._at // alignment) * alignment
        return notes, {name: self._tensor(shape, kind, start + offset) for name, shape, kind, offset in headers}

    def _header(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string()
        shape = tuple(self._scalar("Q") for _ in range(self._scalar("I")))
        return name, shape, self._scalar("I"), self._scalar("Q")

    def _tensor(self, shape: tuple[int, ...], kind: int, offset: int) -> Tensor:
        import numpy as np

        columns, rows = shape[0], shape[1] if len(shape) > 1 else 1
        width = {_F32: columns * 4, _Q4_1: columns // _BLOCK * 20, _Q8_0: columns // _BLOCK * 34}[kind]
        data = np.frombuffer(self._bytes, np.uint8, rows * width, offset).reshape(rows, width)
        return Tensor(rows, columns, kind, data)

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._scalar(_SCALARS[kind])
        kind, count = self._scalar("I"), self._scalar("Q")
        return [self._value(kind) for _ in range(count)]

    def _string(self) -> str:
        size = self._scalar("Q")
        self._at += size
        return self._bytes[self._at - size : self._at].decode()

    def _scalar(self, form: str) -> Any:
        (value,) = struct.unpack_from("<" + form, self._bytes, self._at)
        self._at += struct.calcsize(form)
        return value


def _unpack(kind: int, data: NDArray[np.uint8], columns: int) -> NDArray[np.float32]:
    """Weights come in blocks of 32, each with a scale of its own, and Q4_1 with its least value too."""
    import numpy as np

    if kind == _F32:
        return np.ascontiguousarray(data).view(np.float32)
    blocks = np.ascontiguousarray(data).reshape(len(data) * columns // _BLOCK, -1)
    scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    if kind == _Q8_0:
        return (blocks[:, 2:].view(np.int8).astype(np.float32) * scale).reshape(len(data), columns)
    least = blocks[:, 2:4].copy().view(np.float16).astype(np.float32)
    weights = np.empty((len(blocks), _BLOCK), np.float32)
    weights[:, :16] = blocks[:, 4:] & 0x0F
    weights[:, 16:] = blocks[:, 4:] >> 4
    weights *= scale
    weights += least
    return weights.reshape(len(data), columns)
