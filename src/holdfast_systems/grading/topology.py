"""The contract's queues as the transport declares them: all that the two services share besides the messages."""

from __future__ import annotations

from holdfast.kit.messages import Queue
from holdfast_systems.grading.contract import CALLBACK_QUEUE, DEAD_LETTER_QUEUE, EXCHANGE, REQUEST_QUEUE

REQUESTS = Queue(REQUEST_QUEUE, EXCHANGE, REQUEST_QUEUE)
CALLBACKS = Queue(CALLBACK_QUEUE, EXCHANGE, CALLBACK_QUEUE)
DEAD_LETTERS = Queue(DEAD_LETTER_QUEUE, EXCHANGE, DEAD_LETTER_QUEUE, sink=True)
RESENT_HEADER = "holdfast-resent"
"""On a request that a person sent again: why. A service that does not know it ignores it."""
QUEUES = (REQUESTS, CALLBACKS, DEAD_LETTERS)


def destination(queue: str) -> str:
    """Where the outbox sends a message of this queue."""
    return f"{EXCHANGE}/{queue}"
