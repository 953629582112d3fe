"""Jobs from code that is no job: a web endpoint, a script, another service.

    async with Client.open(app) as client:                       with SyncClient.open(app) as client:
        job_id = await client.enqueue(PlaceOrder, order)             job_id = client.enqueue(PlaceOrder, order)
        receipt = await client.result(PlaceOrder, job_id, timeout_s=30)

A client commits by itself. To write a job in a transaction of your own, use `holdfast.enqueue`.

Why so: docs/decisions/0030-one-client.md
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Self, TypeVar, Unpack

from pydantic import JsonValue

from holdfast.core.family import Success
from holdfast.errors import BadDeclaration, InvalidInput, JobFailed, NotAllowed
from holdfast.kernel import operate
from holdfast.kernel.app import App, Job, kind_of
from holdfast.kernel.compose import waiting
from holdfast.kernel.declare.options import Options
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.questions.status import JobStatus, read_progress, read_status, wait_for_end
from holdfast.kernel.submit import submit, submit_many
from holdfast.kernel.upkeep.schema import check_schema
from holdfast.main import open_kernel
from holdfast.settings import Settings, read

In = TypeVar("In")
Out = TypeVar("Out")
ACTOR = "client"


class Client:
    """What code outside of jobs may do with them. Any number of tasks may share one; its connections are few."""

    def __init__(self, kernel: Kernel) -> None:
        if not isinstance(kernel, Kernel):
            raise BadDeclaration("A client is opened with its app: Client.open(app, database=...).")
        self._opened = kernel
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def _kernel(self) -> Kernel:
        """The kernel, on the loop that first used it: its connections belong to that one."""
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop and not self._opened.store.has_one_writer:
            raise NotAllowed(
                "This Client was used on another event loop, to which its connections belong; open one for each loop "
                "(each asyncio.run), or a SyncClient where there is none."
            )
        self._loop = loop
        return self._opened

    @classmethod
    def open(cls, *apps: App, database: str | None = None) -> Self:
        """A client of these apps' jobs on the database at this URL, or else on the one that the environment names.
        Nothing is connected yet."""
        if not apps or not all(isinstance(app, App) for app in apps):
            raise BadDeclaration("A client needs the app whose jobs it is for: Client.open(app, database=...).")
        settings = read(Settings, os.environ)
        return cls(open_kernel(settings if database is None else replace(settings, database_url=database), apps))

    async def __aenter__(self) -> Self:
        """Connect; a database that does not fit this code is refused with what to do about it."""
        try:
            await check_schema(self._kernel)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of every connection."""
        await self._opened.store.close()
        self._loop = None

    async def enqueue(
        self, job: type[Job[In]], input: In, *, key: str | None = None, **options: Unpack[Options]
    ) -> str:
        """Accept a job; returns its id once it is durable. Callers at the same time share a commit.

        The same `key` and payload is the same job; with another payload it is an `IdempotencyConflict`. Further
        options: `delay_s`, `priority`, `deadline_s`, `owner`, `trace`."""
        return await submit(self._kernel, job, input, key=key, **options)

    async def enqueue_many(
        self,
        job: type[Job[In]],
        inputs: Iterable[In],
        *,
        key: Callable[[In], str] | None = None,
        **options: Unpack[Options],
    ) -> list[str]:
        """Accept a job for each input, in commits of thousands (by COPY on PostgreSQL, unless they have keys); returns
        their ids in order. Inputs are read as they are needed. If one commit fails, those before it stand: with a `key`
        for each it can be done again without doubling any."""
        return await submit_many(self._kernel, job, inputs, key=key, **options)

    async def status(self, job_id: str) -> JobStatus:
        """How the job stands, and in a sentence why. Raises `NotFound`."""
        return await read_status(self._kernel, job_id)

    async def wait(self, job_id: str, *, timeout_s: float) -> JobStatus:
        """The job's status once it has ended, however it did; `NotEnded` if it has not within `timeout_s`. Whoever ends
        the job rings; where no rings arrive (SQLite across processes, some poolers) it is looked for."""
        await wait_for_end(self._kernel, job_id, timeout_s)
        return await read_status(self._kernel, job_id)

    async def result(self, job: type[Job[In, Out]], job_id: str, *, timeout_s: float = 0.0) -> Out:
        """What the job's last stage returned. Waits for up to `timeout_s`, then raises `NotEnded`; raises `JobFailed`,
        with the classified `failure`, if the job died or was cancelled."""
        kind = kind_of(job).name
        ended = await wait_for_end(self._kernel, job_id, timeout_s, kind)
        if isinstance(ended.outcome, Success):
            value: Out = ended.outcome.value
            return value
        raise JobFailed(job_id, ended.outcome)

    async def progress(self, job_id: str) -> dict[str, JsonValue] | None:
        """What the job's handler has reported last with `ctx.progress`; None if nothing yet. Raises `NotFound`."""
        return await read_progress(self._kernel, job_id)

    async def cancel(self, job_id: str, *, actor: str = ACTOR) -> None:
        """End a job that has not ended; a running handler is stopped at its next renewal. `actor` is written to the
        audit. Raises `NotFound`, and `NotAllowed` if it has ended."""
        await operate.cancel(self._kernel, (await read_status(self._kernel, job_id)).id, actor)

    async def answer(self, key: str, value: object, *, message_id: str | None = None) -> bool:
        """Answer what a job waits for under `key` with a JSON value, before or after it comes to wait. Whether a
        job has it; else it is kept. The same `message_id` again changes nothing; without one, the same answer again."""
        try:
            body = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"The answer of '{key}' cannot be written as JSON: {error}.") from None
        return await waiting.answer(self._kernel, key, body, message_id=message_id)
