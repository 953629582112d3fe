"""Named places where a process may die. In production nothing happens there.

The simulator kills or stalls a host at them; the real-process tests arm them by HOLDFAST_FAILPOINTS, as in
`settle.before_commit=kill` or `effect.after_send=stop@2` (at the second visit). A process refuses to start with it
set when HOLDFAST_ENV is production.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable

Failpoint = Callable[[str], Awaitable[None]]
WORDS = {"kill": "SIGKILL", "stop": "SIGSTOP"}

NAMES = frozenset(
    {
        "submit.before_commit",
        "submit.after_commit",
        "claim.before_commit",
        "claim.after_commit",
        "attempt.before_handler",
        "attempt.after_handler",
        "settle.before_commit",
        "settle.after_commit",
        "call.before",
        "call.after",
        "paid.after_record",
        "effect.before_send",
        "effect.after_send",
        "effect.after_mark",
        "checkpoint.before_commit",
        "checkpoint.after_commit",
        "spawn.before_commit",
        "spawn.after_commit",
        "wake.before_commit",
        "own_rows.before_commit",
        "own_rows.after_commit",
        "relay.after_claim",
        "relay.after_publish",
        "relay.after_mark",
        "intake.before_commit",
        "intake.after_commit",
        "reap.before_commit",
        "sweep.before_commit",
        "reconcile.after_lookup",
        "replay.before_commit",
        "breaker.before_commit",
    }
)
# Windows has neither; nobody arms failpoints there.
SIGNALS = {word: getattr(signal, name) for word, name in WORDS.items() if hasattr(signal, name)}


async def no_failpoint(name: str) -> None:
    """The failpoint of production: nothing."""


def parse_failpoints(text: str) -> Failpoint:
    """A failpoint that signals this very process at the named places."""
    plan: dict[tuple[str, int], signal.Signals] = {}
    for part in filter(None, text.split(",")):
        name, _, action = part.partition("=")
        word, _, visit = action.partition("@")
        if name not in NAMES or word not in SIGNALS:
            raise ValueError(f"HOLDFAST_FAILPOINTS has '{part}'; write name=kill or name=stop with a known name.")
        plan[name, int(visit or 1)] = SIGNALS[word]
    visits: Counter[str] = Counter()

    async def fire(name: str) -> None:
        visits[name] += 1
        if (name, visits[name]) in plan:
            os.kill(os.getpid(), plan[name, visits[name]])

    return fire
