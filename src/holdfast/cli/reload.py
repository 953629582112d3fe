"""`holdfast worker --reload`: a worker that restarts when the code below this folder changes, for development."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

import typer

LOOK_S = 0.3
LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})
Stamps = Mapping[Path, int]


def run_and_reload(arguments: Sequence[str], grace_s: float) -> None:
    """Run this very command without `--reload`, again after every change, until a signal says stop. A worker that
    cannot start is left until the next change."""
    stop = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    command = [sys.executable, "-m", "holdfast", *(each for each in arguments if each != "--reload")]
    try:
        while not stop.is_set():
            _run_until_changed(command, stop, grace_s)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run_until_changed(command: Sequence[str], stop: threading.Event, grace_s: float) -> None:
    seen = stamps(Path.cwd())
    worker = subprocess.Popen(command)
    is_told = False
    try:
        while not stop.wait(LOOK_S):
            if worker.poll() is not None and not is_told:
                typer.echo(f"The worker has ended with exit code {worker.returncode}; waiting for a change.", err=True)
                is_told = True
            changed = changes(seen, stamps(Path.cwd()))
            if changed:
                typer.echo(f"Reloading: {', '.join(changed[:3])} changed.", err=True)
                return
    finally:
        end(worker, grace_s)


def end(worker: subprocess.Popen[bytes], grace_s: float) -> None:
    """Let it finish what is in flight, as SIGTERM does; one that does not end in time is killed."""
    worker.terminate()
    try:
        worker.wait(grace_s + 10)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()


def stamps(folder: Path) -> Stamps:
    """Every Python file below a folder, with the time of its last change."""
    found: dict[Path, int] = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in LEFT_OUT]
        for name in files:
            if name.endswith(".py"):
                path = Path(place) / name
                try:
                    found[path] = path.stat().st_mtime_ns
                except OSError:
                    continue  # gone meanwhile
    return found


def changes(before: Stamps, after: Stamps) -> list[str]:
    """The names of the files that were changed, added or removed."""
    paths = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    return sorted(path.name for path in paths)
