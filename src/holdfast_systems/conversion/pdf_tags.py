"""What a tagged PDF says about itself: for each piece of marked content, the element that it belongs to."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pypdfium2.raw as raw

_DEPTH_MAX, _ELEMENTS_MAX = 60, 50_000
_INLINE = frozenset(
    [
        "Span",
        "NonStruct",
        "Link",
        "Strong",
        "Em",
        "Quote",
        "Reference",
        "Lbl",
        "LBody",
        "Sub",
        "Sup",
        "Ruby",
        "Warichu",
        "Annot",
        "BibEntry",
        "Private",
    ]
)
_WITHIN = frozenset(
    {"LI", "TD", "TH", "Caption", "Note", "FENote", "Figure", "TOCI"}
)  # a paragraph in it stays part of it
_HEADS = {"H": 1, "Title": 1, **{f"H{level}": level for level in range(1, 7)}}


class Tag(NamedTuple):
    """`block` is one number per paragraph, heading, list item or cell; `table` and `row` are numbers too, or 0."""

    role: str
    block: int
    depth: int = 0
    table: int = 0
    row: int = 0
    label: bool = False

    @property
    def head_level(self) -> int:
        return _HEADS.get(self.role, 0)


def read_tags(page: Any) -> dict[int, Tag]:
    """The tags of a page by the numbers of its marked content; empty if it has none worth having."""
    with _tree(page) as tree:
        if not tree:
            return {}
        walk = _TagWalk()
        for index in range(max(0, raw.FPDF_StructTree_CountChildren(tree))):
            walk.visit(raw.FPDF_StructTree_GetChildAtIndex(tree, index), Tag("", 0), 0)
    return walk.tags if len({tag.block for tag in walk.tags.values()}) > 1 else {}


@contextmanager
def _tree(page: Any) -> Iterator[Any]:
    tree = raw.FPDF_StructTree_GetForPage(page)
    try:
        yield tree
    finally:
        if tree:
            raw.FPDF_StructTree_Close(tree)


class _TagWalk:
    def __init__(self) -> None:
        self.tags: dict[int, Tag] = {}
        self._count = 0
        self._buffer = ctypes.create_string_buffer(128)

    def visit(self, element: Any, around: Tag, depth: int) -> None:
        if not element or depth > _DEPTH_MAX or self._count > _ELEMENTS_MAX:
            return
        self._count += 1
        tag = self._tag(self._role(element), around)
        for index in range(max(0, raw.FPDF_StructElement_GetMarkedContentIdCount(element))):
            mark = raw.FPDF_StructElement_GetMarkedContentIdAtIndex(element, index)
            if mark >= 0:
                self.tags.setdefault(mark, tag)
        for index in range(max(0, raw.FPDF_StructElement_CountChildren(element))):
            self.visit(raw.FPDF_StructElement_GetChildAtIndex(element, index), tag, depth + 1)

    def _role(self, element: Any) -> str:
        size = raw.FPDF_StructElement_GetType(element, self._buffer, 128)
        return self._buffer.raw[: max(0, min(size, 128) - 2)].decode("utf-16-le", "replace")

    def _tag(self, role: str, around: Tag) -> Tag:
        if role == "Lbl":
            return around._replace(label=True)
        if role == "LBody":
            return around._replace(label=False)
        if role in _INLINE or (around.role in _WITHIN and role in ("P", "Div", "Sect", "Code")):
            return around
        if role == "L":
            return around._replace(role=role, block=self._count, depth=around.depth + 1)
        if role == "Table":
            return around._replace(role=role, block=self._count, table=self._count, row=0)
        if role == "TR":
            return around._replace(role=role, block=self._count, row=self._count)
        return around._replace(role=role, block=self._count, label=False)
