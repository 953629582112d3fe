"""The effect ledger's rules: what to do about an external effect, given the row that remembers it.

    planned --begin--> sending --mark--> sent
                          |  \\--refused--> planned (definitely not done) or failed (never will be)
                          \\--ambiguous--> unknown --lookup or token--> sending, sent, or review (a person)

The order is send, then mark. A row in `sending` that this attempt did not put there means that some worker may
have sent and died; a row with a time and no provider id, or with an id and no time, means that the order was violated
somewhere: the provider is asked, and nothing is sent before it has answered.

How a key is spelled in the ledger, unambiguously, and within its app:

    ("letter", "ann")   in the app "post"   post:/letter/ann
    "letter/ann"        in the app "post"   post::letter/ann
    ("a/b", "c")        in the app "post"   post:/a%2Fb/c

Two keys are the same effect if, and only if, they are spelled the same. Parts are compared by what they say, not by
their type: `7` is `"7"` and `Decimal("7.0")`, so that a field that changes its type between two deploys sends nothing
twice. What has no lasting spelling (a float, an object of one's own) is refused.

Why so: docs/decisions/0010-one-effect-one-row.md
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from uuid import UUID

from holdfast.core.provider import Provider

RETENTION_MARGIN_S = 3_600.0
PERSON = "person:"
"""What stands before the name of whoever said that an effect happened, in place of a provider's id."""


class EffectStatus(StrEnum):
    PLANNED = "planned"
    SENDING = "sending"
    UNKNOWN = "unknown"
    SENT = "sent"
    FAILED = "failed"
    REVIEW = "review"


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One intended effect: at most one row per key, forever."""

    key: str
    token: str
    status: EffectStatus
    provider: str
    provider_id: str | None
    epoch: int
    sends: int
    first_sent_at: int | None
    last_sent_at: int | None
    error_class: str | None
    error: str | None
    ticket: str | None = None
    marked_at: int | None = None
    kind: str = ""
    job_id: str | None = None
    attempt: int = 0
    sender: str | None = None
    """The job that sent last; it need not be the one that planned the effect."""
    is_held: bool = False
    """Whether the attempt that sent last still holds its job: then its outcome is on its way."""


@dataclass(frozen=True, slots=True)
class Skip:
    provider_id: str


@dataclass(frozen=True, slots=True)
class Send:
    pass


@dataclass(frozen=True, slots=True)
class LookUp:
    alert: bool = False


@dataclass(frozen=True, slots=True)
class LookLater:
    at: int


@dataclass(frozen=True, slots=True)
class WaitForSender:
    """Another attempt is sending it at this moment: what that one comes to decides."""


@dataclass(frozen=True, slots=True)
class AskPerson:
    why: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """It failed for good in this job's epoch; only a replay, or another job, may try again."""

    error_class: str
    message: str


Step = Skip | Send | LookUp | LookLater | WaitForSender | AskPerson | Refuse


def token_of(key: str) -> str:
    """The idempotency token of a key: the same for every attempt, worker and replay."""
    return hashlib.sha256(f"holdfast-effect:{key}".encode()).hexdigest()[:40]


def next_step(
    row: EffectRow, provider: Provider, epoch: int, now: int, *, can_look: bool, is_sender: bool = True
) -> Step:
    """What must happen before this effect may count as done. `can_look`: a lookup function is at hand. `is_sender`: it
    was this job that sent last, so that the row's epoch is one of its own."""
    match row.status:
        case EffectStatus.SENDING if row.is_held:
            return WaitForSender()
        case EffectStatus.REVIEW:
            return AskPerson("an earlier send may have happened and nobody has said whether it did")
        case _ if row.provider_id is not None:
            return _with_id(row, row.provider_id, provider, now, can_look or provider.has_id is not None)
        case EffectStatus.SENT:
            return LookUp(alert=True) if can_look else AskPerson("marked as sent without a provider id")
        case EffectStatus.PLANNED:
            return Send()
        case EffectStatus.FAILED:
            if epoch > row.epoch or not is_sender:
                return Send()
            return Refuse(row.error_class or "EFFECT_FAILED", row.error or "refused by the provider")
        case EffectStatus.SENDING | EffectStatus.UNKNOWN:
            return _after_ambiguity(row, provider, now, can_look)


def _with_id(row: EffectRow, provider_id: str, provider: Provider, now: int, can_look: bool) -> Step:
    """Marked with id and time: done. An id alone is half a mark, and says that something may have been sent."""
    if row.status is EffectStatus.SENT and row.marked_at is not None:
        return Skip(provider_id)
    if row.provider != provider.name:
        return AskPerson(f"it has an id of '{row.provider}' and no time, and '{provider.name}' cannot know")
    if can_look:
        seen_by = now if row.last_sent_at is None or provider.effects == "token" else arrived_by(row, provider, now)
        return LookUp(alert=True) if now >= seen_by else LookLater(seen_by)
    if provider.effects == "token" and within_retention(row, provider, now):
        return Send()
    return AskPerson("it has a provider id and no time, and the provider cannot be asked")


def _after_ambiguity(row: EffectRow, provider: Provider, now: int, can_look: bool) -> Step:
    """An earlier send may have happened. Looking beats sending again, even where a token makes that safe."""
    if row.provider != provider.name:
        why = f"an earlier send through '{row.provider}' may have happened, and '{provider.name}' cannot know"
        return AskPerson(why)
    if provider.effects == "token":
        if can_look:
            return LookUp()
        if within_retention(row, provider, now):
            return Send()
        return AskPerson("the provider no longer remembers the token of an earlier, ambiguous send")
    if provider.effects == "lookup" and can_look:
        seen_by = arrived_by(row, provider, now)
        return LookUp() if now >= seen_by else LookLater(seen_by)
    return AskPerson("an earlier send may have happened and the provider offers neither token nor lookup")


def arrived_by(row: EffectRow, provider: Provider, now: int) -> int:
    """When the last send has arrived if it ever will: from then on, not to be found is not to have happened."""
    return (row.last_sent_at or now) + int((provider.timeout_s + provider.late_bound_s) * 1_000)


def within_retention(row: EffectRow, provider: Provider, now: int) -> bool:
    """The provider still remembers the token, with a margin."""
    return row.first_sent_at is None or _remembers(provider, row.first_sent_at, now)


def _remembers(provider: Provider, sent_at: int, now: int) -> bool:
    margin_s = min(RETENTION_MARGIN_S, provider.retention_s / 10)
    return now - sent_at < (provider.retention_s - margin_s) * 1_000


def after_not_found(row: EffectRow, provider: Provider, now: int) -> Step:
    """The lookup found nothing: is sending again safe?"""
    if provider.effects == "token" and not within_retention(row, provider, now):
        return AskPerson("not found, and the provider no longer remembers the token of an earlier send")
    return Send()


def after_unknown_id(row: EffectRow, provider: Provider, now: int) -> Send | LookLater | AskPerson | None:
    """The provider does not know the id of what is marked as sent. None: that proves nothing, for it may have forgotten
    it, or the id is not one of its own."""
    if row.provider != provider.name or not is_provider_id(row.provider_id):
        return None
    dated_at = row.first_sent_at or row.marked_at
    if dated_at is None:
        return AskPerson("marked as sent with an id that the provider does not know, and without any time")
    if not _remembers(provider, dated_at, now):
        return None
    if row.last_sent_at is not None and now < arrived_by(row, provider, now):
        return LookLater(arrived_by(row, provider, now))
    if provider.effects == "neither":
        return AskPerson("marked as sent with an id that the provider does not know, and it offers no lookup")
    return Send()


def is_provider_id(provider_id: str | None) -> bool:
    """Whether the provider gave it. A person who says that something was sent without naming an id is no provider."""
    return provider_id is not None and not provider_id.startswith(PERSON)


NONE = "%N"
"""How None is spelled: no text can be, for a percent sign in a text is spelled %25."""
BYTES_MAX = 2_000
"""What an index of PostgreSQL takes, with a margin."""
TYPES = "str, int, bool, UUID, date, datetime, Decimal, an Enum of these, or None"


class EffectKey(str):
    """A key that is spelled in full already: the ledger takes it as it is, in whichever app. For systems that keep the
    key in a table of their own and join it with the ledger; everybody else gives a tuple."""

    __slots__ = ()


def effect_key(app: str, key: str | tuple[object, ...]) -> EffectKey:
    """Spell `key` as the ledger of `app` does; ValueError if it has no lasting spelling."""
    if isinstance(key, EffectKey):
        return _storable(key)
    if not key or (isinstance(key, tuple) and all(part == "" for part in key)):
        raise ValueError("The key of an effect is empty; name what must happen only once, as in ('mail', order.id).")
    if isinstance(key, str):
        return _storable(f"{app}::{key}")
    if not isinstance(key, tuple):
        raise ValueError(f"The key of an effect is a {type(key).__name__}; give a str or a tuple, as ('mail', 7).")
    return _storable(f"{app}:/" + "/".join(_spelled(part) for part in key))


def former_spelling(key: str | tuple[object, ...]) -> str | None:
    """How earlier releases spelled the key; None if they would have spelled it as today."""
    if isinstance(key, EffectKey):
        return None
    return key if isinstance(key, str) else "/".join(str(part) for part in key)


def was_ambiguous(key: str | tuple[object, ...]) -> bool:
    """Whether another tuple had the same former spelling, as far as this one's parts can show it."""
    return isinstance(key, tuple) and any("/" in str(part) for part in key)


def _storable(text: str) -> EffectKey:
    """The text as a key that both databases hold as it is."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= BYTES_MAX or "\0" in text:
        why = f"is {size} bytes long" if size > BYTES_MAX else "holds a NUL or half of a character"
        raise ValueError(f"The key of an effect {why}; it must be plain text of at most {BYTES_MAX} bytes.")
    return EffectKey(text)


def _spelled(part: object) -> str:
    if part is None:
        return NONE
    return _text(part).replace("%", "%25").replace("/", "%2F")


def _text(part: object) -> str:
    if isinstance(part, Enum):
        return _text(part.value)
    if isinstance(part, bool):
        return "true" if part else "false"
    if isinstance(part, (str, int, UUID)):
        return str(part)
    if isinstance(part, Decimal) and part.is_finite():
        whole = format(part.normalize(), "f")
        return "0" if whole == "-0" else whole
    if isinstance(part, datetime) and part.tzinfo is not None:
        return part.astimezone(UTC).isoformat()
    if isinstance(part, date):
        return part.isoformat()
    raise ValueError(
        f"A part of an effect's key is a {type(part).__name__}, which has no lasting spelling: use {TYPES}."
    )
