"""Holdfast and its peers on the same work, the same servers, in one sitting.

    python -m bench --quick     the ratios to pgqueuer and to the floor, in under two minutes
    python -m bench             medians of five interleaved rounds

Rounds are interleaved so that a noisy minute hits everybody; what counts are the ratios, not the rates.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.services.postgres import PostgresServer

HERE = Path(__file__).parent
PEERS = Path(".cache/peers")
COUNTS = {"noop": 20_000, "enqueue": 4_000, "bulk": 40_000, "pickup": 100}
QUICK = {"noop": 10_000, "enqueue": 1_500, "bulk": 20_000, "pickup": 60}


@dataclass
class Side:
    """One contender: its interpreter, its runner, and its figures per task."""

    name: str
    python: Path
    runner: Path
    figures: dict[str, list[dict[str, float]]] = field(default_factory=dict)


def main() -> int:
    args = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    args.add_argument("--quick", action="store_true", help="three rounds of smaller counts")
    args.add_argument("--rounds", type=int, default=0, help="how many rounds (default 5, quick 3)")
    args.add_argument("--out", type=Path, default=Path(".cache/bench.json"), help="where the figures go as JSON")
    asked = args.parse_args()
    rounds = asked.rounds or (3 if asked.quick else 5)
    counts = QUICK if asked.quick else COUNTS
    sides = [Side("holdfast", Path(sys.executable), HERE / "holdfast_runs.py"), *peers()]
    server = PostgresServer()
    server.begin()
    try:
        for number in range(rounds):
            for task, count in counts.items():
                for side in sides:
                    run(server, side, task, count)
            print(f"round {number + 1} of {rounds} done, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        report = summary(sides, fsync_per_s(), rounds)
    finally:
        server.stop()
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(report, indent=2))
    show(report)
    return 0


def peers() -> list[Side]:
    """Every peer in a virtualenv of its own; one that cannot be installed is named and left out."""
    found = []
    for pins in sorted((HERE / "peers").glob("*.txt")):
        home = PEERS / pins.stem
        python = home / "bin" / "python"
        try:
            if not python.exists():
                subprocess.run([sys.executable, "-m", "venv", home], check=True, capture_output=True)
            install = [Path(sys.executable).parent / "uv", "pip", "install", "-q", "--python", python, "-r", pins]
            subprocess.run(install, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"left out: {pins.stem} cannot be installed ({error})", file=sys.stderr)
            continue
        found.append(Side(pins.stem, python, HERE / "peers" / f"{pins.stem}_runs.py"))
    return found


def run(server: PostgresServer, side: Side, task: str, count: int) -> None:
    url = server.create_database()
    before = database_cpu_s(server)
    done = subprocess.run(
        [side.python, side.runner, task, url, str(count)], capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode != 0:
        print(f"{side.name} failed at {task}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
    else:
        figures = json.loads(done.stdout.strip().splitlines()[-1])
        figures["database_cpu_s"] = database_cpu_s(server) - before
        side.figures.setdefault(task, []).append(figures)
    server.drop_database(url)


def database_cpu_s(server: PostgresServer) -> float:
    """CPU seconds of the server and all its processes, living and gone."""
    root = server.pid
    tick = os.sysconf("SC_CLK_TCK")
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        own, parent = int(stat.parent.name), int(fields[1])
        if own == root:
            total += sum(map(int, fields[11:15]))
        elif parent == root:
            total += sum(map(int, fields[11:13]))
    return total / tick


def fsync_per_s() -> float:
    path = Path(".cache/fsync-probe")
    path.parent.mkdir(exist_ok=True)
    handle = os.open(path, os.O_CREAT | os.O_WRONLY)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < 0.5:
        os.write(handle, b"x" * 512)
        os.fsync(handle)
        count += 1
    os.close(handle)
    path.unlink()
    return count / 0.5


def summary(sides: list[Side], fsync: float, rounds: int) -> dict[str, Any]:
    ours = sides[0]
    report: dict[str, Any] = {"rounds": rounds, "fsync_per_s": round(fsync), "load": os.getloadavg()[0], "tasks": {}}
    for task, mine in ours.figures.items():
        rows = {}
        for side in sides:
            theirs = side.figures.get(task, [])
            if theirs:
                rows[side.name] = row(task, mine, theirs)
        report["tasks"][task] = rows
    return report


def row(task: str, mine: list[dict[str, float]], theirs: list[dict[str, float]]) -> dict[str, float]:
    if task == "pickup":
        p50 = statistics.median(one["p50_ms"] for one in theirs)
        ratios = [b["p50_ms"] / a["p50_ms"] for a, b in zip(mine, theirs, strict=False)]
        p99 = statistics.median(one["p99_ms"] for one in theirs)
        return {"p50_ms": p50, "p99_ms": p99, **spread(ratios)}
    rates = [one["jobs"] / one["seconds"] for one in theirs]
    own = [one["jobs"] / one["seconds"] for one in mine]
    cpu = [(one["cpu_s"] + one["database_cpu_s"]) / one["jobs"] * 1e6 for one in theirs]
    ratios = [a / b for a, b in zip(own, rates, strict=False)]
    return {"per_s": statistics.median(rates), "cpu_us": statistics.median(cpu), **spread(ratios)}


def spread(ratios: list[float]) -> dict[str, float]:
    return {"holdfast_is": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}


def show(report: dict[str, Any]) -> None:
    print(f"{report['rounds']} rounds, {report['fsync_per_s']} fsync/s, load {report['load']:.1f}")
    for task, rows in report["tasks"].items():
        for name, one in rows.items():
            rate = f"p50 {one['p50_ms']:.1f} ms, p99 {one['p99_ms']:.1f} ms" if "p50_ms" in one else ""
            rate = rate or f"{one['per_s']:,.0f}/s, {one['cpu_us']:.0f} us of CPU each"
            ratio = "" if name == "holdfast" else f"  holdfast is {one['holdfast_is']:.2f} x"
            low_high = "" if name == "holdfast" else f" ({one['low']:.2f} to {one['high']:.2f})"
            print(f"{task:8} {name:14} {rate}{ratio}{low_high}")


if __name__ == "__main__":
    raise SystemExit(main())
