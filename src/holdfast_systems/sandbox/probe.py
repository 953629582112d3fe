"""Tries, inside a sandbox, what no child of it should be able to do, and tells what it could all the same.

`holdfast check` shows the answer: how strong the sandbox is depends on the system that it runs on.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
import tempfile
from collections.abc import Callable
from functools import partial

from holdfast_systems.sandbox.parent import Confines, Sandbox, SandboxDown
from holdfast_systems.sandbox.task import Options, Task

_FILES_LOOKED_AT = 64
_CONFINES = Confines(cpu_s=5, memory_bytes=512 << 20, output_bytes=1 << 20, wall_s=30.0)


def weaknesses(sandbox: Sandbox | None = None) -> list[str]:
    """What a sandbox on this system does not prevent, in one sentence; nothing where it prevents all."""
    box = sandbox or Sandbox("holdfast_systems.sandbox.probe:TASK")
    with tempfile.TemporaryFile(buffering=0) as source, tempfile.TemporaryFile(buffering=0) as output:
        try:
            ending = box.run_blocking(source, output, _CONFINES, {"parent": os.getpid()})
        except SandboxDown as error:
            return [str(error)]
        finally:
            box.close()
        if ending.status != 0:
            return [f"The sandbox for files of strangers does not work here: it ended with {ending.status}."]
        output.seek(0)
        possible = json.loads(output.read())
    if not possible:
        return []
    return [
        f"Files of strangers are read in a child that can still {', '.join(possible)}: "
        "this system offers no filter of system calls (seccomp) or no closed file system (Landlock)."
    ]


def run(source: int, target: int, options: Options) -> int:
    attempts = _attempts(int(options["parent"] or 0))
    os.write(target, json.dumps([name for name, attempt in attempts.items() if _works(attempt)]).encode())
    return 0


def _attempts(parent: int) -> dict[str, Callable[[], object]]:
    return {
        "open files": lambda: os.open(sys.executable, os.O_RDONLY),
        "list folders": lambda: os.listdir("/"),
        "write files": lambda: os.open(tempfile.gettempdir(), os.O_RDWR | os.O_TMPFILE),
        "use files of others": _find_file,
        "open connections": socket.socket,
        "start processes": _start_process,
        "signal processes": lambda: os.kill(parent, 0),
        "raise its limits": lambda: resource.setrlimit(resource.RLIMIT_CPU, (10, resource.RLIM_INFINITY)),
    }


def _find_file() -> None:
    """An open file beside input, output and complaints; OSError if there is none."""
    if not any(_works(partial(os.fstat, number)) for number in range(3, _FILES_LOOKED_AT)):
        raise OSError


def _start_process() -> None:
    if os.fork() == 0:
        os._exit(0)


def _works(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    except ValueError:  # how `resource` tells that the limit is below
        return False
    return True


TASK = Task(run, lambda: None)
