"""Follows a correction of a review's input: its recipients' rows and its source, in the correction's transaction.

A recipient that is not in the corrected list is superseded: its row stays, marked, with whatever became of its mail. A
new one gets a row, and so a key, of its own. Rows of all others are not touched: who was mailed is not mailed again.
"""

from __future__ import annotations

from holdfast import InvalidInput, NotAllowed
from holdfast.kit.redaction import redact
from holdfast.kit.repair import Corrected
from holdfast.kit.tables import Tx, batch
from holdfast_systems.review import deliveries, reviews
from holdfast_systems.review.recipients import RECIPIENTS_MAX, Recipient, without_doubles
from holdfast_systems.review.render import is_plain_address
from holdfast_systems.review.reviews import ReviewDelivery, ReviewOrder

FIXED = ("review_id", "changelist_id", "review_version", "sender", "dated_at", "trusted")
DOUBTFUL = ("sending", "unknown", "needs_person", "unverified")


async def follow(tx: Tx, correction: Corrected[ReviewOrder]) -> None:
    """Write what the corrected order means to its review, or refuse it."""
    before, after = correction.before, correction.after
    stored = await reviews.by_version(tx, after.changelist_id, after.review_version)
    if stored is None or stored.job_id != correction.job_id or (before is not None and _moved(before, after)):
        fixed = ", ".join(FIXED)
        raise InvalidInput(f"Only source, title and recipients of a review can be corrected, not {fixed}.")
    rows = await reviews.deliveries(tx, after.changelist_id, after.review_version)
    if before is None or (before.source, before.title) != (after.source, after.title):
        _check_no_doubt(rows)
        source = batch.text(redact(after.source.model_dump(mode="json")))
        await tx.rows(
            reviews.sql.correct, id=stored.id, source=source, title=after.title or stored.title, now=correction.now
        )
    if after.recipients or (before is not None and before.recipients):  # an order of an earlier release has none
        await _follow_recipients(tx, after, rows, correction.now)


def _moved(before: ReviewOrder, after: ReviewOrder) -> bool:
    return any(getattr(before, name) != getattr(after, name) for name in FIXED)


def _check_no_doubt(rows: list[ReviewDelivery]) -> None:
    """Another source or title is another mail, and a token stands for one mail only."""
    if any(row.status in DOUBTFUL for row in rows):
        raise NotAllowed("A mail of this version may have been sent; say whether it was, before another is made of it.")


async def _follow_recipients(tx: Tx, order: ReviewOrder, rows: list[ReviewDelivery], now: int) -> None:
    wanted = {one.address.casefold(): one for one in without_doubles(order.recipients)}
    known = {row.recipient.casefold(): row for row in rows}
    added = [key for key in wanted if key not in known or known[key].superseded_at is not None]
    _check_recipients(list(wanted.values()), [wanted[key].address for key in added])
    for key, row in known.items():
        if key not in wanted and row.superseded_at is None:
            if row.status == "sent":
                raise NotAllowed(f"{row.recipient} has been mailed already; leave this recipient in the list.")
            by = wanted[added[0]].address if len(added) == 1 else None
            await tx.rows(deliveries.sql.supersede, effect_key=row.effect_key, superseded_by=by, now=now)
        elif key in wanted and row.superseded_at is None and row.required != wanted[key].required:
            await tx.rows(deliveries.sql.require, effect_key=row.effect_key, required=int(wanted[key].required))
    for key in added:
        position = list(wanted).index(key)
        await _add(tx, order, wanted[key], known.get(key), position, now)


def _check_recipients(wanted: list[Recipient], added: list[str]) -> None:
    """Who asks for a review may name an address that cannot be mailed, and hears of it; a correction may not."""
    if not 1 <= len(wanted) <= RECIPIENTS_MAX:
        raise InvalidInput(f"recipients: a review is told to 1 to {RECIPIENTS_MAX} recipients, not {len(wanted)}.")
    if not all(is_plain_address(address) for address in added):
        raise InvalidInput("recipients: a new address is not of the form name@domain, and could not be mailed.")


async def _add(tx: Tx, order: ReviewOrder, one: Recipient, row: ReviewDelivery | None, position: int, now: int) -> None:
    """A row for a new recipient; one that was superseded before counts again, with what became of its mail."""
    if row is not None:
        await tx.rows(deliveries.sql.restore, effect_key=row.effect_key, required=int(one.required))
        return
    await deliveries.plan(tx, order.changelist_id, order.review_version, one, position, now)
