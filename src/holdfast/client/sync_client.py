"""`Client` for code that is not async: the same calls, which return when they are done.

They run on one event loop in a thread of its own, so that callers of many threads share commits and connections.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from pydantic import JsonValue

from holdfast.client.async_client import ACTOR, Client
from holdfast.errors import BadDeclaration, NotAllowed
from holdfast.kernel.app import App, Job
from holdfast.kernel.declare.options import Options
from holdfast.kernel.questions.status import JobStatus

In = TypeVar("In")
Out = TypeVar("Out")
T = TypeVar("T")


class SyncClient:
    """See `Client`. Any number of threads may share one, also one that was opened before a process forked."""

    def __init__(self, open_client: Callable[[], Client]) -> None:
        if not callable(open_client):
            raise BadDeclaration("A client is opened with its app: SyncClient.open(app, database=...).")
        self._open_client = open_client
        self._starting = threading.Lock()
        self._running: _Running | None = None

    @classmethod
    def open(cls, *apps: App, database: str | None = None) -> Self:
        """A client of these apps' jobs on the database at this URL, or else on the one that the environment names.
        Nothing is connected yet."""
        Client.open(*apps, database=database)  # what is wrong with the settings is said here
        return cls(lambda: Client.open(*apps, database=database))

    def __enter__(self) -> Self:
        """Connect; a database that does not fit this code is refused with what to do about it."""
        try:
            self._call(lambda client: client.__aenter__())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of every connection, and end the thread."""
        with self._starting:
            running, self._running = self._running, None
        if running is not None and running.pid == os.getpid():
            running.stop()

    def enqueue(self, job: type[Job[In]], input: In, *, key: str | None = None, **options: Unpack[Options]) -> str:
        """Accept a job; returns its id once it is durable. As `Client.enqueue`."""
        return self._call(lambda client: client.enqueue(job, input, key=key, **options))

    def enqueue_many(
        self,
        job: type[Job[In]],
        inputs: Iterable[In],
        *,
        key: Callable[[In], str] | None = None,
        **options: Unpack[Options],
    ) -> list[str]:
        """Accept a job for each input; returns their ids in order. As `Client.enqueue_many`."""
        return self._call(lambda client: client.enqueue_many(job, inputs, key=key, **options))

    def status(self, job_id: str) -> JobStatus:
        """How the job stands, and in a sentence why. Raises `NotFound`."""
        return self._call(lambda client: client.status(job_id))

    def wait(self, job_id: str, *, timeout_s: float) -> JobStatus:
        """The job's status once it has ended; `NotEnded` if it has not within `timeout_s`."""
        return self._call(lambda client: client.wait(job_id, timeout_s=timeout_s))

    def result(self, job: type[Job[In, Out]], job_id: str, *, timeout_s: float = 0.0) -> Out:
        """What the job's last stage returned. Raises `NotEnded` and `JobFailed`. As `Client.result`."""
        return self._call(lambda client: client.result(job, job_id, timeout_s=timeout_s))

    def progress(self, job_id: str) -> dict[str, JsonValue] | None:
        """What the job's handler has reported last with `ctx.progress`; None if nothing yet."""
        return self._call(lambda client: client.progress(job_id))

    def cancel(self, job_id: str, *, actor: str = ACTOR) -> None:
        """End a job that has not ended. Raises `NotFound` and `NotAllowed`."""
        self._call(lambda client: client.cancel(job_id, actor=actor))

    def answer(self, key: str, value: object, *, message_id: str | None = None) -> bool:
        """Answer what a job waits for under `key` with a JSON value. As `Client.answer`."""
        return self._call(lambda client: client.answer(key, value, message_id=message_id))

    def _call(self, ask: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        if _is_on_a_loop():
            raise NotAllowed("A SyncClient would block the event loop that runs here; use Client and await it.")
        with self._starting:
            if self._running is None or self._running.pid != os.getpid():
                self._running = _Running(self._open_client())
            running = self._running
        return running.call(ask)


class _Running:
    """An open client on a loop of its own, in a thread of its own. A fork takes neither along."""

    def __init__(self, client: Client) -> None:
        self.pid = os.getpid()
        self._client = client
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast client", daemon=True)
        self._thread.start()

    def call(self, ask: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        asked = asyncio.run_coroutine_threadsafe(ask(self._client), self._loop)
        try:
            return asked.result()
        except BaseException:
            asked.cancel()
            raise

    def stop(self) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
