"""What a provider answered last in an attempt: its client notes the status, the attempt's log line shows it.

A failure carries its status by itself; a success is whatever value the client makes of the answer, so the status would
be lost. Tasks and threads that a call starts inherit its listener.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import Protocol

from holdfast.core.provider import Provider
from holdfast.errors import BadDeclaration


class StatusListener(Protocol):
    provider_status: int | None


_calling: ContextVar[Listening | None] = ContextVar("holdfast_provider_status", default=None)


def note_status(status: int) -> None:
    """Say what the provider answered. For clients, wherever they are called; outside of a job it does nothing."""
    calling = _calling.get()
    if calling is not None:
        calling.listener.provider_status = status


class Listening:
    """While it is entered, what a client notes is the listener's. Refuses to call a provider inside of a call of it, if
    it has a limit: the inner call would wait for the outer one's place, and the job for ever."""

    __slots__ = ("before", "listener", "provider")

    def __init__(self, listener: StatusListener, provider: Provider) -> None:
        self.listener = listener
        self.provider = provider
        self.before = _calling.get()

    def __enter__(self) -> None:
        if self.before is not None and self.provider.concurrency is not None:
            self._refuse_inside(self.before)
        self.listener.provider_status = None
        _calling.set(self)

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        _calling.set(self.before)

    def _refuse_inside(self, outer: Listening | None) -> None:
        while outer is not None:
            if outer.provider.name == self.provider.name:
                raise BadDeclaration(
                    f"'{self.provider.name}' is called inside of a call of itself, and its concurrency of "
                    f"{self.provider.concurrency} may leave no second place: make one call after the other."
                )
            outer = outer.before
