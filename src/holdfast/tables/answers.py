"""What paid calls were answered, for the attempts that come after. Kept only until the stage has its result, or as long
as the dead job."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))


class RunId(NamedTuple):
    """One question that a stage asks: the same for every attempt of the stage in this epoch."""

    job_id: str
    stage: str
    epoch: int
    run: str


class NewAnswer(NamedTuple):
    """What came of one call. `tries`: how many calls of this run have been answered with something of no use."""

    id: RunId
    tries: int
    value: str | None


class KeptAnswer(NamedTuple):
    tries: int
    value: str | None


async def put(tx: Tx, answers: Iterable[NewAnswer], now: int) -> None:
    """Keep answers; the first one of a run stands."""
    await tx.rows(sql.put, batch=batch.numbered([(*new.id, new.tries, new.value) for new in answers]), now=now)


async def of_stage(tx: Tx, job_id: str, stage: str, epoch: int) -> dict[str, KeptAnswer]:
    """What the stage has asked in this epoch, by run."""
    rows = await tx.rows(sql.of_stage, job_id=job_id, stage=stage, epoch=epoch)
    return {row["run"]: KeptAnswer(row["tries"], row["value"]) for row in rows}


class StageAnswer(NamedTuple):
    """What a paid call of a stage was answered, by run."""

    stage: str
    run: str
    value: str | None


async def of_job(tx: Tx, job_id: str) -> list[StageAnswer]:
    """What the job's attempts have kept in its present epoch: answers of paid calls, checkpoints."""
    return await tx.rows(sql.of_job, into=StageAnswer, job_id=job_id)


async def restore(tx: Tx, answers: Iterable[NewAnswer], now: int) -> None:
    """Write the answers of a job that is written with its history."""
    await tx.rows(sql.restore, batch=batch.numbered([(*new.id, new.tries, new.value) for new in answers]), now=now)


async def parked(tx: Tx, job_ids: Iterable[str]) -> set[str]:
    """Which of these waiting jobs wait inside of their stage, to go on there."""
    return {row["id"] for row in await tx.rows(sql.parked, batch=batch.ids(job_ids))}


async def forget(tx: Tx, job_ids: Iterable[str]) -> None:
    await tx.rows(sql.forget, batch=batch.ids(job_ids))


async def prune(tx: Tx, after: str, limit: int) -> list[str]:
    """Forget what no later attempt can ask for, in the order of the jobs' ids; returns these."""
    return sorted(row["job_id"] for row in await tx.rows(sql.prune, after=after, limit=limit))
