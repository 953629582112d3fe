"""Draws the documentation's charts as SVG. Readable on light and on dark ground: ink follows the reader's scheme."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from bench.report import Report

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
STYLE = """<style>
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .small { font-size: 12px; fill: #57606a }
  .title { font-size: 15px; font-weight: 600 }
  .ours { fill: #0969da } .theirs { fill: #8c959f } .floor { fill: #afb8c1 } .axis { stroke: #8c959f; stroke-width: 1 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9198a1 } .ours { fill: #4493f8 } .theirs { fill: #6e7681 }
    .floor { fill: #484f58 }
  }
</style>"""
WIDTH, LEFT, RIGHT, BAR, STEP, TOP = 720, 190, 90, 18, 28, 46

Bar = tuple[str, float, str, str]
"""Label, length, what is written behind it, class."""


def draw(report: Report, folder: Path = PICTURES) -> None:
    """Write every chart that the report has figures for."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, title, bars in (
        ("bench-throughput.svg", "No-op jobs per second, one worker process", throughput(report)),
        ("bench-claim.svg", "Buffers touched by a claim of 50, by what else is in the table", claims(report)),
    ):
        if bars:
            (folder / name).write_text(chart(title, bars))


def throughput(report: Report) -> list[Bar]:
    """Every side that ran no-op jobs, the fastest first."""
    rates = {side: tasks["noop"]["per_s"] for side, tasks in report.figures.items() if "noop" in tasks}
    names = {"floor": "a bare loop, no promise", "holdfast": "Holdfast"}
    kinds = {"holdfast": "ours", "floor": "floor"}
    ordered = sorted(rates, key=lambda side: -rates[side])
    return [
        (names.get(side, side), rates[side], f"{rates[side]:,.0f}/s", kinds.get(side, "theirs")) for side in ordered
    ]


def claims(report: Report) -> list[Bar]:
    """The claim's cost in each deep table."""
    found = report.figures.get("holdfast", {}).get("depth")
    if not found:
        return []
    size = found["jobs"]
    labels = {
        "few": "1,000 queued",
        "queued": f"+ {size:,.0f} queued",
        "finished": f"+ {size:,.0f} finished",
        "future": f"+ {size / 5:,.0f} in the future",
        "held": f"+ {size / 5:,.0f} held",
        "priorities": f"+ {size / 5:,.0f}, 4 priorities",
    }
    return [
        (label, found[f"{case}_buffers"], f"{found[f'{case}_buffers']:,.0f}, {found[f'{case}_ms']:.2f} ms", "ours")
        for case, label in labels.items()
    ]


def chart(title: str, bars: Sequence[Bar]) -> str:
    """Horizontal bars from one zero."""
    longest = max(length for _, length, _, _ in bars)
    room, height = WIDTH - LEFT - RIGHT - 40, TOP + STEP * len(bars) + 14
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(title)}">',
        STYLE,
        f'<text class="title" x="8" y="24">{escape(title)}</text>',
        f'<line class="axis" x1="{LEFT}" y1="{TOP - 6}" x2="{LEFT}" y2="{height - 8}"/>',
    ]
    for number, (label, length, text, kind) in enumerate(bars):
        y, wide = TOP + STEP * number, max(1.0, room * length / longest)
        parts += [
            f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(label)}</text>',
            f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{wide:.1f}" height="{BAR}" rx="2"/>',
            f'<text class="small" x="{LEFT + wide + 8:.1f}" y="{y + 14}">{escape(text)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
