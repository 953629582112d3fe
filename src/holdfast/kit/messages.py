"""Messages of a broker: what comes in is handled once, what goes out carries the trace."""

from holdfast.kernel.intake import once
from holdfast.kernel.observe.trace import trace_headers
from holdfast.transports.seam import Delivery, HeldMessage, Lookable, Queue

__all__ = [
    "Delivery",
    "HeldMessage",
    "Lookable",
    "Queue",
    "once",
    "trace_headers",
]
