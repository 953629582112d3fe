"""Stopping is a deadline: after the first SIGTERM or SIGINT the process is gone within its grace plus five seconds.

    signal -> a byte on a socket -> the thread here: asks the event loop to stop, counts down, and ends the process

The interpreter writes the byte before any Python code runs, and the thread needs nothing of the event loop: a loop that
is blocked, a database that swallows packets and a close that hangs end with the process. What was leased then expires;
nothing that was accepted is lost. The second signal ends the process at once.

Why so: docs/decisions/0011-identity-is-proof-and-stop-is-a-deadline.md
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from holdfast.core.redact import redact_frame
from holdfast.kernel.observe.watch import LogWatch

STOPPING = (signal.SIGTERM, signal.SIGINT)
AFTER_GRACE_S = 4.0
"""What an orderly end may take after the grace. A second is left of the five that are promised."""
LAST_WORDS_S = 0.7
"""How long a last log line may take: whoever holds the log's lock may be what hangs."""
SECOND_SIGNAL_S = 1.0


@contextmanager
def stop_on_signals(grace_s: float = 20.0) -> Iterator[asyncio.Event]:
    """An event that the first SIGTERM or SIGINT sets. The second ends the process, and so do `grace_s` and some
    seconds. To be entered in the main thread, inside the running loop.

    Whoever leaves without a signal has the former handlers again; after a signal the process is to end, and the
    countdown goes on.
    """
    stop = asyncio.Event()
    countdown = _Countdown(asyncio.get_running_loop(), stop, grace_s)
    countdown.install()
    try:
        yield stop
    finally:
        countdown.uninstall()


class _Countdown(threading.Thread):
    def __init__(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event, grace_s: float) -> None:
        super().__init__(name="holdfast stop", daemon=True)
        self._loop = loop
        self._stop_event = stop
        self._grace_s = grace_s
        self._signals = 0
        self._main = threading.get_ident()
        self._receiver, self._sender = socket.socketpair()

    def install(self) -> None:
        self._sender.setblocking(False)
        self._former = {number: signal.signal(number, self._on_signal) for number in STOPPING}
        self._former_fd = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        self.start()

    def uninstall(self) -> None:
        """Unless a signal has come. One that comes meanwhile is heard here, by the former handlers, or by both."""
        if self._signals:
            return
        for number, handler in self._former.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._former_fd)
        self._sender.close()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        """In the main thread, as soon as it is free: only there can a signal be given back its own effect."""
        self._signals += 1
        if self._signals > 1:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def run(self) -> None:
        first = self._next(None)
        if first is None:
            return
        with suppress(RuntimeError):  # the loop is closed: the process is on its way out
            self._loop.call_soon_threadsafe(self._stop_event.set)
        if self._next(time.monotonic() + self._grace_s + AFTER_GRACE_S) is None:
            last_words = threading.Thread(target=self._say_overdue, daemon=True)
            last_words.start()
            last_words.join(LAST_WORDS_S)
        else:
            time.sleep(SECOND_SIGNAL_S)  # the main thread ends the process, if it is free to
        os._exit(128 + first)

    def _next(self, until: float | None) -> int | None:
        """The next signal to stop; None at `until`, or when nobody listens to signals any more."""
        while True:
            if until is not None:
                self._receiver.settimeout(max(0.001, until - time.monotonic()))
            try:
                byte = self._receiver.recv(1)
            except TimeoutError:
                return None
            if not byte:
                time.sleep(0 if until is None else max(0, until - time.monotonic()))
                return None
            if byte[0] in STOPPING:
                return byte[0]

    def _say_overdue(self) -> None:
        frame = sys._current_frames().get(self._main)
        stack = redact_frame(frame) if frame is not None else None
        LogWatch().log("stop.overdue", grace_s=self._grace_s, stack=stack)
        logging.shutdown()
