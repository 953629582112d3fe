"""The library's functions that are asked for every word: called with plain numbers for pointers."""

from __future__ import annotations

import ctypes
from typing import Any

import pypdfium2.raw as raw


def address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _plain(function: Any, result: Any, *arguments: Any) -> Any:
    """The same function with plain numbers for pointers: it is called for every word, or every text object."""
    return ctypes.PYFUNCTYPE(result, ctypes.c_void_p, *arguments)(address_of(function))


_pointer, _int = ctypes.c_void_p, ctypes.c_int
char_box = _plain(raw.FPDFText_GetCharBox, _int, _int, _pointer, _pointer, _pointer, _pointer)
loose_box = _plain(raw.FPDFText_GetLooseCharBox, _int, _int, _pointer)
char_origin = _plain(raw.FPDFText_GetCharOrigin, _int, _int, _pointer, _pointer)
text_object = _plain(raw.FPDFText_GetTextObject, _pointer, _int)
font_size = _plain(raw.FPDFText_GetFontSize, ctypes.c_double, _int)
char_matrix = _plain(raw.FPDFText_GetMatrix, _int, _int, _pointer)
font_of = _plain(raw.FPDFTextObj_GetFont, _pointer)
mark_of = _plain(raw.FPDFPageObj_GetMarkedContentID, _int)
