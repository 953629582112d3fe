"""The process of `cpu=True` stages: takes one stage after the other from its worker, and ends with it.

Messages are pickles with their length in front, over what were standard input and output; what a handler prints goes
to standard error, and what it reads is empty.
"""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import struct
import sys
import time
import traceback
from contextlib import suppress
from functools import reduce
from typing import Any, BinaryIO, cast

from holdfast.engines.children import end_with_parent
from holdfast.errors import BadDeclaration
from holdfast.kernel.declare.fitting import missing_await
from holdfast.kernel.running.aside import (
    Ask,
    Facts,
    Raised,
    Speaking,
    StageAddress,
    StageReturned,
    come_of,
    interrupted,
)
from holdfast.kernel.running.sync_context import SyncContext

SIZE = struct.Struct(">I")
SPELLED = {"keep": "checkpoint", "recall": "checkpoint"}
"""What a handler calls, where the question to the worker has another name."""


class StageRaised(Exception):
    """What a handler raised in its process, where the exception itself cannot be sent."""


class Portable:
    """An exception on its way. Many cannot be made again from their arguments alone: what is read is made of what it
    holds."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return make_again, (type(self._error), self._error.args, self._error.__dict__)


def make_again(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class Pipe:
    """The way to the worker. One process speaks on it: what a handler has forked says nothing."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self._reader = reader
        self._writer = writer
        self._pid = os.getpid()

    def read(self) -> Any:
        """The next thing; None when the worker is gone, or wants this process to end."""
        head = self._reader.read(SIZE.size)
        if len(head) < SIZE.size:
            return None
        return pickle.loads(self._reader.read(SIZE.unpack(head)[0]))

    def write(self, thing: object) -> None:
        self._put(pickle.dumps(thing))

    def write_end(self, ended: StageReturned | Raised) -> None:
        """Say what came of a handler: as text, if it cannot be sent as it is."""
        if self.is_forked:
            os._exit(0)  # the handler forked, and both have returned
        if isinstance(ended, Raised):
            ended = Raised(cast(Any, Portable(ended.error)))
        try:
            text = pickle.dumps(ended)
            pickle.loads(text)  # what can be written cannot always be read
        except Exception as problem:
            text = pickle.dumps(Raised(_in_words(ended, problem)))
        self._put(text)

    def _put(self, text: bytes) -> None:
        self._writer.write(SIZE.pack(len(text)) + text)
        self._writer.flush()

    @property
    def is_forked(self) -> bool:
        return os.getpid() != self._pid


class ProcessPort:
    """The handler's end of the conversation about one stage."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._speaking = Speaking()

    def ask(self, message: Ask) -> Any:
        if self._pipe.is_forked:
            raise BadDeclaration("A process that a cpu=True stage forked has used its ctx; use it in the stage itself.")
        with self._speaking:
            try:
                self._pipe.write(message)
            except Exception as error:
                what = SPELLED.get(message.what, message.what)
                raise BadDeclaration(f"What ctx.{what} is given cannot be sent to the worker: {error}.") from None
            reply = self._pipe.read()
        if reply is None:
            os._exit(0)
        return come_of(reply)

    def end(self) -> None:
        self._speaking.end()


def _in_words(ended: StageReturned | Raised, problem: Exception) -> Exception:
    if isinstance(ended, Raised):
        error = cast(Any, ended.error)._error
        return StageRaised(f"{type(error).__name__}: {error}")
    awaitable = missing_await(ended.value)
    why = awaitable or f"it is a {type(ended.value).__name__}, which cannot be sent to the worker: {problem}"
    return BadDeclaration(f"The stage returned a value that does not fit: {why}.")


def load(module: str) -> None:
    """Import what a stage is in. What that raises is raised again where the stage is run, as the handler's."""
    with suppress(BaseException):
        importlib.import_module(module)


def run_stage(pipe: Pipe, where: StageAddress, facts: Facts, now: int, arguments: bytes) -> StageReturned | Raised:
    """Run one stage to its end."""
    began, port = time.monotonic(), ProcessPort(pipe)
    try:
        job = reduce(getattr, where.job.split("."), importlib.import_module(where.module))
        context = SyncContext(facts, port, lambda: now + int((time.monotonic() - began) * 1_000))
        kind = vars(job)["__holdfast__"]
        return StageReturned(vars(job)[where.stage](kind.instance, context, *pickle.loads(arguments)))
    except KeyboardInterrupt as error:
        return interrupted(error)
    except BaseException as error:
        error.add_note(f"In the process of the stage:\n{traceback.format_exc()}")
        return Raised(error)
    finally:
        port.end()


def main() -> None:
    end_with_parent(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the worker decides when it is time
    pipe = Pipe(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # what a handler or a program of its reads there is nobody's message
    sys.path[:] = pipe.read() or sys.path
    while (order := pipe.read()) is not None:
        if isinstance(order, str):
            load(order)
            pipe.write(StageReturned(None))
        else:
            pipe.write_end(run_stage(pipe, *order))
