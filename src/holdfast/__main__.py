"""The `holdfast` command. The version is told without loading anything; a missing extra is one line."""

from __future__ import annotations

import os
import signal
import sys

import holdfast


def main() -> None:
    end_when_asked()
    if sys.argv[1:] == ["--version"]:
        print(f"holdfast {holdfast.__version__}")
        return
    try:
        from holdfast.cli import main as run

        run()
    except ModuleNotFoundError as error:
        from holdfast.errors import missing_extra

        sentence = missing_extra(error)
        if sentence is None:
            raise
        print(sentence, file=sys.stderr)
        sys.exit(1)


def end_when_asked() -> None:
    """Until the process has handlers of its own. The first process of a container is not ended by a signal that nobody
    handles: a SIGTERM that comes while it is being loaded would be lost, and the pod killed at the end of its grace."""
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))


if __name__ == "__main__":
    main()
