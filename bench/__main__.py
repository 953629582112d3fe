"""Holdfast and its peers on the same work, the same servers, in one sitting.

    python -m bench                  every row, medians of five interleaved rounds
    python -m bench --quick          the ratios to pgqueuer and to the floor, in under two minutes
    python -m bench --only noop cpu  these rows alone

Rounds are interleaved so that a noisy minute hits everybody; what counts are the ratios, not the rates.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.charts import draw
from bench.machine import machine
from bench.model import Book, Row, Run
from bench.page import rewrite
from bench.report import Report, judged, show
from bench.rows import ROWS
from bench.sides import ENVIRONMENTS, CannotRun, Servers, Sides

QUICK_S = 75.0
RESULTS = Path(__file__).parent / "results" / "latest.json"


def main() -> int:
    asked = arguments()
    rows = chosen(asked)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    servers = Servers()
    sides, book = Sides(servers), Book()
    before = machine(ENVIRONMENTS)
    try:
        rounds = play(sides, book, rows, asked)
    finally:
        servers.stop()
    report = judged(rows, book, sides, rounds=rounds, quick=asked.quick, before=before, after=machine(ENVIRONMENTS))
    show(report, sys.stdout)
    if asked.out is not None:
        keep(report, asked.out, asked.merge)
    return 0 if report.is_clean else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rows, smaller counts, about a minute and a half")
    parser.add_argument("--only", nargs="+", default=[], metavar="ROW", help="these rows: " + ", ".join(names()))
    parser.add_argument("--rounds", type=int, default=0, help="how many rounds (default 5; quick: as many as fit)")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no round that would end later than this")
    parser.add_argument("--share", type=float, default=1.0, help="scale every count, such as 0.1 while developing")
    parser.add_argument(
        "--out", type=Path, default=None, help="write the figures as JSON (and the charts, if it is the latest)"
    )
    parser.add_argument("--merge", action="store_true", help="keep the other rows that the file already holds")
    return parser.parse_args()


def names() -> list[str]:
    return [row.name for row in ROWS]


def chosen(asked: argparse.Namespace) -> list[Row]:
    unknown = sorted(set(asked.only) - set(names()))
    if unknown:
        raise SystemExit(f"There is no row named '{unknown[0]}'; known: {', '.join(names())}.")
    if asked.only:
        return [row for row in ROWS if row.name in asked.only]
    return [row for row in ROWS if row.quick] if asked.quick else list(ROWS)


def play(sides: Sides, book: Book, rows: Sequence[Row], asked: argparse.Namespace) -> int:
    """Every distinct run once a round, in turn; returns how many rounds there were."""
    runs = list(dict.fromkeys(run for row in rows for run in row.runs))
    limit_s = asked.minutes * 60 or (QUICK_S if asked.quick and not asked.rounds else math.inf)
    began, number = time.monotonic(), 0
    while number < (asked.rounds or (99 if asked.quick else 5)):
        number += 1
        for run in runs:
            if number == 1 or not run.once:
                one(sides, book, run, asked)
        took = time.monotonic() - began
        say(f"round {number} done after {took:.0f} s, load {os.getloadavg()[0]:.1f}")
        if took / number * (number + 1) > limit_s:
            break
    return number


def one(sides: Sides, book: Book, run: Run, asked: argparse.Namespace) -> None:
    count = max(50, int((run.quick if asked.quick else run.count) * asked.share))
    try:
        book.write(run, sides.run(run, count))
    except CannotRun as error:
        say(f"left out: {error}")


def keep(report: Report, path: Path, merge: bool) -> None:
    kept = Report.read(path).updated(report) if merge and path.exists() else report
    kept.write(path)
    if path.resolve() == RESULTS.resolve():
        draw(kept)
        rewrite(kept)


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
