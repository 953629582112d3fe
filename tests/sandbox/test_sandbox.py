"""The sandbox: a child that can do nothing but read its input, and is gone with whoever asked for it."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from holdfast_systems.sandbox import probe
from holdfast_systems.sandbox.parent import Confines, Sandbox, SandboxDown, SandboxExit
from holdfast_systems.sandbox.seccomp import _AUDIT_ARCHITECTURES, _program
from holdfast_systems.sandbox.server import _exactly

pytestmark = pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="reads /proc")

NAME = "holdfast_systems.sandbox.probe:TASK"
CONFINES = Confines(cpu_s=5, memory_bytes=512 << 20, output_bytes=1 << 20, wall_s=30.0)


def test_a_line_that_is_hung_up_gives_what_came() -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(2)
    theirs.sendall(b"abc")
    theirs.sendall(b"defgh")
    assert _exactly(ours, 6) == b"abcdef"
    theirs.close()
    assert _exactly(ours, 6) == b"gh"
    ours.close()


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    sandbox = Sandbox(NAME)
    yield sandbox
    sandbox.close()


@contextmanager
def files() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    with tempfile.TemporaryFile(buffering=0) as source, tempfile.TemporaryFile(buffering=0) as output:
        yield source, output


def run(box: Sandbox, confines: Confines = CONFINES, **options: int) -> SandboxExit:
    with files() as (source, output):
        return box.run_blocking(source, output, confines, {"parent": os.getpid(), **options})


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.spec("C9", "K30")
@pytest.mark.parametrize("fork", [True, False])
def test_a_child_can_open_connect_start_and_signal_nothing(fork: bool) -> None:
    if sys.platform != "linux" or os.uname().machine not in _AUDIT_ARCHITECTURES:
        pytest.skip("the filter is for Linux on two architectures")
    assert probe.weaknesses(Sandbox(NAME, fork=fork)) == []


CONFINED = """
import errno, os, sys
import holdfast_systems.sandbox.confine as confining
{before}
confining.confine(confining.Confines(cpu_s=1, memory_bytes=256 << 20, output_bytes=1_000, wall_s=9), None)
try:
    {does}
except MemoryError:
    os._exit(errno.ENOMEM)
except OSError as error:
    os._exit(error.errno)
os._exit(0)
"""
MEASURES = {
    "memory": ("", "bytes(1 << 30)", errno.ENOMEM),
    "time": ("", "while True: pass", -signal.SIGXCPU),
    "output": ("", "os.write(1, bytes(1_000)) and os.write(1, bytes(1))", errno.EFBIG),
    "files, by Landlock alone": (
        "confining.filter_calls = bool",
        'confining._landlock_version() and os.open("/", os.O_RDONLY) or os._exit(errno.EACCES)',
        errno.EACCES,
    ),
    "files, by seccomp alone": (
        "confining._close_file_system = bool",
        'os.open("/", os.O_RDONLY)',
        errno.EPERM,
    ),
}


@pytest.mark.spec("C9", "K30")
@pytest.mark.parametrize("measure", MEASURES)
def test_each_measure_stands_by_itself(measure: str) -> None:
    """Some hold the same line, so that one of them may be missing on a system: the others must not hide that."""
    before, does, ends = MEASURES[measure]
    if sys.platform != "linux" or os.uname().machine not in _AUDIT_ARCHITECTURES:
        pytest.skip("the filter is for Linux on two architectures")
    with tempfile.TemporaryFile() as output:
        code = CONFINED.format(before=before, does=does)
        assert subprocess.run([sys.executable, "-c", code], stdout=output, timeout=60).returncode == ends


@pytest.mark.spec("C9")
def test_what_a_weaker_system_leaves_possible_is_told_in_a_sentence() -> None:
    """The probe in a process that is not confined finds what a child must not be able to do."""
    code = f"from holdfast_systems.sandbox.probe import TASK; TASK.run(0, 1, {{'parent': {os.getpid()}}})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert all(word in found for word in ("open files", "open connections", "start processes", "signal processes"))

    class Weak(Sandbox):
        def run_blocking(self, source: IO[bytes], output: IO[bytes], *_: object) -> SandboxExit:
            output.write(found.encode())
            return SandboxExit(0, 0.0)

    (sentence,) = probe.weaknesses(Weak(NAME))
    assert "open connections" in sentence and "seccomp" in sentence


@pytest.mark.spec("C9")
def test_a_killed_fork_server_is_replaced_by_the_next_run(box: Sandbox) -> None:
    assert run(box).status == 0
    first = box.server_pid
    assert first is not None
    os.kill(first, signal.SIGKILL)  # and no wait: the run may meet it dead or dying
    assert run(box).status == 0
    assert box.server_pid != first


@pytest.mark.spec("C9")
def test_threads_and_tasks_share_one_server(box: Sandbox) -> None:
    run(box)
    pid = box.server_pid
    with ThreadPoolExecutor(4) as pool:
        assert {ending.status for ending in pool.map(lambda _: run(box), range(8))} == {0}

    async def in_loop() -> int:
        with files() as (source, output):
            return (await box.run(source, output, CONFINES, {"parent": 1})).status

    async def many() -> list[int]:
        return await asyncio.gather(*(in_loop() for _ in range(8)))

    assert set(asyncio.run(many())) == {0}
    assert box.server_pid == pid
    assert Path(f"/proc/{pid}/task/{pid}/children").read_text() == ""
    assert len(os.listdir(f"/proc/{pid}/task")) == 1, "a fork of a process with threads is not safe"
    assert len(os.listdir(f"/proc/{pid}/fd")) <= 8, "the server keeps no files of the runs that are over"


@pytest.mark.spec("C9")
@pytest.mark.parametrize("fork", [True, False])
def test_the_wall_clock_is_kept_by_the_parent(fork: bool) -> None:
    with tempfile.TemporaryFile(buffering=0) as output:
        reader, writer = socket.socketpair()  # an input that never comes
        with reader, writer, reader.makefile("rb", buffering=0) as source:
            waiting = Sandbox("holdfast_systems.grading.audio_samples:TASK", fork=fork)
            began = time.monotonic()
            ending = waiting.run_blocking(source, output, Confines(5, 1 << 30, 1 << 20, 2.0), {"duration_s_max": 1})
            assert ending.out_of_time and ending.status == -signal.SIGKILL
            assert time.monotonic() - began < 20
            waiting.close()


@pytest.mark.spec("C9")
def test_a_task_that_cannot_be_loaded_is_the_sandboxs_fault() -> None:
    with pytest.raises(SandboxDown, match="no_such_module"):
        run(Sandbox("no_such_module:TASK"))


@pytest.mark.spec("C9")
def test_a_process_that_was_forked_uses_a_server_of_its_own(box: Sandbox) -> None:
    run(box)
    parents = box.server_pid
    pid = os.fork()
    if pid == 0:
        with_own = run(box).status == 0 and box.server_pid != parents
        box.close()
        os._exit(0 if with_own else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert run(box).status == 0 and box.server_pid == parents


@pytest.mark.spec("C9", "C6")
def test_the_fork_server_ends_with_its_parent() -> None:
    code = (
        "import os, sys, tempfile\n"
        "from holdfast_systems.sandbox.parent import Confines, Sandbox\n"
        f"box = Sandbox({NAME!r})\n"
        "with tempfile.TemporaryFile() as a, tempfile.TemporaryFile() as b:\n"
        "    box.run_blocking(a, b, Confines(5, 1 << 29, 1 << 20, 30.0), {'parent': 1})\n"
        "print(box.server_pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    worker = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdout is not None
    server = int(worker.stdout.readline())
    assert not gone(server)
    worker.kill()
    worker.communicate()
    until = time.monotonic() + 10
    while not gone(server) and time.monotonic() < until:
        os.sched_yield()
    assert gone(server)


@pytest.mark.spec("C9")
@pytest.mark.parametrize("machine", _AUDIT_ARCHITECTURES)
def test_the_filter_refuses_what_it_does_not_name(machine: str) -> None:
    """Walks the program as the kernel does."""
    numbers = {"x86_64": {"read": 0, "openat": 257, "socket": 41, "execve": 59, "clone": 56, "kill": 62, "tgkill": 234}}
    numbers["aarch64"] = {
        "read": 63,
        "openat": 56,
        "socket": 198,
        "execve": 221,
        "clone": 220,
        "kill": 129,
        "tgkill": 131,
    }
    verdicts = {name: verdict(machine, number, argument=77) for name, number in numbers[machine].items()}
    assert verdicts == {name: name in ("read", "tgkill") for name in verdicts}
    assert not verdict(machine, numbers[machine]["tgkill"], argument=78), "only its own threads"
    assert not verdict(machine, numbers[machine]["read"], architecture=0x40000003)


def verdict(machine: str, number: int, argument: int = 0, architecture: int | None = None) -> bool:
    arch = _AUDIT_ARCHITECTURES[machine] if architecture is None else architecture
    data = {0: number, 4: arch, 16: argument}
    code, at, held = _program(machine, 77), 0, 0
    while True:
        operation, jump_true, jump_false, value = struct.unpack_from("=HBBI", code, 8 * at)
        at += 1
        if operation == 0x20:
            held = data.get(value, 0)
        elif operation == 0x15:
            at += jump_true if held == value else jump_false
        else:
            return bool(value == 0x7FFF0000)
