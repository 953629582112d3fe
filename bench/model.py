"""The bench in three words: a run is what one side does once a round, a row is a claim about runs, a book has both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.arithmetic import Spread, ratios, spread
from bench.stopwatch import Figures


@dataclass(frozen=True, slots=True)
class Run:
    """One task of one side. Runs that several rows ask for happen once a round."""

    side: str
    task: str
    count: int
    quick: int
    once: bool = False
    timeout_s: float = 180.0


@dataclass(frozen=True, slots=True)
class Measured:
    """What a row came to. `met` is None where there is nothing to compare with."""

    text: str
    met: bool | None
    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A claim: what is measured, what it must be, which runs it needs, and how they are judged."""

    name: str
    what: str
    must: str
    runs: Sequence[Run]
    judge: Callable[[Book], Measured]
    quick: bool = False


@dataclass
class Book:
    """Every figure of this sitting, by side and task, in the order of the rounds."""

    pages: dict[tuple[str, str], list[Figures]] = field(default_factory=dict)

    def write(self, run: Run, figures: Figures) -> None:
        self.pages.setdefault((run.side, run.task), []).append(figures)

    def of(self, side: str, task: str, name: str) -> list[float]:
        return [one[name] for one in self.pages.get((side, task), []) if name in one]

    def spread(self, side: str, task: str, name: str) -> Spread:
        return spread(self.of(side, task, name))

    def has(self, side: str, task: str) -> bool:
        return bool(self.pages.get((side, task)))


NOTHING = Measured("not measured: one side is missing", None)


def at_least(value: Spread, limit: float, more: str = "") -> Measured:
    return Measured(_times(value) + more, value.median >= limit, value.median, value.low, value.high)


def at_most(value: Spread, limit: float, more: str = "") -> Measured:
    return Measured(_times(value) + more, value.median <= limit, value.median, value.low, value.high)


def compare(book: Book, ours: tuple[str, str], theirs: tuple[str, str], name: str) -> Spread | None:
    """Ours over theirs, round by round; None if either has no figures."""
    mine, other = book.of(*ours, name), book.of(*theirs, name)
    return spread(ratios(mine, other)) if mine and other else None


def rate_ratio(ours: tuple[str, str], theirs: tuple[str, str], limit: float) -> Callable[[Book], Measured]:
    """The rate of ours must be at least `limit` times that of theirs."""

    def judge(book: Book) -> Measured:
        found = compare(book, ours, theirs, "per_s")
        if found is None:
            return NOTHING
        mine, other = book.spread(*ours, "per_s").median, book.spread(*theirs, "per_s").median
        return at_least(found, limit, f": {mine:,.0f}/s against {other:,.0f}/s")

    return judge


def _times(value: Spread) -> str:
    return f"{value.median:.2f} x ({value.low:.2f} to {value.high:.2f})"
