"""Runs a foreign program: an argument vector, never a shell; limits on time, memory and output; its own group.

On a timeout, a cancellation or too much output the whole process group is killed, so that nothing the
program started (ssh under git, say) outlives the call.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from holdfast import CallError, Category

STDERR_BYTES_MAX = 16_384
MEMORY_BYTES_MAX = 2 << 30
_READ_BYTES = 65_536
_DRAIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that ended by itself. `stderr` is the end of what it said, for messages only."""

    code: int
    stdout: bytes
    stderr: str


async def run(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str],
    cwd: str | None = None,
    stdin: bytes = b"",
    stdout_bytes_max: int = 32_000_000,
    file_bytes_max: int | None = None,
    memory_bytes_max: int = MEMORY_BYTES_MAX,
) -> Ran:
    """Run `argv` to its end, or raise COMMAND_MISSING, COMMAND_TIMEOUT or COMMAND_OUTPUT_TOO_LARGE. On Linux it writes
    no file over `file_bytes_max`, and neither it nor a program that it starts has more memory than the limit."""
    process = await _start(argv, env, cwd)
    _limit(process, file_bytes_max, memory_bytes_max)
    try:
        async with asyncio.timeout(timeout_s):
            _, stdout, stderr = await asyncio.gather(
                _feed(process, stdin), _read(process, stdout_bytes_max), _tail(process.stderr)
            )
            code = await process.wait()
    except TimeoutError as error:
        message = f"'{argv[0]}' did not end within {timeout_s:g} s and was stopped."
        raise CallError.of(Category.NETWORK, "COMMAND_TIMEOUT", message) from error
    finally:
        await _stop(process)
    if stdout is None:
        message = f"'{argv[0]}' wrote more than {stdout_bytes_max} bytes; ask for a smaller change."
        raise CallError.of(Category.VALIDATION, "COMMAND_OUTPUT_TOO_LARGE", message)
    return Ran(code, stdout, stderr.decode("utf-8", "replace"))


async def _start(argv: Sequence[str], env: Mapping[str, str], cwd: str | None) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    try:
        return await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(env), cwd=cwd, start_new_session=True
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        message = f"'{argv[0]}' cannot be run ({error.strerror}); install it or put it on PATH."
        raise CallError.of(Category.BUG, "COMMAND_MISSING", message) from error


def _limit(process: asyncio.subprocess.Process, file_bytes_max: int | None, memory_bytes_max: int) -> None:
    if sys.platform == "linux":
        with suppress(ProcessLookupError):  # it has ended already
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (memory_bytes_max, memory_bytes_max))
            if file_bytes_max is not None:
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))


async def _feed(process: asyncio.subprocess.Process, stdin: bytes) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(stdin)
        await process.stdin.drain()
    except (BrokenPipeError, ConnectionResetError):
        return  # it ended without reading all; its exit code tells why
    finally:
        process.stdin.close()


async def _read(process: asyncio.subprocess.Process, bytes_max: int) -> bytes | None:
    """All output, or None when it passes the limit: then the group is killed and the rest thrown away."""
    assert process.stdout is not None
    parts: list[bytes] = []
    size = 0
    while part := await process.stdout.read(_READ_BYTES):
        size += len(part)
        if size > bytes_max:
            _kill(process)
        else:
            parts.append(part)
    return b"".join(parts) if size <= bytes_max else None


async def _tail(stream: asyncio.StreamReader | None) -> bytes:
    assert stream is not None
    kept = b""
    while part := await stream.read(_READ_BYTES):
        kept = (kept + part)[-STDERR_BYTES_MAX:]
    return kept


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):  # the group is gone already
        os.killpg(process.pid, signal.SIGKILL)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Kill the group unless the program and its pipes ended in good order."""
    assert process.stdout is not None
    if process.returncode is not None and process.stdout.at_eof():
        return
    _kill(process)
    # The exit is only reported once the pipes are drained; a stranger that left the group may hold them open.
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            await asyncio.gather(_tail(process.stdout), _tail(process.stderr))
            await process.wait()
