"""A process gives up, for good, what a hostile input could abuse: time, memory, files, network, other processes.

Each measure stands by itself, since not every system has all of them; `probe` tells what that leaves possible.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass

from holdfast_systems.sandbox.seccomp import filter_calls

try:
    import resource
except ModuleNotFoundError:  # a system without resource limits: the parent's wall clock holds there
    resource = None  # type: ignore[assignment]

_SET_DEATH_SIGNAL, _SET_NO_NEW_PRIVILEGES = 1, 38
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT, _LANDLOCK_VERSION_FLAG = 444, 446, 1
_FILE_ACCESS = (13, 14, 15, 15, 16, 16, 16)  # how many kinds of access each version of Landlock knows
_NOBODY = 65_534
_FILES_MAX = 16
_NICE = 5


@dataclass(frozen=True, slots=True)
class Confines:
    """What reading one input may cost. `wall_s` is kept by the parent, the rest by the kernel."""

    cpu_s: int
    memory_bytes: int
    output_bytes: int
    wall_s: float


def confine(confines: Confines, parent: int | None) -> None:
    """To be called in a child before it reads a byte. With `parent`, the child ends with that process."""
    with suppress(AttributeError, OSError):
        os.nice(_NICE)
    limit_resources(confines)
    _leave_root()
    if sys.platform == "linux":
        _control(_SET_DEATH_SIGNAL, signal.SIGKILL)  # after a change of user, which forgets it
        _control(_SET_NO_NEW_PRIVILEGES, 1)
    if parent is not None and os.getppid() != parent:
        os._exit(1)  # it ended before the kernel was asked
    _close_file_system()
    filter_calls()


def limit_resources(confines: Confines) -> None:
    if resource is None:
        return
    _limit(resource.RLIMIT_CORE, 0)
    # At the soft limit comes SIGXCPU, which says why; at the hard one SIGKILL, which does not.
    _limit(resource.RLIMIT_CPU, confines.cpu_s, slack=1)
    _limit(resource.RLIMIT_FSIZE, confines.output_bytes)
    _limit(resource.RLIMIT_NOFILE, _FILES_MAX)
    # Some systems have no limit on the address space; the time limit holds there all the same.
    with suppress(OSError, ValueError):
        _limit(resource.RLIMIT_AS, confines.memory_bytes)


def _limit(kind: int, wanted: int, slack: int = 0) -> None:
    _, present = resource.getrlimit(kind)
    hard = wanted + slack if present == resource.RLIM_INFINITY else min(wanted + slack, present)
    resource.setrlimit(kind, (min(wanted, hard), hard))


def _leave_root() -> None:
    """Root could raise its limits again and read everything; nobody can do neither."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return
    with suppress(OSError):  # a container may have no such user: the other measures hold
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)


def _close_file_system() -> None:
    """Refuse every path from now on (Landlock). Files that are open stay so."""
    version = _landlock_version()
    if version < 1:
        return
    access = (1 << _FILE_ACCESS[min(version, len(_FILE_ACCESS)) - 1]) - 1
    network = 0b11 if version >= 4 else 0
    rules = struct.pack("=QQ", access, network) if version >= 4 else struct.pack("=Q", access)
    library = ctypes.CDLL(None)
    handle = library.syscall(_LANDLOCK_CREATE, ctypes.c_char_p(rules), ctypes.c_size_t(len(rules)), 0)
    if handle >= 0:
        library.syscall(_LANDLOCK_RESTRICT, handle, 0)
        os.close(handle)


def _landlock_version() -> int:
    if sys.platform != "linux":
        return 0
    return int(ctypes.CDLL(None).syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), _LANDLOCK_VERSION_FLAG))


def _control(option: int, value: int) -> int:
    return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0))
