"""Tickets: a caller with a token gets a short-lived, single-use word that an `EventSource` can put in its URL.

Kept in the store, so that any process of the deployment redeems what another has issued; kept as a digest, so that
neither the database nor its backups open a stream.
"""

from __future__ import annotations

import hashlib
import secrets

from holdfast.kernel.kernel import Kernel
from holdfast.kernel.questions.explain import iso as iso  # systems write times as the tickets' `expiresAt` does
from holdfast.tables import tickets

TTL_S = 30
LENGTH_MAX = 128


async def issue(kernel: Kernel, sub: str, roles: frozenset[str]) -> tuple[str, int]:
    """A new ticket and when it expires, in milliseconds. Old ones are swept away as new ones come."""
    ticket = secrets.token_urlsafe(32)
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        expires_at = now + TTL_S * 1_000
        await tickets.prune(tx, now)
        await tickets.put(tx, _digest(ticket), sub, ",".join(sorted(roles)), expires_at)
    return ticket, expires_at


async def redeem(kernel: Kernel, ticket: str) -> tuple[str, frozenset[str]] | None:
    """Who the ticket was issued to; None if it is unknown, expired or was used before."""
    if not 0 < len(ticket) <= LENGTH_MAX:
        return None
    async with kernel.store.transaction() as tx:
        row = await tickets.redeem(tx, _digest(ticket))
    if row is None or row.expires_at < kernel.now():
        return None
    return str(row.sub), frozenset(filter(None, row.roles.split(",")))


def _digest(ticket: str) -> str:
    return hashlib.sha256(ticket.encode()).hexdigest()
