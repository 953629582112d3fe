"""What a look at a database came to, for `holdfast check --connect`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Examination:
    """Facts in a few words each, in the order of interest; problems in sentences."""

    facts: tuple[str, ...]
    problems: tuple[str, ...] = ()
    is_writable: bool = True
    hears: bool = True
    """Whether there is a way for rings to arrive."""
