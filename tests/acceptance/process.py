"""Real `holdfast` processes for the tests: started, signalled and awaited by their own pids.

Nothing here sleeps blindly: `until` is the one place that waits, on a condition and a deadline.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.services.found import REPOSITORY

T = TypeVar("T")
LOOK_S = 0.05
PATIENCE_S = 30.0
SHORT = {
    "HOLDFAST_AUTO_MIGRATE": "true",  # each deployment begins with an empty database
    "WORKER_LEASE_TTL_SEC": "2",
    "HOLDFAST_RENEW_SEC": "0.4",
    "HOLDFAST_REAP_SEC": "0.2",
    "HOLDFAST_POLL_SEC": "0.1",
    "HOLDFAST_GRACE_SEC": "10",
    "TIMEOUT_CHECK_INTERVAL_MS": "200",
    "OUTBOX_POLL_INTERVAL_MS": "200",
    "OUTBOX_LEASE_SEC": "1.5",
    "WORKER_CONCURRENCY": "8",
    "GRADING_LANGUAGE_MODEL": "off",  # a second of CPU for each text, and more for the first
}


async def until(
    ready: Callable[[], Awaitable[T]], what: str, patience_s: float = PATIENCE_S, *, process: Process | None = None
) -> T:
    """What `ready` answers, once that is true. Fails with `what`, and what the process has said, at the deadline."""
    try:
        async with asyncio.timeout(patience_s):
            while True:
                found = await ready()
                if found:
                    return found
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        log = process.tail() if process else ""
        raise AssertionError(f"waited {patience_s:g} s for {what}\n{log}") from None


@dataclass(frozen=True)
class Process:
    """A started process. `nursery` knows its exit code."""

    pid: int
    log: Path
    nursery: Nursery

    def send(self, number: signal.Signals) -> None:
        if self.exit_code() is None:  # a pid that was collected may belong to somebody else
            os.kill(self.pid, number)

    def exit_code(self) -> int | None:
        """None while it lives; minus the signal's number if one ended it."""
        code: int | None = self.nursery.ask({"poll": self.pid})
        return code

    def is_stopped(self) -> bool:
        return self.exit_code() is None and _stat(self.pid) == "T"

    async def until_ended(self, patience_s: float = PATIENCE_S) -> int:
        async def ended() -> bool:
            return self.exit_code() is not None

        await until(ended, f"process {self.pid} to end", patience_s, process=self)
        code = self.exit_code()
        assert code is not None
        return code

    async def until_stopped(self) -> None:
        async def stopped() -> bool:
            assert self.exit_code() is None, f"it ended instead of stopping:\n{self.tail()}"
            return self.is_stopped()

        await until(stopped, f"process {self.pid} to stop", process=self)

    async def until_taken(self, number: signal.Signals) -> None:
        """Return when a signal that was sent is no longer pending: a second one would not be merged with it."""

        async def taken() -> bool:
            return self.exit_code() is not None or not _is_pending(self.pid, number)

        await until(taken, f"process {self.pid} to take its signal")

    async def end(self) -> int:
        """Ask it to stop, in order, and wait."""
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        return await self.until_ended()

    def kill(self) -> None:
        """It and its children, at once."""
        if self.exit_code() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def tail(self, lines: int = 25) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""


class Nursery:
    """The process that forks the others; see nursery.py. Ends with `close`, or with the tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._children: list[Process] = []
        self._asking = threading.Lock()
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.acceptance.nursery"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._server.stdout is not None and self._server.stdout.readline() == "ready\n"

    def start(self, *argv: str, env: Mapping[str, str]) -> Process:
        """`holdfast` with these arguments, as a process of its own."""
        self._count += 1
        log = self._folder / f"{self._count:03d}.log"
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "OUTBOX_"))}
        asked = {"argv": list(argv), "env": clean | SHORT | dict(env), "log": str(log)}
        process = Process(self.ask(asked), log, self)
        self._children.append(process)
        return process

    def warm(self, path: str) -> None:
        """Run `module:function` before any later child is forked, so that what is slow to load is loaded once."""
        self.ask({"warm": path})

    def ask(self, asked: dict[str, Any]) -> Any:
        assert self._server.stdin is not None and self._server.stdout is not None
        with self._asking:  # deployments are cleared in threads
            self._server.stdin.write(json.dumps(asked) + "\n")
            self._server.stdin.flush()
            return json.loads(self._server.stdout.readline())

    def close(self) -> None:
        for child in self._children:
            child.send(signal.SIGKILL)
        assert self._server.stdin is not None
        self._server.stdin.close()
        try:
            self._server.wait(10)
        except subprocess.TimeoutExpired:  # it has nothing left to do but to free its memory
            self._server.kill()
            self._server.wait()


def _stat(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return None


def _is_pending(pid: int, number: signal.Signals) -> bool:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return False
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


def descendants(pid: int) -> list[int]:
    try:
        texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    children = [int(text) for line in texts for text in line.split()]
    return [*children, *(grandchild for child in children for grandchild in descendants(child))]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
