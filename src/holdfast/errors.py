"""The exceptions of Holdfast, drawn:

    HoldfastError
     ├─ UsageError             the caller can fix it
     │   ├─ BadDeclaration       a job, stage, provider or schedule that cannot work
     │   ├─ UnknownKind          a job kind that no loaded app declares
     │   ├─ InvalidInput         input that does not fit the type it was declared with
     │   ├─ IdempotencyConflict  the key was used before, with another payload
     │   ├─ NotFound             no row with this id (or not yours)
     │   ├─ SystemAmbiguous      several systems have what was named
     │   └─ NotAllowed           the state machine has no such step from here
     ├─ SettingsError          settings that cannot work; says all of them
     ├─ StoreError             the database failed
     │   ├─ StoreDown            it takes no writes now, whoever asks
     │   │   ├─ StoreUnavailable   it cannot be reached; the write may or may not have happened
     │   │   │   ├─ StoreStandby     it follows another server and takes no writes; nothing was written
     │   │   │   └─ StoreStarting    it is there and starts or recovers; it will answer
     │   │   ├─ StoreBusy          another writer held it for too long
     │   │   └─ StoreFull          no space left; nothing was written
     │   │       └─ StoreReadOnly    it may be read but not written; nothing was written
     │   ├─ StoreConflict        a row with this key is there already
     │   ├─ StoreForbidden       the database's role lacks a right; nothing was written
     │   └─ SchemaMismatch       newer than this code, or not migrated
     ├─ TransportError         the broker failed
     │   ├─ TransportDown        not reachable: back off, blame no message
     │   ├─ Unroutable           this message can reach no queue
     │   └─ NotHandled           its consumer failed; it comes again, and no other message is held up
     ├─ NotEnded               a job that was waited for has not ended yet
     ├─ JobFailed              a job whose result was asked for has died or was cancelled; carries its `failure`
     ├─ LeaseLost              another attempt owns the job now; its result stands
     └─ CallError              a provider call failed; carries a classified `failure`
         └─ ProviderHeld         the provider's breaker or limit said no; nothing was called, nothing is spent

Messages name the thing and the next step. No message holds a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from holdfast.core.budget import Standing
from holdfast.core.failure import Category, Failure, failure, from_status
from holdfast.core.given import BadValue


class HoldfastError(Exception):
    """Everything Holdfast raises on purpose."""


class UsageError(HoldfastError):
    """The caller can fix it; no retry can."""

    @property
    def failure(self) -> Failure:
        return failure(Category.BUG, "USAGE_ERROR", f"{type(self).__name__}: {self}")


class BadDeclaration(UsageError):
    """A job, stage, provider or schedule that cannot work as declared."""


class UnknownKind(UsageError):
    def __init__(self, kind: str, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known)) or "none"
        super().__init__(f"No loaded app declares the job kind '{kind}'; known kinds: {names}.")
        self.kind = kind


class InvalidInput(UsageError):
    """Input that does not fit its declared type. Nothing was written."""

    @property
    def failure(self) -> Failure:
        return failure(Category.VALIDATION, "INPUT_INVALID", str(self))


class IdempotencyConflict(UsageError):
    def __init__(self, key: str) -> None:
        super().__init__(f"The key '{key}' was used before with another payload; use a new key for new work.")
        self.key = key


class NotFound(UsageError):
    """No such row, or none that this caller may see."""


class SystemAmbiguous(UsageError):
    """Several systems have a thing of this name; the caller must say which is meant."""

    def __init__(self, thing: str, systems: Iterable[str]) -> None:
        self.systems = list(systems)
        super().__init__(f"Several systems have {thing}; name the system: {', '.join(self.systems)}.")


class NotAllowed(UsageError):
    """The state machine has no such step from the present state."""


class SettingsError(HoldfastError):
    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__(" ".join(self.problems))


class StoreError(HoldfastError):
    """The database failed."""


class StoreDown(StoreError):
    """The database takes no writes now, whoever asks: no job and no row is to blame."""


class StoreUnavailable(StoreDown):
    """The database cannot be reached. A write that was under way may or may not have happened."""


class StoreStandby(StoreUnavailable):
    """The database is a standby, or is still recovering: it takes no writes until it is promoted. Nothing was
    written."""


class StoreStarting(StoreUnavailable):
    """The database's server is there and not ready yet: it starts, or recovers from a crash, which takes as long as it
    takes. Nothing was written."""


class StoreBusy(StoreDown):
    """Another writer held the database for longer than the busy timeout. Nothing was written."""


class StoreConflict(StoreError):
    """A row with this key is there already; nothing was written."""


class StoreFull(StoreDown):
    """The database cannot grow: its disk is full, or not to be written. Nothing was written."""


class StoreReadOnly(StoreFull):
    """The database, or the folder it lies in, is read-only. Nothing was written."""


class StoreForbidden(StoreError):
    """The database's role may not do this. Nothing was written."""


def forbidden(refusal: str) -> str:
    """What to do about a right that the database refuses, in a sentence."""
    return (
        f"The role of this connection lacks a right ({refusal}); to work it needs USAGE on the schema and SELECT, "
        "INSERT, UPDATE and DELETE on Holdfast's tables, and only holdfast migrate needs CREATE."
    )


class SchemaMismatch(StoreError):
    """The database's schema is not the one this code was written for."""


class TransportError(HoldfastError):
    """The broker failed."""


class TransportDown(TransportError):
    """The broker cannot be reached or does not confirm. The message may or may not have been taken."""


class Unroutable(TransportError):
    """The broker can deliver this message to no queue."""


class NotHandled(TransportError):
    """The message reached its consumer, which failed. It comes again; no other message is to blame or to wait."""


class LeaseLost(HoldfastError):
    """The attempt's lease is gone: another attempt owns the job, and its result stands."""


class NotEnded(HoldfastError, TimeoutError):
    """The job has not ended in the time that its caller wanted to wait."""


class JobFailed(HoldfastError):
    """The job died or was cancelled, so that it has no result."""

    def __init__(self, job_id: str, failure: Failure) -> None:
        super().__init__(f"Job {job_id} has no result: {failure.error_class}: {failure.message}")
        self.job_id = job_id
        self.failure = failure


class CallError(HoldfastError):
    """A provider call failed. Clients raise it; foreign exceptions become one through `classify`."""

    def __init__(self, failure: Failure) -> None:
        if not isinstance(failure, Failure):
            way_out = "write CallError.of(Category.UPSTREAM, 'CLASS', 'why')"
            raise BadValue(f"A CallError needs a Failure, not a {type(failure).__name__}: {way_out}.")
        super().__init__(failure.message)
        self.failure = failure
        self.standing: Standing | None = None
        """How the call stands to its provider's breaker, once it has been recorded."""

    @classmethod
    def of(
        cls,
        category: Category,
        error_class: str,
        message: str,
        *,
        ambiguous: bool = False,
        faults: bool | None = None,
        retry_after_ms: int | None = None,
        status: int | None = None,
    ) -> CallError:
        """A failure whose retryability follows from its category. `faults`: does it speak against the provider, and so
        count in its breaker? Unless it is said, an upstream or network failure with a status of 408 or
        5xx does."""
        if not isinstance(category, Category):
            raise BadValue(f"A CallError needs a Category, as Category.NETWORK, not {category!r}.")
        if faults is None:
            is_theirs = category in (Category.UPSTREAM, Category.NETWORK)
            faults = is_theirs and status is not None and (status >= 500 or status == 408)
        return cls(
            failure(
                category,
                error_class,
                message,
                ambiguous=ambiguous,
                faults=faults,
                retry_after_ms=retry_after_ms,
                status=status,
            )
        )

    @classmethod
    def from_status(
        cls,
        status: int,
        message: str,
        headers: Mapping[str, str],
        *,
        now_ms: int | None,
        code: str | None = None,
        words: str = "",
    ) -> CallError:
        """A failure read from an HTTP answer of 400 or more. `words` are the provider's own; they are not kept."""
        return cls(from_status(status, message, headers, now_ms=now_ms, code=code, words=words))


class ProviderHeld(CallError):
    """The provider's breaker is open, or its limit is reached. Nothing was called and nothing is spent."""

    def __init__(
        self,
        provider: str,
        reason: str,
        retry_at: int,
        *,
        parks: bool = False,
        asked: bool = False,
        hold_max_ms: int | None = None,
    ) -> None:
        message = f"Provider '{provider}' is held: {reason}."
        super().__init__(failure(Category.RATE_LIMIT, "PROVIDER_HELD", message))
        self.provider = provider
        self.reason = reason
        self.retry_at = retry_at
        self.parks = parks
        self.asked = asked
        self.hold_max_ms = hold_max_ms


EXTRAS = {  # what is not installed, and which extra brings it
    "aio_pika": "rabbitmq",
    "asyncpg": "postgres",
    "celery": "celery",
    "fastapi": "http",
    "httpx": "http",
    "jinja2": "http",
    "jwt": "http",
    "multipart": "http",
    "opentelemetry": "tracing",
    "prometheus_client": "http",
    "sse_starlette": "http",
    "starlette": "http",
    "httptools": "http",
    "uvicorn": "http",
}
PROOF = "holdfast_proof"
"""The simulator, the demo and the benchmark: a distribution of their own, which no process in production needs."""


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """One sentence for a module that an extra of Holdfast, or its proof, brings; None if none does."""
    module = missing_module(error)
    if module == PROOF:
        return "This command is part of holdfast-proof, which is not installed: pip install holdfast-proof."
    if module not in EXTRAS:
        return None
    return f"This needs the module '{module}', which is not installed: pip install 'holdfast[{EXTRAS[module]}]'."


@contextmanager
def extras_named() -> Iterator[None]:
    """A module that is missing within it is asked for by the extra that brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        sentence = missing_extra(error)
        if sentence is None:
            raise
        raise SettingsError([sentence]) from None


def missing_module(error: ModuleNotFoundError) -> str:
    return (error.name or "").partition(".")[0]
