"""Consumes `grading.callback`: one transaction records the event, changes the submission and tells the learner.

The ack goes out after the commit. A callback that is none, or that names no submission of ours, is written down and
acked: it never comes round again.
"""

from __future__ import annotations

import hashlib

from holdfast.kit import Kernel
from holdfast.kit.messages import Delivery
from holdfast.kit.tables import Tx
from holdfast_systems.grading import attempts, calibrations, submissions
from holdfast_systems.grading.contract import Callback, parse_callback
from holdfast_systems.grading.submission_ids import UUID
from holdfast_systems.grading.transitions import apply
from holdfast_systems.grading.wire import InvalidMessage, UnsignedMessage

REASON_LENGTH_MAX = 500


async def receive_callback(kernel: Kernel, delivery: Delivery) -> None:
    """Handle one message. Returns once everything it means is committed."""
    fingerprint = hashlib.sha256(delivery.body).hexdigest()
    try:
        if not delivery.genuine:
            raise UnsignedMessage(delivery.body)
        callback = parse_callback(delivery.body)
    except InvalidMessage as invalid:
        await _refuse(kernel, invalid, fingerprint, len(delivery.body))
        return
    async with kernel.store.transaction() as tx:
        outcome = await _take(kernel, tx, callback, fingerprint)
        await kernel.failpoint("intake.before_commit")
    await kernel.failpoint("intake.after_commit")
    kernel.watch.count("callbacks", kind=callback.kind, outcome=outcome)
    kernel.watch.log("callback", request_id=callback.request_id, callback_kind=callback.kind, outcome=outcome)


async def _take(kernel: Kernel, tx: Tx, callback: Callback, fingerprint: str) -> str:
    """What became of a callback, in a word: applied, ignored, superseded, unknown, mismatched, duplicate or reused."""
    event_id, request_id = callback.event_id.lower(), callback.request_id.lower()
    new = await submissions.accept_callback(
        tx, event_id, request_id, callback.submission_id, callback.kind, fingerprint, kernel.now()
    )
    if not new:
        known = await submissions.callback_fingerprint(tx, event_id)
        return "duplicate" if known == fingerprint else "reused"
    stored = await submissions.lock_by_request(tx, request_id)
    if stored is None:
        outcome = await attempts.receive_superseded(tx, callback, kernel.now()) or await _nobody(tx, callback)
    elif callback.submission_id not in ("", stored.id):
        outcome = "mismatched"
    else:
        # The time of receipt is read under the row's lock: the sweep and this callback agree on who came first.
        received_at = kernel.now()
        decided = apply(stored.state, await calibrations.calibrated(tx, stored.skill, callback), received_at)
        await submissions.change(kernel, tx, stored, decided, received_at, event_id=event_id)
        outcome = "ignored" if decided is None else "applied"
    await submissions.note_callback(tx, event_id, outcome)
    return outcome


async def _nobody(tx: Tx, callback: Callback) -> str:
    """Why a callback changes nothing: its request is none of ours, whatever submission it names.

    Only the request id proves that a callback answers us. A submission's id alone proves nothing: whoever can write to
    the request queue could otherwise fail anybody's work with a broken request that names it."""
    named = UUID.fullmatch(callback.submission_id) and await submissions.show(tx, callback.submission_id.lower())
    return "mismatched" if named else "unknown"


async def _refuse(kernel: Kernel, invalid: InvalidMessage, fingerprint: str, size_bytes: int) -> None:
    reason = invalid.reason[:REASON_LENGTH_MAX]
    async with kernel.store.transaction() as tx:
        await submissions.refuse_callback(
            tx, fingerprint, invalid.request_id, invalid.submission_id, reason, size_bytes, kernel.now()
        )
    kernel.watch.count("callbacks", kind="invalid", outcome="refused")
    kernel.watch.log("callback.refused", request_id=invalid.request_id, error=reason)
