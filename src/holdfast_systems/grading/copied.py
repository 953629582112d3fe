"""How much of an answer stands in its question word for word."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_RUN_WORDS = 5


def copied_share(answer: str, question: str) -> float:
    """The share of an answer's words that belong to a run of five which the question has too."""
    words, asked = (_WORD.findall(text.casefold()) for text in (answer, question))
    runs = {tuple(asked[start : start + _RUN_WORDS]) for start in range(len(asked) - _RUN_WORDS + 1)}
    if not runs or not words:
        return 0.0
    copied: set[int] = set()
    for start in range(len(words) - _RUN_WORDS + 1):
        if tuple(words[start : start + _RUN_WORDS]) in runs:
            copied.update(range(start, start + _RUN_WORDS))
    return len(copied) / len(words)
