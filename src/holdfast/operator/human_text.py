"""A text that a person gives us: not too long, and such that either database can keep it."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, StringConstraints

HUMAN_TEXT_MAX = 4_000


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain a NUL character")
    return text


HumanText = Annotated[str, StringConstraints(max_length=HUMAN_TEXT_MAX), AfterValidator(_without_nul)]
