"""`python -m quality [area ...]`: measure, print the table, exit 1 if a goal is missed.

`--write` puts the table into docs/explanation/quality.md, between its two marks; it then has to be the whole one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from quality.areas import areas
from quality.row import Row, table_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "quality.md"
BEGIN, END = "<!-- the table of `make quality` -->", "<!-- its end -->"


def main(arguments: list[str] | None = None) -> int:
    known = areas()
    parser = argparse.ArgumentParser(prog="quality", description=__doc__)
    parser.add_argument("areas", nargs="*", metavar="area", help=f"of: {', '.join(known)}; none means all")
    parser.add_argument("--write", action="store_true", help="keep the table in the documentation")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.areas if name not in known]
    if unknown:
        parser.error(f"There is no area {', '.join(unknown)}; there are {', '.join(known)}.")
    if options.write and options.areas:
        parser.error("Only the whole table is kept; leave out the names of areas.")
    measured = [(name, _measured(name)) for name in options.areas or known]
    table = table_of(measured)
    print(table)
    if options.write:
        PAGE.write_text(with_table(PAGE.read_text(), table))
    return int(any(row.met is False for _, rows in measured for row in rows))


def _measured(name: str) -> list[Row]:
    print(f"{name} ...", file=sys.stderr, flush=True)
    return list(areas()[name]())


def with_table(page: str, table: str) -> str:
    """The page with a new table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
