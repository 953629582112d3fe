"""Holdfast: durable staged jobs for background work that calls things which fail."""

from holdfast.core.breaker import BreakerPolicy as Breaker
from holdfast.core.failure import Category, Failure
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

__all__ = [
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
    "Wait",
    "enqueue",
    "enqueue_many",
    "stage",
]
__version__ = "0.1.0"
