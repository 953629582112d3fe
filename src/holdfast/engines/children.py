"""Ties a child process to its parent: when the parent is gone, however it went, the child goes too.

A fleet that outlives a killed dispatcher would run old code beside the new forever. Linux kills the child in the very
moment; elsewhere a thread looks once a second whether the parent is still the one it was.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

PR_SET_PDEATHSIG = 1
LOOK_S = 1.0
ORPHANED = 1


def end_with_parent(parent: int) -> None:
    """To be called first thing in a child of the process `parent`."""
    if not _ask_kernel():
        threading.Thread(target=_look, args=(parent,), name="holdfast parent", daemon=True).start()
    if os.getppid() != parent:
        os._exit(ORPHANED)  # it was gone before anybody was asked to tell


def _ask_kernel() -> bool:
    """Whether the kernel will end this process together with its parent."""
    if sys.platform != "linux":
        return False
    try:
        done: int = ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    except (OSError, AttributeError):
        return False
    return done == 0


def _look(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(ORPHANED)
