"""Starts `holdfast` processes quickly: imports everything once, then forks one process for each that is asked for.

A child runs the real command line in a session of its own, with its own environment and log; only the half second of
imports is shared. The kernel kills the children if this process ends, and this process ends with its standard input.

    {"argv": [...], "env": {...}, "log": "path"} -> pid        {"poll": pid} -> null or its exit code
    {"warm": "module:function"} -> null, when it has run: what it loads, every later child has
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import sys
import traceback
from typing import Any, NoReturn

from holdfast import cli, main
from holdfast.cli import once, reload
from holdfast.engines import stopping
from holdfast.settings import celery
from holdfast.stores import postgres, sqlite

_PR_SET_PDEATHSIG = 1
_PRELOADED = (cli, once, reload, stopping, celery, postgres, sqlite)


def serve() -> None:
    main.load_systems()  # as the command line does at every start
    libc = ctypes.CDLL(None)
    print("ready", flush=True)
    ended: dict[int, int] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if "warm" in asked:
            answer = _warm(asked["warm"])
        else:
            answer = _poll(asked["poll"], ended) if "poll" in asked else _born(asked, libc)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _warm(path: str) -> None:
    module, _, function = path.partition(":")
    getattr(importlib.import_module(module), function)()


def _poll(pid: int, ended: dict[int, int]) -> int | None:
    if pid not in ended:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found == pid:
            ended[pid] = os.waitstatus_to_exitcode(status)
    return ended.get(pid)


def _born(asked: dict[str, Any], libc: Any) -> int:
    gc.freeze()  # else each child's collector would write to, and so copy, every page that they share
    pid = os.fork()
    if pid == 0:
        _live(asked, libc)
    return pid


def _live(asked: dict[str, Any], libc: Any) -> NoReturn:
    code = 1
    try:
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        os.setsid()
        log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, nothing), (1, log), (2, log)):
            os.dup2(source, target)
        os.environ.clear()
        os.environ.update(asked["env"])
        sys.argv = ["holdfast", *asked["argv"]]
        cli.main()
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
