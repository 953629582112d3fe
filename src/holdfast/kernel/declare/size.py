"""How large a value may be that a job carries: its input, results, checkpoints, answers, progress and messages.

Such rows are read again and again, so a large value belongs elsewhere."""

from __future__ import annotations

import os
from functools import cache

from holdfast.errors import InvalidInput

NAME = "HOLDFAST_VALUE_BYTES_MAX"
BYTES_MAX = 4 * 1_048_576


@cache
def bytes_max() -> int:
    """The limit of this process. Read from its environment, once, because `enqueue` is given no settings; a value that
    is no number is refused by whatever reads them."""
    given = os.environ.get(NAME, "")
    return int(given) if given.isdecimal() and int(given) else BYTES_MAX


def size_problem(text: str) -> str | None:
    """The end of a sentence, "is ... bytes", or None."""
    if len(text) * 4 <= bytes_max():  # no character has more than four bytes
        return None
    size = len(text.encode(errors="surrogatepass"))
    return None if size <= bytes_max() else f"is {size:,} bytes; the limit is {bytes_max():,} ({NAME})"


def check_size(what: str, text: str) -> None:
    problem = size_problem(text)
    if problem is not None:
        raise InvalidInput(f"{what} {problem}. Store it elsewhere and pass a reference.")
