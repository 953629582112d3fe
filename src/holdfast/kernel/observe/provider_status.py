"""What a provider answered last in an attempt: its client notes the status, the attempt's log line shows it.

A failure carries its status by itself; a success is whatever value the client makes of the answer, so the status would
be lost. Tasks and threads that a call starts inherit its listener.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import Protocol


class StatusListener(Protocol):
    provider_status: int | None


_listener: ContextVar[StatusListener | None] = ContextVar("holdfast_provider_status", default=None)


def note_status(status: int) -> None:
    """Say what the provider answered. For clients, wherever they are called; outside of a job it does nothing."""
    listener = _listener.get()
    if listener is not None:
        listener.provider_status = status


class Listening:
    """While it is entered, what a client notes is the listener's."""

    __slots__ = ("_before", "_listener")

    def __init__(self, listener: StatusListener) -> None:
        self._listener = listener

    def __enter__(self) -> None:
        self._listener.provider_status = None
        self._before = _listener.get()
        _listener.set(self._listener)

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        _listener.set(self._before)
