"""A job's exported history, run against the code of today.

    holdfast jobs show ID --json > tests/histories/order.json

What is exported is redacted: where a mask stands for something that the code reads, write a value into the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidInput
from holdfast.kernel.kernel import Kernel
from holdfast.tables import new_jobs, results
from holdfast.tables.new_jobs import NewJob


@dataclass(frozen=True)
class History:
    """What a job was given, and what its stages returned, as JSON values."""

    kind: str
    version: int
    payload: Any
    results: Mapping[str, Any]

    @classmethod
    def read(cls, path: str | Path) -> History:
        """The history in a file that `holdfast jobs show ID --json` has written."""
        try:
            story = json.loads(Path(path).read_text())
            values = {result["stage"]: result["value"] for result in story["results"] if not result["is_late"]}
            return cls(story["kind"], story["version"], story["payload"], values)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"'{path}' is no job as `holdfast jobs show ID --json` prints it: {error!r}.") from None


async def load_history(kernel: Kernel, history: History, *, at: str | None) -> str:
    """Write the job as it stood at a stage, with the results of the stages before it; at the first stage, if none is
    named. Returns its new id."""
    kind = kernel.registry.kind(history.kind)
    stage = kind.stages[0] if at is None else kind.by_name.get(at)
    if stage is None:
        raise InvalidInput(f"'{kind.name}' has no stage '{at}'; it has {', '.join(each.name for each in kind.stages)}.")
    names = [name for each in kind.stages[: kind.stages.index(stage)] for name in (each.name, *each.formerly)]
    earlier = {name: value for name, value in history.results.items() if name in names}
    job_id, now = kernel.new_id(), kernel.now()
    payload = json.dumps(history.payload)
    row = NewJob(
        kind=kind.name,
        queue=kind.queue,
        stage=stage.name,
        provider=stage.plan.provider,
        priority=kind.priority,
        version=history.version,
        run_at=now,
        deadline_at=None if kind.deadline_s is None else now + int(kind.deadline_s * 1_000),
        job_key=None,
        fingerprint=None,
        owner=None,
        trace=None,
        join_id=None,
        fair_key=None,
        payload=payload,
    )
    async with kernel.store.transaction() as tx:
        await new_jobs.insert(tx, {job_id: row}, now)
        await new_jobs.mark_done(tx, job_id, names)
        await results.put(tx, [(job_id, name, 0, 0, json.dumps(value)) for name, value in earlier.items()], now)
    return job_id
