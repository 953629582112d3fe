"""What leaves the systems, at the desk: messages of the outbox, and external effects."""

from __future__ import annotations

from typing import Any

from holdfast.errors import NotAllowed, NotFound
from holdfast.kernel import operate
from holdfast.kernel.effects import answer
from holdfast.operator.desk import Desk
from holdfast.operator.page import BY_KEY, ListPage, by_sequence, fetch_page, is_uuid
from holdfast.tables import effects, ops


async def list_messages(desk: Desk, page: ListPage, status: str | None = None) -> dict[str, Any]:
    """Messages, the newest first; `failed` ones were set aside after their last try."""
    return await fetch_page(desk, page, by_sequence("created_at"), ops.outbox_page, status=status)


async def requeue_message(desk: Desk, message_id: str, actor: str) -> dict[str, Any]:
    """Publish a message again that was set aside."""
    for system in desk.systems if is_uuid(message_id) else ():
        if await operate.requeue(system.kernel, message_id, actor):
            return {"system": system.name, "id": message_id, "status": "pending"}
    raise NotFound(f"There is no message {message_id} that was set aside.")


async def list_effects(
    desk: Desk, page: ListPage, status: str | None = None, provider: str | None = None
) -> dict[str, Any]:
    """External effects; those in `review` wait for a person's answer."""
    return await fetch_page(desk, page, BY_KEY, ops.effects_page, status=status, provider=provider)


async def answer_effect(desk: Desk, key: str, *, sent: bool, provider_id: str | None, actor: str) -> dict[str, Any]:
    """Record whether a doubtful effect happened. Its job may then be replayed."""
    is_known = False
    for system in desk.systems:
        async with system.kernel.store.reading() as tx:
            is_known = is_known or await effects.lock(tx, key) is not None
        if await answer(system.kernel, key, sent=sent, provider_id=provider_id, actor=actor):
            return {"system": system.name, "key": key, "status": "sent" if sent else "planned", "sent": sent}
    if is_known:
        raise NotAllowed(f"The effect '{key}' is not in doubt; there is nothing to answer.")
    raise NotFound(f"There is no effect with the key '{key}'.")
