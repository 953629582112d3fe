"""A server as a child process: started here, ended here, and ended by the system if the tests are killed."""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1


class ServerUnavailable(Exception):
    """No server here, and why. Tests that need it skip at home and fail when CI=true."""


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on now, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def private_folder(name: str, owner: str | None) -> Path:
    """A new folder of mode 700 that belongs to `owner` (None: to us)."""
    folder = Path(tempfile.mkdtemp(prefix=f"holdfast-{name}-"))
    if owner is not None:
        shutil.chown(folder, owner, pwd.getpwnam(owner).pw_gid)
    return folder


def start(
    command: Sequence[str | Path],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
    last_signal: signal.Signals = signal.SIGTERM,
) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own, as `user`, with its output in `log`.

    On Linux the kernel sends `last_signal` when the thread that called this ends: call it on the main thread.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=None if env is None else dict(env),
            cwd=log.parent,
            user=user,
            group=None if user is None else pwd.getpwnam(user).pw_gid,
            extra_groups=None if user is None else [],
            start_new_session=True,
            preexec_fn=_dies_with_us(last_signal) if sys.platform == "linux" else None,
        )


def _dies_with_us(last_signal: signal.Signals) -> Callable[[], None]:
    libc = ctypes.CDLL(None)  # loaded before the fork: only a plain call is safe after it
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, int(last_signal))


def end(process: subprocess.Popen[bytes], with_signal: signal.Signals, timeout_s: float = 30) -> None:
    """Signal the process and wait until it is gone; kill it if it will not go."""
    if process.poll() is None:
        process.send_signal(with_signal)
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, timeout_s: float) -> None:
    """Return when `ready()` holds. Raises ServerUnavailable with the log's end if the server ends or is late."""
    give_up_at = time.monotonic() + timeout_s
    while not ready():
        if time.monotonic() > give_up_at:
            raise ServerUnavailable(f"{process.args!r} was not ready in {timeout_s} s:\n{_tail(log)}")
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        raise ServerUnavailable(f"{process.args!r} ended with {process.returncode}:\n{_tail(log)}")


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_root() -> bool:
    return os.geteuid() == 0


def _tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(no log)"
