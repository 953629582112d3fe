"""The deliveries of a review: one row for each recipient of a version, joined with what the ledger of effects knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.kit.tables import Tx, batch, load_statements
from holdfast_systems.review.recipients import Recipient, effect_key

sql = load_statements(Path(__file__).with_suffix(".sql"))


@dataclass(frozen=True, slots=True)
class ReviewDelivery:
    """One recipient of one version, as the ledger of effects knows it."""

    recipient: str
    required: bool
    effect_key: str
    status: str
    notification_id: str | None
    notified_at: int | None
    provider: str | None
    attempts: int
    last_sent_at: int | None
    error_class: str | None
    error: str | None
    superseded_at: int | None = None
    superseded_by: str | None = None
    budget: str | None = None
    sends_before: int = 0

    def sends_of(self, budget: str) -> int:
        """How many sends this budget has used."""
        return self.attempts - self.sends_before if self.budget == budget else 0


async def plan(tx: Tx, changelist_id: str, review_version: int, recipient: Recipient, position: int, now: int) -> None:
    """Write whom to tell, before anything is sent."""
    await tx.rows(
        sql.plan_delivery,
        changelist_id=changelist_id,
        recipient=recipient.address,
        review_version=review_version,
        position=position,
        required=int(recipient.required),
        effect_key=effect_key(changelist_id, recipient.address, review_version),
        now=now,
    )


async def deliveries(tx: Tx, changelist_id: str, review_version: int) -> list[ReviewDelivery]:
    rows = await tx.rows(sql.deliveries, changelist_id=changelist_id, review_version=review_version)
    return [
        ReviewDelivery(
            recipient=row["recipient"],
            required=bool(row["required"]),
            effect_key=row["effect_key"],
            status=row["status"],
            notification_id=row["notification_id"],
            notified_at=row["notified_at"],
            provider=row["provider"],
            attempts=row["attempts"],
            last_sent_at=row["last_sent_at"],
            error_class=row["error_class"],
            error=row["error"],
            superseded_at=row["superseded_at"],
            superseded_by=row["superseded_by"],
            budget=row["budget"],
            sends_before=row["sends_before"],
        )
        for row in rows
    ]


async def open_budget(tx: Tx, changelist_id: str, review_version: int, budget: str) -> None:
    """Count the sends of a job's epoch from here on, for every recipient of the version."""
    await tx.rows(sql.open_budget, changelist_id=changelist_id, review_version=review_version, budget=budget)


async def forgive(tx: Tx, effect_keys: Sequence[str], budget: str) -> None:
    """Take one send of each delivery out of what the budget has used."""
    await tx.rows(sql.forgive, keys=batch.ids(effect_keys), budget=budget)


async def sends_of(tx: Tx, effect_keys: Iterable[str]) -> dict[str, int]:
    """How often each was sent so far, by the ledger."""
    rows = await tx.rows(sql.sends, keys=batch.ids(effect_keys))
    return {row["effect_key"]: row["attempts"] for row in rows}
