"""What the library needs of the system it runs on: a platform without some signals can still import and use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import signal
for name in ("SIGKILL", "SIGSTOP", "SIGQUIT", "SIGHUP"):
    delattr(signal, name)
import asyncio, sys, holdfast, holdfast.cli, holdfast.engines.run
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.stores.sqlite import SqliteStore
async def main():
    kernel = Kernel(SqliteStore(sys.argv[1]), Registry([]))
    await kernel.migrate()
    await kernel.store.close()
asyncio.run(main())
"""


def test_the_library_needs_no_signal_that_windows_does_not_have(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "a.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
