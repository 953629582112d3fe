"""Where in the caller's own code an exception came from: what tells one unexpected exception from another.

    KeyError shop/orders.py charge      the type, the file by its last two parts, the innermost function of their own

No line number: an edit above must not make a known bug a new one. What the standard library, installed packages and
Holdfast itself raised belongs to the innermost frame that called them.
"""

from __future__ import annotations

import traceback
from pathlib import PurePath

_STANDARD = str(PurePath(traceback.__file__).parent)
_HOLDFAST = str(PurePath(__file__).parent.parent)
_INSTALLED = ("site-packages", "dist-packages")
FRAMES_MAX = 200


def name_origin(error: BaseException) -> str:
    """The exception's type and its place; the type alone where no frame is the caller's own."""
    frames = traceback.walk_tb(error.__traceback__)
    codes = [frame.f_code for _, (frame, _) in zip(range(FRAMES_MAX), frames, strict=False)]
    own = [code for code in codes if _is_own(code.co_filename)]
    if not own:
        return type(error).__qualname__
    parts = PurePath(own[-1].co_filename).parts[-2:]
    return f"{type(error).__qualname__} {'/'.join(parts)} {own[-1].co_qualname}"


def _is_own(filename: str) -> bool:
    path = PurePath(filename)
    if filename.startswith("<") or any(part in _INSTALLED for part in path.parts):
        return False
    return not (path.is_relative_to(_STANDARD) or path.is_relative_to(_HOLDFAST))
