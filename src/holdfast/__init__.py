"""Holdfast: durable staged jobs for background work that calls things which fail.

Each public name is imported when it is first asked for, so that `holdfast --version` loads nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.core.breaker import BreakerPolicy as Breaker
    from holdfast.core.failure import Category, Failure
    from holdfast.core.family import Answered, Success
    from holdfast.core.job import Priority
    from holdfast.core.outcome import Discard, Done, Next, Snooze, Wait
    from holdfast.core.provider import Provider
    from holdfast.core.retry import Retry
    from holdfast.errors import (
        CallError,
        HoldfastError,
        IdempotencyConflict,
        InvalidInput,
        LeaseLost,
        NotAllowed,
        NotFound,
        ProviderHeld,
    )
    from holdfast.kernel.app import App, Job, stage
    from holdfast.kernel.context import Context
    from holdfast.kernel.enqueue import Enqueued, enqueue
    from holdfast.kernel.enqueue_many import EnqueuedMany, enqueue_many
    from holdfast.kernel.record import Cost
    from holdfast.kernel.sync_context import SyncContext

__all__ = [
    "Answered",
    "App",
    "Breaker",
    "CallError",
    "Category",
    "Context",
    "Cost",
    "Discard",
    "Done",
    "Enqueued",
    "EnqueuedMany",
    "Failure",
    "HoldfastError",
    "IdempotencyConflict",
    "InvalidInput",
    "Job",
    "LeaseLost",
    "Next",
    "NotAllowed",
    "NotFound",
    "Priority",
    "Provider",
    "ProviderHeld",
    "Retry",
    "Snooze",
    "Success",
    "SyncContext",
    "Wait",
    "enqueue",
    "enqueue_many",
    "stage",
]
__version__ = "0.1.0"
_HOMES = {
    "Answered": "holdfast.core.family:Answered",
    "App": "holdfast.kernel.app:App",
    "Breaker": "holdfast.core.breaker:BreakerPolicy",
    "CallError": "holdfast.errors:CallError",
    "Category": "holdfast.core.failure:Category",
    "Context": "holdfast.kernel.context:Context",
    "Cost": "holdfast.kernel.record:Cost",
    "Discard": "holdfast.core.outcome:Discard",
    "Done": "holdfast.core.outcome:Done",
    "Enqueued": "holdfast.kernel.enqueue:Enqueued",
    "EnqueuedMany": "holdfast.kernel.enqueue_many:EnqueuedMany",
    "Failure": "holdfast.core.failure:Failure",
    "HoldfastError": "holdfast.errors:HoldfastError",
    "IdempotencyConflict": "holdfast.errors:IdempotencyConflict",
    "InvalidInput": "holdfast.errors:InvalidInput",
    "Job": "holdfast.kernel.app:Job",
    "LeaseLost": "holdfast.errors:LeaseLost",
    "Next": "holdfast.core.outcome:Next",
    "NotAllowed": "holdfast.errors:NotAllowed",
    "NotFound": "holdfast.errors:NotFound",
    "Priority": "holdfast.core.job:Priority",
    "Provider": "holdfast.core.provider:Provider",
    "ProviderHeld": "holdfast.errors:ProviderHeld",
    "Retry": "holdfast.core.retry:Retry",
    "Snooze": "holdfast.core.outcome:Snooze",
    "Success": "holdfast.core.family:Success",
    "SyncContext": "holdfast.kernel.sync_context:SyncContext",
    "Wait": "holdfast.core.outcome:Wait",
    "enqueue": "holdfast.kernel.enqueue:enqueue",
    "enqueue_many": "holdfast.kernel.enqueue_many:enqueue_many",
    "stage": "holdfast.kernel.app:stage",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'holdfast' has no attribute '{name}'")
        module, _, attribute = _HOMES[name].partition(":")
        return globals().setdefault(name, getattr(import_module(module), attribute))

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
