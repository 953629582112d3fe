"""The context of a stage that is a plain `def`: what `Context` offers, without an `await`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from holdfast.core.family import Answered, Success
from holdfast.errors import BadDeclaration
from holdfast.kernel.running.aside import Ask, Facts, Port
from holdfast.kernel.running.asked import check_function, json_text, missing, refuse_wrong_calls

if TYPE_CHECKING:
    from holdfast.core.failure import Failure
    from holdfast.core.provider import Lookup, Provider
    from holdfast.kernel.app import Job
    from holdfast.kernel.compose.own_rows import StageCommit
    from holdfast.kernel.context import Context
    from holdfast.kernel.declare.options import Options
    from holdfast.kernel.record import Cost

T = TypeVar("T")
In = TypeVar("In")
C = TypeVar("C")


@refuse_wrong_calls
class SyncContext:
    """The context of a stage that is a plain `def`: the same attempt, seen from a thread or a process of its own.

    Its methods block until the worker has answered, and raise what the awaited ones would."""

    __slots__ = ("_facts", "_here", "_now", "_port")

    def __init__(self, facts: Facts, port: Port, now: Callable[[], int], here: Context | None = None) -> None:
        self._facts = facts
        self._port = port
        self._here = here
        self._now = now

    @property
    def job_id(self) -> str:
        return self._facts.job_id

    @property
    def stage(self) -> str:
        return self._facts.stage

    @property
    def attempt(self) -> int:
        """The attempt's number: rises with every claim. Never put it into an idempotency token."""
        return self._facts.attempt

    @property
    def failures(self) -> int:
        """How many attempts of this stage have failed before this one."""
        return self._facts.failures

    def now(self) -> int:
        """Milliseconds since the epoch, by the store's clock."""
        return self._now()

    def budget_s(self) -> float | None:
        """Seconds left until the job's deadline; None if it has none."""
        deadline = self._facts.deadline_at
        return None if deadline is None else max(0, deadline - self.now()) / 1_000

    def progress(self, /, **data: object) -> None:
        """Tell listeners how far the work is, at once."""
        self._ask("progress", data)

    def emit(
        self,
        destination: str,
        body: object,
        *,
        type: str = "",
        aggregate_id: str | None = None,
        message_id: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> str:
        """Publish a message if and only if this attempt's result is accepted. Returns the message's id."""
        json_text(f"The message to '{destination}'", body)  # here, where the handler's line is in the traceback
        answer: str = self._ask(
            "emit", destination, body, type=type, aggregate_id=aggregate_id, message_id=message_id, headers=headers
        )
        return answer

    def call(
        self,
        run: Callable[[], T],
        *,
        provider: Provider | None = None,
        timeout_s: float | None = None,
        cost: Callable[[T], Cost] | None = None,
    ) -> T:
        """Call a provider (the stage's own unless another is named), as `Context.call` does; `run` is a plain function
        and runs in this thread."""
        self._refuse_in_process("call")
        answer: T = self._ask("call", run, provider=provider, timeout_s=timeout_s, cost=cost)
        return answer

    def paid_call(
        self,
        run: Callable[[str], T],
        *,
        answer: type[T],
        name: str = "",
        provider: Provider | None = None,
        timeout_s: float | None = None,
        cost: Callable[[T], Cost] | None = None,
    ) -> T:
        """Call a provider that charges for it, and pay for the answer once, as `Context.paid_call` does; `run` is a
        plain function and runs in this thread."""
        self._refuse_in_process("paid_call")
        paid: T = self._ask(
            "paid_call", run, answer=answer, name=name, provider=provider, timeout_s=timeout_s, cost=cost
        )
        return paid

    def effect(
        self,
        key: str | tuple[object, ...],
        *,
        send: Callable[[str], str],
        lookup: Lookup | None = None,
        provider: Provider | None = None,
    ) -> str:
        """Perform an external effect at most once for `key`, as `Context.effect` does; `send` is a plain function and
        runs in this thread."""
        self._refuse_in_process("effect")
        if lookup is not None:
            check_function(lookup, "ctx.effect(key, send=..., lookup=lambda token: ...)", takes=1)
        answer: str = self._ask("effect", key, send, lookup, provider)
        return answer

    def checkpoint(self, name: str, find: Callable[[], T], *, returns: object = Any) -> T:
        """What `find` returned, stored before it is returned: later attempts of this stage read it instead."""
        check_function(find, "ctx.checkpoint(name, lambda: ...)", takes=0)
        known, value = self._ask("recall", name, returns)
        answer: T = value if known else self._ask("keep", name, find(), returns)
        return answer

    def wait_for(self, key: str, *, timeout_s: float) -> Answered | None:
        """Wait until somebody answers under `key`, as `Context.wait_for` does: the stage runs again then."""
        answer: Answered | None = self._ask("wait_for", key, timeout_s)
        return answer

    def spawn(self, job: type[Job[In]], input: In, **options: Unpack[Options]) -> str:
        """Start a child, once for this place in the stage; returns its id."""
        child: str = self._ask("spawn", job, input, **options)
        return child

    def gather(
        self, job: type[Job[In, T]], inputs: Iterable[In], **options: Unpack[Options]
    ) -> list[Success[T] | Failure]:
        """Start a child for each input and wait for all of them, as `Context.gather` does."""
        given = list(inputs) if self._facts.in_process else inputs
        outcomes: list[Success[T] | Failure] = self._ask("gather", job, given, **options)
        return outcomes

    def callback_url(self, key: str, *, expires_s: float = 7 * 86_400.0) -> str:
        """An address where whoever has it can answer `wait_for(key)`."""
        url: str = self._ask("callback_url", key, expires_s)
        return url

    def transaction(self, session: C) -> AbstractContextManager[StageCommit[C]]:
        """Your rows, further enqueues and the stage's result in one commit, fenced, as `Context.transaction` does; with
        a connection or session that is not awaited."""
        self._refuse_in_process("transaction")
        from holdfast.kernel.compose.own_rows import committing_here

        assert self._here is not None, "a thread is in its worker's process"
        return committing_here(self._here, session)

    def _refuse_in_process(self, method: str) -> None:
        if self._facts.in_process:
            raise BadDeclaration(
                f"ctx.{method} is not to be had in the process of a cpu=True stage, because it runs a function of "
                "yours in the worker: do it in a stage before or after this one."
            )

    def __getattr__(self, name: str) -> Any:
        raise missing(self, name)

    def _ask(self, what: str, /, *args: Any, **kwargs: Any) -> Any:
        return self._port.ask(Ask(what, args, kwargs))
