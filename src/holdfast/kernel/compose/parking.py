"""How a handler waits without a worker: it is left by an exception, and its stage runs again when what it waits for is
there. What was stored before (checkpoints, children, answers) is found again then, and not done again.

Why so: docs/decisions/0018-composition-is-rows.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.kernel.context import Context


class Parking(BaseException):
    """Leaves a handler that waits. Not an `Exception`: no handler catches it by accident."""

    def __init__(self, key: str, until: int) -> None:
        super().__init__(key, until)
        self.key = key
        self.until = until


def park(ctx: Context, key: str, until: int) -> Parking:
    """What the handler is left by. The context knows of it: one that catches everything must not pass for done."""
    ctx.parking = Parking(key, until)
    return ctx.parking


def parking_in(error: BaseException) -> Parking | None:
    """The wait that an exception stands for: itself, or a group of tasks that all came to wait."""
    if isinstance(error, Parking):
        return error
    if isinstance(error, BaseExceptionGroup) and error.split(Parking)[1] is None:
        return parking_in(error.exceptions[0])
    return None
