"""Holdfast: durable staged jobs for background work that calls things which fail.

Each public name is imported when it is first asked for, so that `holdfast --version` loads nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client import Client, SyncClient
    from holdfast.core.breaker import BreakerPolicy as Breaker
    from holdfast.core.failure import Category, Failure
    from holdfast.core.family import Answered, Success
    from holdfast.core.job import Priority
    from holdfast.core.outcome import Discard, Done, Next, Snooze, Wait
    from holdfast.core.provider import Provider
    from holdfast.core.retry import Retry
    from holdfast.core.turns import Limit
    from holdfast.errors import (
        CallError,
        HoldfastError,
        IdempotencyConflict,
        InvalidInput,
        JobFailed,
        LeaseLost,
        NotAllowed,
        NotEnded,
        NotFound,
        ProviderHeld,
    )
    from holdfast.http.mount import console
    from holdfast.http.principal import Principal
    from holdfast.kernel.app import App, Job, stage
    from holdfast.kernel.compose.job_tx import JobTx, Settled
    from holdfast.kernel.context import Context
    from holdfast.kernel.enqueue import enqueue, enqueue_many
    from holdfast.kernel.questions.status import JobStatus
    from holdfast.kernel.record import Cost
    from holdfast.kernel.running.sync_context import SyncContext

__all__ = [
    "Answered",
    "App",
    "Breaker",
    "CallError",
    "Category",
    "Client",
    "Context",
    "Cost",
    "Discard",
    "Done",
    "Failure",
    "HoldfastError",
    "IdempotencyConflict",
    "InvalidInput",
    "Job",
    "JobFailed",
    "JobStatus",
    "JobTx",
    "LeaseLost",
    "Limit",
    "Next",
    "NotAllowed",
    "NotEnded",
    "NotFound",
    "Principal",
    "Priority",
    "Provider",
    "ProviderHeld",
    "Retry",
    "Settled",
    "Snooze",
    "Success",
    "SyncClient",
    "SyncContext",
    "Wait",
    "console",
    "enqueue",
    "enqueue_many",
    "stage",
]
__version__ = "0.2.0"
_HOMES = {
    "Answered": "holdfast.core.family:Answered",
    "App": "holdfast.kernel.app:App",
    "Breaker": "holdfast.core.breaker:BreakerPolicy",
    "CallError": "holdfast.errors:CallError",
    "Category": "holdfast.core.failure:Category",
    "Client": "holdfast.client:Client",
    "Context": "holdfast.kernel.context:Context",
    "Cost": "holdfast.kernel.record:Cost",
    "Discard": "holdfast.core.outcome:Discard",
    "Done": "holdfast.core.outcome:Done",
    "Failure": "holdfast.core.failure:Failure",
    "HoldfastError": "holdfast.errors:HoldfastError",
    "IdempotencyConflict": "holdfast.errors:IdempotencyConflict",
    "InvalidInput": "holdfast.errors:InvalidInput",
    "Job": "holdfast.kernel.app:Job",
    "JobFailed": "holdfast.errors:JobFailed",
    "JobStatus": "holdfast.kernel.questions.status:JobStatus",
    "JobTx": "holdfast.kernel.compose.job_tx:JobTx",
    "LeaseLost": "holdfast.errors:LeaseLost",
    "Limit": "holdfast.core.turns:Limit",
    "Next": "holdfast.core.outcome:Next",
    "NotAllowed": "holdfast.errors:NotAllowed",
    "NotEnded": "holdfast.errors:NotEnded",
    "NotFound": "holdfast.errors:NotFound",
    "Principal": "holdfast.http.principal:Principal",
    "Priority": "holdfast.core.job:Priority",
    "Provider": "holdfast.core.provider:Provider",
    "ProviderHeld": "holdfast.errors:ProviderHeld",
    "Retry": "holdfast.core.retry:Retry",
    "Settled": "holdfast.kernel.compose.job_tx:Settled",
    "Snooze": "holdfast.core.outcome:Snooze",
    "Success": "holdfast.core.family:Success",
    "SyncClient": "holdfast.client:SyncClient",
    "SyncContext": "holdfast.kernel.running.sync_context:SyncContext",
    "Wait": "holdfast.core.outcome:Wait",
    "console": "holdfast.http.mount:console",
    "enqueue": "holdfast.kernel.enqueue:enqueue",
    "enqueue_many": "holdfast.kernel.enqueue:enqueue_many",
    "stage": "holdfast.kernel.app:stage",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from holdfast.core.given import give_names, nearest

        if name not in _HOMES:
            near = None if name.startswith("_") else nearest(name, __all__)
            meant = f"; did you mean '{near}'?" if near else ""
            raise AttributeError(f"module 'holdfast' has no attribute '{name}'{meant}")
        module, _, attribute = _HOMES[name].partition(":")
        return globals().setdefault(name, give_names(getattr(import_module(module), attribute), name))

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
