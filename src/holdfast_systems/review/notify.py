"""The stage `notify`: every recipient is told once, and a bad one keeps nobody else from being told.

The kernel's ledger does send-and-mark, one effect per recipient. What is left to decide here is what the stage makes
of several outcomes:

    somebody may still be told       the failure that says so is raised, and the stage is tried again
    a send is in doubt at the end    the budget is used up, but the doubt is looked into once more first
    nobody else can be told          the first refusal is raised for good: a dead letter asks for a person

How often a mail may be sent is said in `sends`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.message import EmailMessage

from holdfast import CallError, Category, Context, ProviderHeld
from holdfast.kit import EffectKey
from holdfast.kit.repair import ask_person
from holdfast_systems.review.critique import Critique
from holdfast_systems.review.deliveries import ReviewDelivery
from holdfast_systems.review.engine import Engine
from holdfast_systems.review.render import build_message
from holdfast_systems.review.sends import DOUBTFUL, forgive_outage, look_once_more, may_send, only_look, open_budget

# Not the fault of one address: whoever comes next would be refused likewise.
OF_ALL = (Category.AUTH, Category.BUG)


@dataclass(frozen=True, slots=True)
class Mail:
    """What every recipient of a version is told, all of it fixed when the review was asked for."""

    changelist_id: str
    review_version: int
    sender: str
    dated_at: int


@dataclass(frozen=True, slots=True)
class Notified:
    """How many were told, of how many."""

    sent: int
    recipients: int


@dataclass(frozen=True, slots=True)
class _Miss:
    delivery: ReviewDelivery
    error: CallError

    @property
    def held(self) -> bool:
        return isinstance(self.error, ProviderHeld)

    @property
    def retryable(self) -> bool:
        return not self.held and self.error.failure.retryable


async def notify(engine: Engine, ctx: Context, mail: Mail, critique: Critique) -> Notified:
    """Tell everybody who has not been told."""
    rows = await open_budget(ctx, mail.changelist_id, mail.review_version)
    missed: list[_Miss] = []
    for row in rows:
        try:
            if may_send(engine, ctx, row):
                await _tell(engine, ctx, mail, critique, row)
            else:
                await only_look(engine, ctx, row)
        except CallError as error:
            missed.append(_Miss(row, error))
            if not isinstance(error, ProviderHeld) and error.failure.category in OF_ALL:
                break
    if missed:
        await forgive_outage(engine, ctx, [(miss.delivery, miss.error) for miss in missed])
        await _judge(engine, ctx, mail, missed, rows)
    return Notified(len(rows) - len(missed), len(rows))


async def _tell(engine: Engine, ctx: Context, mail: Mail, critique: Critique, row: ReviewDelivery) -> None:
    if row.status in DOUBTFUL and row.provider != engine.mail.name:
        await _not_here(ctx, engine, row)

    async def send(token: str) -> str:
        return await engine.notifier.send(_message(mail, critique, row.recipient, token), token)

    await ctx.effect(EffectKey(row.effect_key), send=send)


async def _not_here(ctx: Context, engine: Engine, row: ReviewDelivery) -> None:
    """Another mail provider may have sent it; this one cannot know, and must not send it a second time."""
    why = f"it may have been sent by '{row.provider}', and mail goes by '{engine.mail.name}' now"
    await ask_person(ctx.kernel, row.effect_key, why)
    raise CallError.of(Category.POLICY, "EFFECT_AMBIGUOUS", f"A mail needs a person: {why}.")


def _message(mail: Mail, critique: Critique, recipient: str, token: str) -> EmailMessage:
    return build_message(
        critique.review,
        recipient,
        mail.changelist_id,
        mail.review_version,
        mail.sender,
        token,
        date=datetime.fromtimestamp(mail.dated_at / 1_000, UTC),
        title=critique.title,
    )


async def _judge(
    engine: Engine, ctx: Context, mail: Mail, missed: Sequence[_Miss], before: Sequence[ReviewDelivery]
) -> None:
    """Raise what the stage's outcome is. Returns if only recipients were missed who are not required."""
    last, total = ctx.failures + 1 >= engine.settings.attempts, len(before)
    again = [miss for miss in missed if miss.retryable and (miss.delivery.required or not last)]
    held = [miss for miss in missed if miss.held]
    if again:
        if last:
            await look_once_more(engine, ctx, mail.changelist_id, mail.review_version, before)
        worst = max(again, key=lambda miss: miss.error.failure.retry_after_ms or 0)
        raise _told(worst, len(missed), total) from worst.error
    if held:
        raise min((miss.error for miss in held), key=lambda error: getattr(error, "retry_at", 0))
    lost = [miss for miss in missed if miss.delivery.required]
    if lost:
        raise _told(lost[0], len(missed), total) from lost[0].error


def _told(miss: _Miss, missed: int, total: int) -> CallError:
    """The failure of one recipient as the failure of the stage, without anybody's address."""
    why = miss.error.failure
    return CallError(replace(why, message=f"{missed} of {total} recipients were not told: {why.message}"))
