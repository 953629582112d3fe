"""Jobs in every state in which a sweep, a count or a claim may meet them, and what is said of them, in short words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import product
from typing import Any

from holdfast.testing import World
from tests.tables.test_fences import Note
from tests.tables.test_rare_rows import write

ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
FRAME = re.compile(r"(?:\n  \S+\.py:\d+ [\w.<>]+)+")
HOLDS = ("breaker", "turn", "pause")
PROVIDERS = (None, "api", "other", "api", "api")
STATES = ("queued", "processing", "waiting", "dead")
SET = """UPDATE holdfast_jobs SET queue = :queue, state = :state, parked = :parked, is_due = :is_due,
  priority = :priority, run_at = :at, created_at = :at, updated_at = :at, lease_until = :lease_until, deadline_at = :at,
  lease_owner = :lease_owner, hold = :hold, provider = :provider, attempt = :attempt, wait_key = :wait_key,
  finished_at = :finished_at, last_attempt_at = :at WHERE id = CAST(:id AS /*id*/)"""


async def gather(world: World) -> dict[str, str]:
    """The crowd, by its ids: what each is called."""
    now, names = world.kernel.now(), {}
    cases = product(STATES, (None, *HOLDS), (0, 1), (-2_000, -1_000, 0, 1_000), (0, 1))
    standing = [case for case in cases if case[0] == "queued" or case[1] is None]
    for number, (state, hold, is_due, after_ms, lane) in enumerate(standing):
        job_id = await world.enqueue(Note, {"name": "x"}, owner=f"owner{number % 3}")
        names[job_id] = f"{state}/{hold or 'free'}{'/due' if is_due else ''}/q{lane}{after_ms:+d}"
        leased = state == "processing"
        at = now + after_ms + (number if after_ms < 0 else 0)  # what is over has an order
        await write(
            world, SET, id=job_id, state=state, parked=int(hold is not None), is_due=is_due, at=at, queue=f"q{lane}",
            priority=2 + lane, lease_until=at if leased else None, lease_owner="w" if leased else None,
            hold=hold, provider=PROVIDERS[number % 5], attempt=number % 3,
            wait_key=f"k{number}" if state == "waiting" else None, finished_at=at if state == "dead" else None,
        )  # fmt: skip
    return names


class Unordered(list[Any]):
    """An answer whose order means nothing."""


def told(answer: Any, names: Mapping[str, str], now: int) -> str:
    """An answer in words that are the same on every database and in every run."""
    if isinstance(answer, bool):
        return str(int(answer))
    if isinstance(answer, int):
        return f"t{answer - now:+d}" if abs(answer - now) < 10**8 else str(answer)
    if is_dataclass(answer) and not isinstance(answer, type):
        answer = {each.name: getattr(answer, each.name) for each in fields(answer)}
    elif hasattr(answer, "_asdict"):
        answer = answer._asdict()
    if isinstance(answer, Mapping):
        said = {
            str(name): "<stack>" if name == "last_stack" else told(each, names, now) for name, each in answer.items()
        }
        return f"{{{', '.join(f'{_named(name, names)}={each}' for name, each in said.items() if name != 'seq')}}}"
    if isinstance(answer, Unordered | set | frozenset):
        return f"{{{', '.join(sorted(told(each, names, now) for each in answer))}}}"
    if isinstance(answer, list | tuple):
        return f"[{', '.join(told(each, names, now) for each in answer)}]"
    return _named(str(answer), names)


def _named(text: str, names: Mapping[str, str]) -> str:
    if len(text) < 36:
        return text
    return FRAME.sub("<frame>", ID.sub(lambda found: names.get(found[0], "<id>"), text))
