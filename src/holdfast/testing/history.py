"""A job's exported history, run against the code of today.

    holdfast jobs show ID --json > tests/histories/order.json

What is exported is redacted: where a mask stands for something that the code reads, write a value into the file.

A replay sends nothing: an effect that the history has is answered with the id that the provider gave then, and one that
it does not have is noted and answered with an id of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidInput
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.kinds import JobKind
from holdfast.tables import new_jobs, results
from holdfast.tables.new_jobs import NewJob


@dataclass(frozen=True)
class RecordedEffect:
    """An effect that happened: its key in the ledger, the stage it belonged to, and the provider's id of it."""

    key: str
    stage: str
    provider_id: str


@dataclass(frozen=True)
class History:
    """What a job was given, what its stages returned, as JSON values, and the effects that it brought about."""

    kind: str
    version: int
    payload: Any
    results: Mapping[str, Any]
    effects: tuple[RecordedEffect, ...] = ()

    @classmethod
    def read(cls, path: str | Path) -> History:
        """The history in a file that `holdfast jobs show ID --json` has written."""
        try:
            story = json.loads(Path(path).read_text())
            values = {result["stage"]: result["value"] for result in story["results"] if not result["is_late"]}
            sent = [effect for effect in story["effects"] if effect["status"] == "sent" and effect["provider_id"]]
            effects = tuple(RecordedEffect(each["key"], each["stage"], each["provider_id"]) for each in sent)
            return cls(story["kind"], story["version"], story["payload"], values, effects)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"'{path}' is no job as `holdfast jobs show ID --json` prints it: {error!r}.") from None


@dataclass(frozen=True)
class HistoryReplay:
    """What the code of today made of a history. Effects are told by their keys."""

    job_id: str
    state: str
    results: Mapping[str, Any]
    repeated: tuple[str, ...]
    """Effects that the history has, and that were answered from it."""
    added: tuple[str, ...]
    """Effects that the history does not have: this code would bring them about."""
    dropped: tuple[str, ...]
    """Effects of the history that this code did not ask for, of the stages that ran."""


class RecordedLedger:
    """Stands where the providers of effects are, while a history is replayed."""

    def __init__(self, recorded: Sequence[RecordedEffect]) -> None:
        self._recorded = recorded
        self._ids = {effect.key: effect.provider_id for effect in recorded}
        self._asked: dict[str, None] = {}

    def perform(self, key: str) -> str:
        """The provider's id of then; one of our own for an effect that did not happen then."""
        self._asked[key] = None
        return self._ids.get(key) or f"replay-{len(self._asked)}"

    def replay(self, job_id: str, state: str, results: Mapping[str, str], skipped: Sequence[str]) -> HistoryReplay:
        return HistoryReplay(
            job_id,
            state,
            {stage: json.loads(value) for stage, value in results.items()},
            repeated=tuple(key for key in self._asked if key in self._ids),
            added=tuple(key for key in self._asked if key not in self._ids),
            dropped=tuple(
                each.key for each in self._recorded if each.key not in self._asked and each.stage not in skipped
            ),
        )


def stages_before(kind: JobKind, at: str | None) -> list[str]:
    """The names, also the former ones, of the stages before the one named."""
    stage = kind.by_name.get(at) if at is not None else None
    before = kind.stages[: kind.stages.index(stage)] if stage is not None else []
    return [name for each in before for name in (each.name, *each.formerly)]


async def load_history(kernel: Kernel, history: History, *, at: str | None) -> str:
    """Write the job as it stood at a stage, with the results of the stages before it; at the first stage, if none is
    named. Returns its new id."""
    kind = kernel.registry.kind(history.kind)
    stage = kind.stages[0] if at is None else kind.by_name.get(at)
    if stage is None:
        raise InvalidInput(f"'{kind.name}' has no stage '{at}'; it has {', '.join(each.name for each in kind.stages)}.")
    names = stages_before(kind, at)
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
