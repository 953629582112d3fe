"""How often a mail may be sent: as often as its stage has attempts, and no more, within one epoch of its job.

Once the sends are used up, a doubt is looked up and nothing is sent. A lost worker costs no attempt, but its send
counts; a send that failed because the provider was known to be down costs neither.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast import CallError, Category, Context, ProviderHeld
from holdfast.kit import look_into
from holdfast_systems.review import deliveries
from holdfast_systems.review.deliveries import Delivery
from holdfast_systems.review.engine import Engine

TOKEN_RECHECK_MS = 1_000
DOUBTFUL = ("sending", "unknown")


async def open_budget(ctx: Context, changelist_id: str, review_version: int) -> list[Delivery]:
    """Whom to tell, with what this epoch has used of each one's sends. Nothing is sent before that is on record."""
    rows = await _deliveries(ctx, changelist_id, review_version)
    budget = _budget(ctx)
    if all(row.budget == budget for row in rows):
        return rows
    async with ctx.transaction() as tx:
        await deliveries.open_budget(tx, changelist_id, review_version, budget)
    return await _deliveries(ctx, changelist_id, review_version)


def _budget(ctx: Context) -> str:
    return f"{ctx.job.id}/{ctx.job.epoch}"


def may_send(engine: Engine, ctx: Context, row: Delivery) -> bool:
    """Whether this attempt may send the mail, or settle what needs no send.

    Of a mail's sends, those count that a failure or a lost worker was counted for, and the one before a last look."""
    if row.status in ("sent", "failed", "needs_person"):
        return True  # the ledger sends none of them within this epoch
    limit = engine.settings.attempts
    return not row.is_last_look and (row.sends_of(_budget(ctx)) < limit or ctx.failures + ctx.job.crashes < limit)


async def only_look(engine: Engine, ctx: Context, row: Delivery) -> None:
    """The sends are used up: what the provider has is written down, and anything else is the stage's failure."""
    if row.status in (*DOUBTFUL, "unverified") and await look_into(ctx.kernel, ctx.job, engine.mail, row.effect_key):
        return
    error_class = row.error_class or "SENDS_USED_UP"
    message = row.error or "Every send that the budget allows was made, and the provider has no record of the mail."
    raise CallError.of(Category.UPSTREAM, error_class, message)


async def look_once_more(
    engine: Engine, ctx: Context, changelist_id: str, review_version: int, before: Sequence[Delivery]
) -> None:
    """The stage's last attempt sent something and left it in doubt: hold the job until that can be looked up.

    At no cost, and once: from here on nothing of it is sent in this epoch. A doubt that is older was looked into by
    this attempt, and that was what failed. Where nobody can be asked, the doubt goes to the dead letter."""
    if engine.mail.lookup is None or engine.mail.effects == "neither":
        return
    sends_before = {row.effect_key: row.attempts for row in before}
    sent_now = [
        row
        for row in await _deliveries(ctx, changelist_id, review_version)
        if sends_before[row.effect_key] < row.attempts
    ]
    if not any(row.status in DOUBTFUL for row in sent_now):
        return
    async with ctx.transaction() as tx:  # the hold is free: what this attempt sent counts by these marks alone
        await deliveries.look_last(tx, [row.effect_key for row in sent_now], _budget(ctx))
    wait_ms = TOKEN_RECHECK_MS
    if engine.mail.effects == "lookup":
        wait_ms += int((engine.mail.timeout_s + engine.mail.late_bound_s) * 1_000)
    raise ProviderHeld(engine.mail.name, "the last send is in doubt and is looked up first", ctx.now() + wait_ms)


async def _deliveries(ctx: Context, changelist_id: str, review_version: int) -> list[Delivery]:
    """Those who are to be told; who was superseded by a correction is not."""
    async with ctx.kernel.store.reading() as tx:
        rows = await deliveries.deliveries(tx, changelist_id, review_version)
    return [row for row in rows if row.superseded_at is None]
