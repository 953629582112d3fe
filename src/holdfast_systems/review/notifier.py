"""The one shape of everything that delivers a review.

`effects` tells the ledger how an ambiguous send is resolved (see `holdfast.core.provider`). A notifier raises
CallError: with `ambiguous` when the mail may have gone out, without when it certainly did not.
"""

from __future__ import annotations

from email.message import EmailMessage
from typing import Literal, Protocol

EffectClass = Literal["token", "lookup", "neither"]


class Notifier(Protocol):
    """Delivers one message to the one address in its To header."""

    @property
    def name(self) -> str: ...

    @property
    def effects(self) -> EffectClass: ...

    @property
    def can_look(self) -> bool:
        """`lookup` answers; where this is False it must not be offered to the ledger."""
        ...

    @property
    def keeps_ids(self) -> bool:
        """`has_id` answers, and a no within the provider's memory proves that nothing was sent."""
        ...

    async def send(self, message: EmailMessage, token: str) -> str:
        """Hand the message over once and return the provider's id for it."""
        ...

    async def lookup(self, token: str) -> str | None:
        """The provider's id of what was sent under the token; None means that it certainly has nothing."""
        ...

    async def has_id(self, provider_id: str) -> bool:
        """Whether the provider knows a mail of this id."""
        ...
