"""Stopping is a deadline: after the first SIGTERM or SIGINT the process is gone within its grace plus five seconds.

    signal -> a byte on a socket -> the thread here: asks the event loop to stop, counts down, and ends the process

The interpreter writes the byte before any Python code runs, and the thread needs nothing of the event loop: a loop that
is blocked, a database that swallows packets and a close that hangs end with the process. What was leased then expires;
nothing that was accepted is lost. The second signal ends the process at once.
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
from contextlib import suppress
from types import FrameType

from holdfast.core.redact import redact_frame
from holdfast.kernel.observe.watch import LogWatch

STOPPING = (signal.SIGTERM, signal.SIGINT)
AFTER_GRACE_S = 4.0
"""What an orderly end may take after the grace. A second is left of the five that are promised."""
LAST_WORDS_S = 0.7
"""How long a last log line may take: whoever holds the log's lock may be what hangs."""
SECOND_SIGNAL_S = 1.0


def stop_on_signals(stop: asyncio.Event, grace_s: float = 20.0) -> None:
    """Set `stop` at the first SIGTERM or SIGINT, and end the process at the second, or when `grace_s` and some
    seconds have passed. To be called from the main thread, inside the running loop."""
    _Countdown(asyncio.get_running_loop(), stop, grace_s).install()


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
        for number in STOPPING:
            signal.signal(number, self._on_signal)
        signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        self.start()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        """In the main thread, as soon as it is free: only there can a signal be given back its own effect."""
        self._signals += 1
        if self._signals > 1:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def run(self) -> None:
        first = self._next(None)
        assert first is not None, "it waits forever"
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
        """The next signal to stop; None at `until`."""
        while True:
            if until is not None:
                self._receiver.settimeout(max(0.001, until - time.monotonic()))
            try:
                number = self._receiver.recv(1)[0]
            except TimeoutError:
                return None
            if number in STOPPING:
                return number

    def _say_overdue(self) -> None:
        frame = sys._current_frames().get(self._main)
        stack = redact_frame(frame) if frame is not None else None
        LogWatch().log("stop.overdue", grace_s=self._grace_s, stack=stack)
        logging.shutdown()
