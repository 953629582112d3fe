"""Signed messages: what is forged is told apart, keys rotate, and what has no readable properties keeps an identity."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import struct
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pamqp.frame
import pytest

from holdfast.main import open_transport
from holdfast.settings import Settings, notes, problems, read
from holdfast.transports.memory import MemoryTransport
from holdfast.transports.rabbitmq.wire import _decodable, delivery_of
from holdfast.transports.seam import Delivery, HeldMessage, Message, Queue
from holdfast.transports.signed import SIGNATURE_HEADER, SignedTransport, is_signed, sign

NEW, OLD, OTHER = "n" * 32, "o" * 32, "x" * 32
BODY = b'{"requestId": "r"}'


@pytest.mark.spec("K30", "G9")
async def test_only_what_is_signed_under_a_known_key_is_genuine() -> None:
    inner, seen = MemoryTransport(), []

    async def keep(delivery: Delivery) -> None:
        seen.append(delivery)

    ours = SignedTransport(inner, [NEW, OLD])
    await ours.declare([Queue("q")])
    consuming = asyncio.create_task(ours.consume("q", keep))
    await asyncio.sleep(0)
    await ours.publish(Message("1", "q", BODY))
    await SignedTransport(inner, [OLD]).publish(Message("2", "q", BODY))
    await SignedTransport(inner, [OTHER]).publish(Message("3", "q", BODY))
    await inner.publish(Message("4", "q", BODY))
    await inner.publish(Message("5", "q", BODY + b" ", headers={SIGNATURE_HEADER: sign(NEW, BODY)}))
    await inner.publish(Message("6", "q", BODY, headers={SIGNATURE_HEADER: "sha256=é"}))
    consuming.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await consuming
    assert [delivery.genuine for delivery in seen] == [True, True, False, False, False, False]
    by_hand = "sha256=" + hmac.new(NEW.encode(), BODY, hashlib.sha256).hexdigest()
    assert is_signed([NEW], Delivery("q", BODY, headers={SIGNATURE_HEADER: by_hand}))


def mac(key: str, body: bytes, kind: str = "sha256") -> str:
    return hmac.new(key.encode(), body, kind).hexdigest()


RIGHT = f"sha256={mac(NEW, BODY)}"
NEARLY = {
    "no prefix": mac(NEW, BODY),
    "another algorithm": f"sha512={mac(NEW, BODY, 'sha512')}",
    "another algorithm under this name": f"sha256={mac(NEW, BODY, 'sha512')}",
    "an older algorithm": f"sha1={mac(NEW, BODY, 'sha1')}",
    "no algorithm": "none",
    "a hash without a key": f"sha256={hashlib.sha256(BODY).hexdigest()}",
    "key and body in one": f"sha256={hashlib.sha256(NEW.encode() + BODY).hexdigest()}",
    "an empty key": f"sha256={mac('', BODY)}",
    "both keys as one": f"sha256={mac(f'{NEW},{OLD}', BODY)}",
    "large letters": f"sha256={mac(NEW, BODY).upper()}",
    "a space behind": f"{RIGHT} ",
    "two": f"{RIGHT},{RIGHT}",
    "the half": RIGHT[:-32],
    "nothing": "",
}


@pytest.mark.spec("K30", "G9")
@pytest.mark.parametrize("given", NEARLY.values(), ids=NEARLY)
def test_what_is_nearly_a_signature_is_none(given: str) -> None:
    assert is_signed([NEW, OLD], Delivery("q", BODY, headers={SIGNATURE_HEADER: RIGHT}))
    assert not is_signed([NEW, OLD], Delivery("q", BODY, headers={SIGNATURE_HEADER: given}))
    assert not is_signed([NEW, OLD], Delivery("q", BODY, headers={"x-hub-signature-256": RIGHT}))


class Shelf(MemoryTransport):
    """A broker that lets people look at two messages."""

    @contextlib.asynccontextmanager
    async def look(self, queue: str) -> AsyncIterator[AsyncIterator[HeldMessage]]:
        async def lying() -> AsyncIterator[HeldMessage]:
            for key in (OLD, OTHER):
                yield HeldMessage(Delivery(queue, BODY, headers={SIGNATURE_HEADER: sign(key, BODY)}), self.close)

        yield lying()


@pytest.mark.spec("K30", "G9")
async def test_what_is_looked_at_is_checked_too() -> None:
    async with SignedTransport(Shelf(), [NEW, OLD]).look("q") as lying:
        assert [held.delivery.genuine async for held in lying] == [True, False]


@pytest.mark.spec("K30")
def test_keys_come_from_the_settings_and_their_absence_is_noted() -> None:
    env = {"RABBITMQ_URL": "amqp://127.0.0.1/"}
    assert any("HOLDFAST_MESSAGE_KEYS" in note for note in notes(Settings, env))
    signed = env | {"HOLDFAST_MESSAGE_KEYS": f" {NEW}, {OLD} "}
    assert not any("HOLDFAST_MESSAGE_KEYS" in note for note in notes(Settings, signed))
    assert read(Settings, signed).signing_keys == (NEW, OLD)
    assert isinstance(open_transport(read(Settings, signed)), SignedTransport)
    wrong = problems(Settings, env | {"HOLDFAST_MESSAGE_KEYS": "short-secret"})
    assert len(wrong) == 1 and "short-secret" not in wrong[0]


def unreadable(values: bytes) -> bytes:
    payload = struct.pack(">HHQH", 60, 0, 5, 0x0080) + bytes([len(values)]) + values
    return struct.pack(">BHI", 2, 1, len(payload)) + payload + b"\xce"


@pytest.mark.spec("K30", "G5")
def test_messages_without_readable_properties_are_never_merged() -> None:
    def arrived(values: bytes, *, again: bool = False, body: bytes = b"alike") -> str | None:
        _, _, header = pamqp.frame.unmarshal(_decodable(unreadable(values)))
        message: Any = SimpleNamespace(header=header, body=body, redelivered=again)
        return delivery_of("q", message).message_id

    ids = [arrived(b"\xff\xfe"), arrived(b"\xff\xfe"), arrived(b"\xff\xfd")]
    assert all(ids) and len(set(ids)) == 3
    assert arrived(b"\xff\xfe", again=True) == arrived(b"\xff\xfe", again=True) != arrived(b"\xff\xfd", again=True)
    assert arrived(b"\xff\xfe", again=True) != arrived(b"\xff\xfe", again=True, body=b"other"), "of one length"
