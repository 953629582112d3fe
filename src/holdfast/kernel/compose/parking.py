"""How a handler waits without a worker: it is left by an exception, and its stage runs again when what it waits for is
there. What was stored before (checkpoints, children, answers) is found again then, and not done again."""

from __future__ import annotations


class Parking(BaseException):
    """Leaves a handler that waits. Not an `Exception`: no handler catches it by accident."""

    def __init__(self, key: str, until: int) -> None:
        super().__init__(key, until)
        self.key = key
        self.until = until
