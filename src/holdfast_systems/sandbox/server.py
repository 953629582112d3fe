"""The fork server: has one task loaded, and forks a confined child for each input.

    python -I -m holdfast_systems.sandbox.server serve CHANNEL TASK     until the channel's other end is closed
    python -I -m holdfast_systems.sandbox.server once TASK REQUEST      one input on stdin, where there is no fork

It has one thread and none of its parent's memory or files, as it was started by exec: a fork of it is safe. A request
is a length and JSON, with four open files: input, output, complaints, and a line of its own to tell the end on.
"""

from __future__ import annotations

import array
import gc
import json
import os
import selectors
import signal
import socket
import struct
import sys
import traceback
from contextlib import suppress
from typing import Any, NoReturn

from holdfast_systems.sandbox.confine import Confines, confine
from holdfast_systems.sandbox.task import Task, load_task

HEAD = struct.Struct("=I")
FILES = 4
FORKED = b"+"


def main(arguments: list[str]) -> int:
    if arguments[0] == "once":
        _work(load_task(arguments[1]), json.loads(arguments[2]), parent=None)
    channel = socket.socket(fileno=int(arguments[1]))
    task = load_task(arguments[2])
    task.warm_up()
    gc.collect()
    gc.freeze()  # what is loaded is never looked at again: its pages stay shared with the children
    Server(channel, task).serve()
    return 0


class Server:
    def __init__(self, channel: socket.socket, task: Task) -> None:
        self._channel, self._task = channel, task
        self._lines: dict[int, socket.socket] = {}  # by the child's pid
        self._selector = selectors.DefaultSelector()
        self._ended, self._bell = os.pipe()

    def serve(self) -> None:
        """Until the parent is gone, or lets go of the channel."""
        os.set_blocking(self._bell, False)
        signal.set_wakeup_fd(self._bell, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(self._channel, selectors.EVENT_READ, None)
        self._selector.register(self._ended, selectors.EVENT_READ, None)
        while self._turn():
            pass
        for pid in self._lines:
            os.kill(pid, signal.SIGKILL)

    def _turn(self) -> bool:
        for key, _ in self._selector.select():
            if key.data is not None:
                self._hear(key.data)
            elif key.fileobj is self._channel:
                if not self._take():
                    return False
            else:
                os.read(self._ended, 512)
                self._reap()
        return True

    def _take(self) -> bool:
        """Fork a child for the next request. False when there will be no more."""
        head, files = _receive(self._channel)
        if len(head) < HEAD.size:
            return False
        body = _exactly(self._channel, HEAD.unpack(head)[0])
        pid = os.fork()
        if pid == 0:
            self._become_child(json.loads(body), files)
        for file in files[:-1]:
            os.close(file)
        line = socket.socket(fileno=files[-1])
        self._lines[pid] = line
        self._selector.register(line, selectors.EVENT_READ, pid)
        with suppress(OSError):
            line.send(FORKED)
        return True

    def _become_child(self, request: dict[str, Any], files: list[int]) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            parent = os.getppid()
            os.setsid()
            for number, file in enumerate(files[:3]):
                os.dup2(file, number)
            os.closerange(3, 4_096)
            gc.disable()  # a child is short, and limited: looking for cycles costs more than they do
        except BaseException:  # in the child of a fork: nobody above may go on in it
            os._exit(1)
        _work(self._task, request, parent)

    def _hear(self, pid: int) -> None:
        """The parent says nothing on a child's line but that it hangs up: then the child ends."""
        line = self._lines.get(pid)
        if line is None:
            return
        self._selector.unregister(line)
        os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        for pid in list(self._lines):
            ended, status, usage = os.wait4(pid, os.WNOHANG)
            if not ended:
                continue
            line = self._lines.pop(pid)
            with suppress(KeyError, ValueError):
                self._selector.unregister(line)
            ending = {"status": os.waitstatus_to_exitcode(status), "cpu_s": usage.ru_utime + usage.ru_stime}
            with suppress(OSError):
                line.send(json.dumps(ending).encode())
            line.close()


def _work(task: Task, request: dict[str, Any], parent: int | None) -> NoReturn:
    code = 1
    try:
        confine(Confines(**request["confines"]), parent)
        code = task.run(0, 1, request["options"])
    except BaseException:  # the child of a fork ends here: its parent reads the code, and what it wrote
        with suppress(BaseException):
            traceback.print_exc()
            sys.stderr.flush()
    finally:
        os._exit(code)


def _receive(channel: socket.socket) -> tuple[bytes, list[int]]:
    files = array.array("i")
    head, attached, _, _ = channel.recvmsg(HEAD.size, socket.CMSG_SPACE(FILES * files.itemsize))
    for _, kind, data in attached:
        if kind == socket.SCM_RIGHTS:
            files.frombytes(data[: len(data) - len(data) % files.itemsize])
    return head, list(files)


def _exactly(channel: socket.socket, size: int) -> bytes:
    body = b""
    while len(body) < size and (piece := channel.recv(size - len(body))):
        body += piece
    return body


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
