"""What the library needs of the system it runs on: one without some signals and modules can still import and use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# What Windows does not have, as far as the standard library shows it.
ELSEWHERE = """
import signal, sys
for name in ("SIGKILL", "SIGSTOP", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2"):
    delattr(signal, name)
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
"""
KERNEL = """
import asyncio, holdfast, holdfast.cli, holdfast.engines.run
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.stores.sqlite import SqliteStore
for name in holdfast.__all__:
    getattr(holdfast, name)
async def main():
    kernel = Kernel(SqliteStore(sys.argv[1]), Registry([]))
    await kernel.migrate()
    await kernel.store.close()
asyncio.run(main())
"""
JOB = """
import asyncio
from holdfast import App, Context, Job, stage
from holdfast.testing import world
app = App("shop")
@app.job()
class Greet(Job[str]):
    @stage()
    async def greet(self, ctx: Context, name: str) -> str:
        return f"hello {name}"
async def main():
    async with world(app) as w:
        job = await w.enqueue(Greet, "ann")
        await w.run_until_idle()
        assert await w.results(job) == {"greet": '"hello ann"'}
asyncio.run(main())
"""
COMMAND = """
import os
os.environ["HOLDFAST_DATA_DIR"] = os.path.dirname(sys.argv[1])
os.environ["HOLDFAST_AUTO_MIGRATE"] = "true"
sys.argv = ["holdfast", "worker", "--once", "--app", "tests.cli.shop:app"]
from holdfast.__main__ import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [KERNEL, JOB, COMMAND], ids=["kernel", "job", "command"])
def test_the_library_needs_nothing_that_windows_does_not_have(tmp_path: Path, program: str) -> None:
    command = [sys.executable, "-c", ELSEWHERE + program, str(tmp_path / "a.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
