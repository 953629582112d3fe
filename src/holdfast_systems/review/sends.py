"""How often a mail may be sent: as often as its stage has attempts, and no more, within one epoch of its job.

Once the sends are used up, a doubt is looked up and nothing is sent. A lost worker costs no attempt, but its send
counts; a send that failed because the provider was known to be down costs neither.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast import CallError, Category, Context, ProviderHeld
from holdfast.kit import Gate
from holdfast.kit.repair import look_into
from holdfast.kit.tables import providers
from holdfast_systems.review import deliveries
from holdfast_systems.review.deliveries import ReviewDelivery
from holdfast_systems.review.engine import Engine

TOKEN_RECHECK_MS = 1_000
DOUBTFUL = ("sending", "unknown")


async def open_budget(ctx: Context, changelist_id: str, review_version: int) -> list[ReviewDelivery]:
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


def may_send(engine: Engine, ctx: Context, row: ReviewDelivery) -> bool:
    """Whether this attempt may send the mail, or settle what needs no send."""
    if row.status in ("sent", "failed", "needs_person"):
        return True  # the ledger sends none of them within this epoch
    return row.sends_of(_budget(ctx)) < engine.settings.attempts


async def only_look(engine: Engine, ctx: Context, row: ReviewDelivery) -> None:
    """The sends are used up: what the provider has is written down, and anything else is the stage's failure."""
    is_doubtful = row.status in (*DOUBTFUL, "unverified") or row.notification_id is not None
    if is_doubtful and await look_into(ctx.kernel, ctx.job, engine.mail, row.effect_key):
        return
    # A class of its own: this attempt called nobody, so that no provider is to blame for it.
    last = f" The last send: {row.error_class}, {row.error}" if row.error_class else ""
    message = f"Every send that the budget allows was made, and there is no evidence of the mail.{last}"
    raise CallError.of(Category.UPSTREAM, "SENDS_USED_UP", message)


async def forgive_outage(engine: Engine, ctx: Context, missed: Sequence[tuple[ReviewDelivery, CallError]]) -> None:
    """Give back the sends that failed because the provider was known to be down, or asked to be called later."""
    sent_before = {row.effect_key: row.attempts for row, _ in missed}
    async with ctx.kernel.store.reading() as tx:
        gate = (await providers.read(tx, engine.mail.name)).state.gate
    known_down = [row for row, error in missed if gate is not Gate.CLOSED or _asked_to_wait(error)]
    if not known_down:
        return
    async with ctx.transaction() as tx:
        sent = {key for key, sends in (await deliveries.sends_of(tx, sent_before)).items() if sends > sent_before[key]}
        keys = [row.effect_key for row in known_down if row.effect_key in sent]
        await deliveries.forgive(tx, keys, _budget(ctx))


def _asked_to_wait(error: CallError) -> bool:
    return error.failure.status in (429, 503) and error.failure.retry_after_ms is not None


async def look_once_more(
    engine: Engine, ctx: Context, changelist_id: str, review_version: int, before: Sequence[ReviewDelivery]
) -> None:
    """The stage's last attempt sent something and left it in doubt: hold the job until that can be looked up.

    At no cost, and bounded: its sends are counted all the same. A doubt that is older was looked into by this attempt,
    and that was what failed. Where nobody can be asked, the doubt goes to the dead letter."""
    if engine.mail.lookup is None or engine.mail.effects == "neither":
        return
    sends_before = {row.effect_key: row.attempts for row in before}
    rows = await _deliveries(ctx, changelist_id, review_version)
    if not any(row.status in DOUBTFUL and sends_before[row.effect_key] < row.attempts for row in rows):
        return
    wait_ms = TOKEN_RECHECK_MS
    if engine.mail.effects == "lookup":
        wait_ms += int((engine.mail.timeout_s + engine.mail.late_bound_s) * 1_000)
    raise ProviderHeld(engine.mail.name, "the last send is in doubt and is looked up first", ctx.now() + wait_ms)


async def _deliveries(ctx: Context, changelist_id: str, review_version: int) -> list[ReviewDelivery]:
    """Those who are to be told; who was superseded by a correction is not."""
    async with ctx.kernel.store.reading() as tx:
        rows = await deliveries.deliveries(tx, changelist_id, review_version)
    return [row for row in rows if row.superseded_at is None]
