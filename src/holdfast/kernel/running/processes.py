"""Processes for stages that compute (`@stage(cpu=True)`): as many as there are cores, one stage at a time in each.

A process that dies takes one attempt with it, which is lost as with a worker; the next stage gets a new process. When
an attempt is over before its handler is (its time, its lease, the worker's grace), its process is killed. A process
ends with its worker, however that ends.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import struct
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from holdfast.errors import BadDeclaration
from holdfast.kernel.running.aside import Message, ProcessLost, Run, StageAddress, come_of, converse, facts_of
from holdfast.kernel.running.threads import ThreadPool, run_in_pool

if TYPE_CHECKING:
    from holdfast.kernel.context import Context

CHILD = "from holdfast.engines.cpu_child import main; main()"
"""By import: what is sent from there is then known here by the same name."""
SIZE = struct.Struct(">I")
LOAD_S_MAX = 60
"""For the imports of a stage's module, which its own limit does not count."""


class StageProcess:
    """One process, at rest or computing. The loop's end of the conversation with it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.loaded: set[str] = set()
        """The modules that it has imported for stages."""

    @classmethod
    async def start(cls) -> StageProcess:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CHILD, str(os.getpid()), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        child = cls(process)
        await child.write(sys.path)
        return child

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def write(self, thing: object) -> None:
        text = pickle.dumps(thing)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(SIZE.pack(len(text)) + text)
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise await self._lost() from None

    async def send(self, message: Message) -> None:
        assert not isinstance(message, Run), "a function of the handler's cannot travel"
        await self.write(message)

    async def receive(self) -> Message:
        assert self._process.stdout is not None
        try:
            (size,) = SIZE.unpack(await self._process.stdout.readexactly(SIZE.size))
            message: Message = pickle.loads(await self._process.stdout.readexactly(size))
        except asyncio.IncompleteReadError:
            raise await self._lost() from None
        return message

    async def _lost(self) -> ProcessLost:
        code = await self._process.wait()
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return ProcessLost(f"the process of the stage ended {how}")

    async def load(self, module: str) -> None:
        """Have a stage's module imported. What that raises is told when the stage is run."""
        await self.write(module)
        try:
            async with asyncio.timeout(LOAD_S_MAX):
                await self.receive()
        except TimeoutError:
            raise ProcessLost(f"the process of the stage was still importing '{module}' after {LOAD_S_MAX} s") from None
        self.loaded.add(module)

    async def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def end(self) -> None:
        """Ask it to end: a process at rest ends when nothing more can come."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(1.0):
                await self._process.wait()
        except TimeoutError:
            await self.kill()


class Pools:
    """The threads and processes of one worker."""

    def __init__(self, processes: int | None = None) -> None:
        self._threads = ThreadPool()
        self._places = asyncio.Semaphore(processes or os.cpu_count() or 1)
        self._resting: list[StageProcess] = []

    def allow(self, threads: int) -> None:
        self._threads.limit = threads

    async def in_thread(
        self, ctx: Context, method: Callable[..., Any], instance: object, arguments: tuple[Any, ...]
    ) -> Any:
        return await run_in_pool(self._threads, ctx, method, instance, arguments)

    async def in_process(
        self,
        ctx: Context,
        where: StageAddress,
        method: Callable[..., Any],
        instance: object,
        arguments: tuple[Any, ...],
    ) -> Any:
        async with self._place(ctx):
            child = await self._child(ctx, where.module)
            try:
                await child.write((where, facts_of(ctx, in_process=True), ctx.now(), _writable(arguments)))
                last = await converse(ctx, child)
            except BaseException:
                await child.kill()
                raise
            self._resting.append(child)
            return come_of(last)

    @asynccontextmanager
    async def _place(self, ctx: Context) -> AsyncIterator[None]:
        """Wait for a place. Only then does the stage's time begin."""
        if self._places.locked():
            await asyncio.sleep(0)  # from here on the attempt has its limit
            with ctx.unlimited():
                await self._places.acquire()
        else:
            await self._places.acquire()
        try:
            yield
        finally:
            self._places.release()

    async def _child(self, ctx: Context, module: str) -> StageProcess:
        """A process that has the stage's module. To start it and to import is no time of the stage's: else one whose
        imports take longer than its limit would be killed each time, and never get there."""
        child = self._rested()
        if child is not None and module in child.loaded:
            return child
        await asyncio.sleep(0)  # from here on the attempt has its limit
        with ctx.unlimited():
            child = child or await StageProcess.start()
            try:
                await child.load(module)
            except BaseException:
                await child.kill()
                raise
        return child

    def _rested(self) -> StageProcess | None:
        while self._resting:
            child = self._resting.pop()
            if child.is_alive:
                return child
        return None

    async def close(self) -> None:
        self._threads.close()
        resting, self._resting = self._resting, []
        for child in resting:
            await child.end()


def _writable(arguments: tuple[Any, ...]) -> bytes:
    """Written apart from the rest, so that what cannot be read in the process fails there, as the handler's."""
    try:
        return pickle.dumps(arguments)
    except Exception as error:
        raise BadDeclaration(f"What a cpu=True stage is given cannot be sent to its process: {error}.") from None
