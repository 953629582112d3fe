"""What a predicate found: which promise, a sentence, and the job concerned."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise. `promise` is its number in docs/reliability.md."""

    promise: str
    text: str
    job: str | None = None

    def __str__(self) -> str:
        return f"{self.promise}: {self.text}"
