"""Jobs by a query. Only reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))
PAYLOADS_MAX = 20_000
"""An input has no index: those of so many jobs are looked into, the newest first."""


async def jobs_matching(
    tx: Tx,
    *,
    before: str | None,
    limit: int,
    state: str | None = None,
    held: bool | None = None,
    kind: str | None = None,
    queue: str | None = None,
    stage: str | None = None,
    provider: str | None = None,
    owner: str | None = None,
    error: str | None = None,
    key: str | None = None,
    from_id: str | None = None,
    to_id: str | None = None,
    created_from: int | None = None,
    created_to: int | None = None,
    inputs: Sequence[Sequence[str]] = (),
) -> Sequence[Row]:
    """The newest first. Texts are patterns in small letters; of each of `inputs` one of three patterns must fit."""
    return await tx.rows(
        sql.jobs_matching,
        before=before,
        limit=limit,
        state=state,
        held=None if held is None else int(held),
        kind=kind,
        queue=queue,
        stage=stage,
        provider=provider,
        owner=owner,
        error=error,
        key=key,
        from_id=from_id,
        to_id=to_id,
        created_from=created_from,
        created_to=created_to,
        is_deep=int(bool(inputs)),
        inputs=batch.keyed({str(number): list(patterns) for number, patterns in enumerate(inputs)}),
        payloads_max=PAYLOADS_MAX,
    )
