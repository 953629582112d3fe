"""The worker's side of a sandbox: starts the fork server, hands it inputs, keeps the wall clock.

A sandbox serves any number of tasks and threads of its process. A server that is gone is replaced by the next run; a
child that is running then dies with it and is told as `SandboxDown`. No child outlives the call that started it.
"""

from __future__ import annotations

import array
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import IO

from holdfast_systems.sandbox.confine import Confines
from holdfast_systems.sandbox.server import FORKED, HEAD
from holdfast_systems.sandbox.task import Options

__all__ = ["Confines", "Sandbox", "SandboxDown", "SandboxExit", "sandbox_for"]

_ENDED_WITHIN_S = 5.0
_COMPLAINT_BYTES = 2_000
# One thread in the server, whatever its libraries would like.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class SandboxDown(Exception):
    """The sandbox itself failed: it says nothing about the input."""


@dataclass(frozen=True, slots=True)
class SandboxExit:
    """How a child ended: its exit code or minus its signal, its processor time, the start of its standard error."""

    status: int
    cpu_s: float
    complaint: str = ""
    out_of_time: bool = False


class Sandbox:
    """Runs one task. Where there is no fork, each input gets an interpreter of its own."""

    def __init__(self, task: str, *, fork: bool = hasattr(os, "fork")) -> None:
        self._task, self._fork = task, fork
        self._lock = threading.Lock()
        self._server: _Server | None = None

    async def run(self, source: IO[bytes], output: IO[bytes], confines: Confines, options: Options) -> SandboxExit:
        """Run the task on `source`. Cancelled or not, the child is gone at the end."""
        with tempfile.TemporaryFile(buffering=0) as complaints:
            begin = self._beginning(source, output, complaints, confines, options)
            for _ in range(2):
                run = begin()
                try:
                    await _wait_in_loop(run, confines.wall_s)
                finally:
                    await _end_in_loop(run)
                if run.counts:
                    return run.ending(complaints)
            raise SandboxDown(f"The sandbox cannot be started: {run.server_complaint()}")

    def run_blocking(self, source: IO[bytes], output: IO[bytes], confines: Confines, options: Options) -> SandboxExit:
        """The same, for a thread that may wait."""
        with tempfile.TemporaryFile(buffering=0) as complaints:
            begin = self._beginning(source, output, complaints, confines, options)
            for _ in range(2):
                run = begin()
                try:
                    run.wait(confines.wall_s)
                finally:
                    run.end()
                if run.counts:
                    return run.ending(complaints)
            raise SandboxDown(f"The sandbox cannot be started: {run.server_complaint()}")

    def close(self) -> None:
        """End the server. The next run starts another."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None and server.owner == os.getpid():
            server.stop()

    @property
    def server_pid(self) -> int | None:
        return self._server.process.pid if self._server is not None else None

    def _beginning(
        self, source: IO[bytes], output: IO[bytes], complaints: IO[bytes], confines: Confines, options: Options
    ) -> Callable[[], _Run | _PlainRun]:
        request = json.dumps({"confines": asdict(confines), "options": dict(options)})
        files = (source.fileno(), output.fileno(), complaints.fileno())
        if not self._fork:
            return lambda: _PlainRun(self._task, request, files)
        return lambda: self._begin(request.encode(), files)

    def _begin(self, request: bytes, files: tuple[int, int, int]) -> _Run:
        with self._lock:
            server = self._server
            if server is None or not server.usable():
                if server is not None:
                    server.forget()
                self._server = server = _Server(self._task)
            ours, theirs = socket.socketpair()
            with theirs:
                server.send(request, [*files, theirs.fileno()])
            return _Run(server, ours)


class _Server:
    """A running fork server."""

    def __init__(self, task: str) -> None:
        self.owner = os.getpid()
        self.complaints = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open as long as the server
        self.channel, theirs = socket.socketpair()
        self.channel.settimeout(_ENDED_WITHIN_S)
        try:
            self.process = subprocess.Popen(
                _command("serve", str(theirs.fileno()), task),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self.complaints,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=_ENVIRONMENT,
                cwd="/",
            )
        except OSError as error:
            self.channel.close()
            raise SandboxDown(f"The sandbox cannot be started: {error.strerror}.") from error
        finally:
            theirs.close()

    def usable(self) -> bool:
        """A process that was forked from the owner may not share its channel."""
        return self.owner == os.getpid() and self.process.poll() is None

    def send(self, request: bytes, files: list[int]) -> None:
        message = HEAD.pack(len(request)) + request
        # A server that is gone is noticed on the run's own line, in one way for all times of its end.
        with suppress(OSError):
            sent = self.channel.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))])
            self.channel.sendall(message[sent:])

    def forget(self) -> None:
        self.channel.close()
        self.complaints.close()

    def stop(self) -> None:
        self.forget()
        try:
            self.process.wait(_ENDED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Its children end with it."""
        self.process.kill()
        self.process.wait()


class _Run:
    """One child, by the line on which the server tells of it; hanging up kills it."""

    def __init__(self, server: _Server, line: socket.socket) -> None:
        self._server, self.line = server, line
        self._heard = b""
        self._over = self._late = False

    @property
    def counts(self) -> bool:
        """False if the server was gone, or went, before it took the input: then another server may."""
        return self._late or self._heard.startswith(FORKED)

    def wait(self, wall_s: float) -> None:
        until = time.monotonic() + wall_s
        while not self._over and (left_s := until - time.monotonic()) > 0:
            self.line.settimeout(left_s)
            with suppress(TimeoutError):
                self.take(self._read())
        self._late = not self._over

    def take(self, piece: bytes) -> None:
        self._heard += piece
        self._over = not piece

    def give_up(self) -> None:
        self._late = True

    @property
    def over(self) -> bool:
        return self._over

    def end(self) -> None:
        """Returns when the child is gone, and with it the line."""
        if not self._over:
            late = self._late
            with suppress(OSError):
                self.line.shutdown(socket.SHUT_WR)
            self.wait(_ENDED_WITHIN_S)
            if not self._over:
                self._server.kill()
            self._late = late
        self.line.close()
        if not self.counts:
            self._server.kill()

    def ending(self, complaints: IO[bytes]) -> SandboxExit:
        told = self._heard.removeprefix(FORKED)
        if not told and not self._late:
            raise SandboxDown("The sandbox was killed while it worked.")
        found = json.loads(told or b'{"status": -9, "cpu_s": 0}')
        return SandboxExit(found["status"], found["cpu_s"], _start_of(complaints), out_of_time=self._late)

    def server_complaint(self) -> str:
        return _last_line(_start_of(self._server.complaints)) or "it ended at once."

    def _read(self) -> bytes:
        try:
            return self.line.recv(4_096)
        except ConnectionError:
            return b""


class _PlainRun:
    """One interpreter for one input."""

    counts = True

    def __init__(self, task: str, request: str, files: tuple[int, int, int]) -> None:
        source, output, complaints = files
        try:
            self._process = subprocess.Popen(
                _command("once", task, request),
                stdin=source,
                stdout=output,
                stderr=complaints,
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxDown(f"The sandbox cannot be started: {error.strerror}.") from error
        self._late = False

    def wait(self, wall_s: float) -> None:
        try:
            self._process.wait(wall_s)
        except subprocess.TimeoutExpired:
            self._late = True

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def ending(self, complaints: IO[bytes]) -> SandboxExit:
        return SandboxExit(self._process.returncode, 0.0, _start_of(complaints), out_of_time=self._late)

    def server_complaint(self) -> str:
        return ""


async def _wait_in_loop(run: _Run | _PlainRun, wall_s: float) -> None:
    if isinstance(run, _PlainRun):
        await asyncio.to_thread(run.wait, wall_s)
        return
    loop = asyncio.get_running_loop()
    run.line.setblocking(False)
    try:
        async with asyncio.timeout(wall_s):
            while not run.over:
                run.take(await loop.sock_recv(run.line, 4_096))
    except TimeoutError:
        run.give_up()
    except ConnectionError:
        run.take(b"")


async def _end_in_loop(run: _Run | _PlainRun) -> None:
    """End the run in a thread, cancelled or not."""
    if isinstance(run, _Run) and run.over:
        run.end()
        return
    ended = asyncio.ensure_future(asyncio.to_thread(run.end))
    cancelled = False
    while not ended.done():
        try:
            await asyncio.wait([ended])
        except asyncio.CancelledError:
            cancelled = True
    ended.result()
    if cancelled:
        raise asyncio.CancelledError


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-I", "-X", "utf8", "-m", "holdfast_systems.sandbox.server", *arguments]


def _start_of(complaints: IO[bytes]) -> str:
    complaints.seek(0)
    return complaints.read(_COMPLAINT_BYTES).decode("utf-8", errors="replace")


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


_SANDBOXES: dict[str, Sandbox] = {}


def sandbox_for(task: str) -> Sandbox:
    """The sandbox that all of this process share for a task."""
    return _SANDBOXES.setdefault(task, Sandbox(task))
