"""What the simulated users do: upload (again, wrongly, too much), and the requests they make it with."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from starlette.requests import Request

from holdfast.http.auth import Principal
from holdfast.http.guard import METER, BodyMeter
from holdfast_proof.world import here
from holdfast_systems.conversion.sim.gateway import SPOILED

OWNERS = ("ann", "bob")
BOUNDARY = "a-line-between-parts"
PIECE_BYTES = 700


@dataclass(slots=True)
class UploadWish:
    """One upload that a user tries until it is answered. `answer`: accepted, or the code of a refusal."""

    at_ms: int
    owner: str
    name: str
    key: str | None
    priority: str
    webhook: bool
    content: bytes
    tries: int = 0
    answer: str | None = None
    job: str | None = None


def who(owner: str) -> Principal:
    return Principal(owner, frozenset())


def draw_wishes(dice: Random, faults_s: int) -> list[UploadWish]:
    """Some documents over the first part of the seed; sometimes many at once; some twice under one key."""
    last_ms = int(faults_s * 600)
    wishes = [_wish(dice, number, dice.randint(0, last_ms)) for number in range(dice.randint(1, 4))]
    if dice.random() < 0.4:
        at_ms = dice.randint(0, last_ms)
        wishes += [_wish(dice, 10 + number, at_ms + dice.randint(0, 20_000)) for number in range(dice.randint(3, 6))]
    for wish in list(wishes):
        if wish.key is not None and dice.random() < 0.3:
            wishes.append(_again(dice, wish))
    return sorted(wishes, key=lambda wish: wish.at_ms)


def _wish(dice: Random, number: int, at_ms: int) -> UploadWish:
    kind = dice.choice(("pdf", "pdf", "pdf", "pdf", "pdf", "pdf", SPOILED, SPOILED, "html", "large"))
    name = f"{kind}-{number}"
    content = f"<html>{name}".encode() if kind == "html" else f"%PDF-1.7 {name} ".encode() + b"x" * 900
    if kind == "large":
        content += b"x" * 5_000
    key = str(uuid.UUID(int=dice.getrandbits(128), version=4)) if dice.random() < 0.6 else None
    level = dice.choice(("high", "normal", "normal", "low"))
    return UploadWish(at_ms, dice.choice(OWNERS), name, key, level, dice.random() < 0.5, content)


def _again(dice: Random, wish: UploadWish) -> UploadWish:
    """The same upload again, at the same moment or later; perhaps something else under its key."""
    other = dice.random() < 0.3
    content = wish.content + b" changed" if other else wish.content
    at_ms = wish.at_ms + dice.choice((0, dice.randint(0, 60_000)))
    return UploadWish(at_ms, wish.owner, wish.name, wish.key, wish.priority, wish.webhook, content)


def request_of(wish: UploadWish) -> Request:
    """The upload as it comes in, piece by piece, over a connection that is in no hurry."""
    body = _form(wish)
    pieces = [body[start : start + PIECE_BYTES] for start in range(0, len(body), PIECE_BYTES)]
    waiting: Iterator[tuple[int, bytes]] = iter(enumerate(pieces, 1))
    meter = BodyMeter(None, len(body))

    async def receive() -> dict[str, object]:
        await here().loop.gate()
        number, piece = next(waiting, (len(pieces), b""))
        meter.ended = number == len(pieces)  # as the guard in front of every route keeps it
        return {"type": "http.request", "body": piece, "more_body": number < len(pieces)}

    headers = [
        (b"content-type", f"multipart/form-data; boundary={BOUNDARY}".encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": "/api/jobs",
        "query_string": b"",
        "headers": headers,
    }
    scope[METER] = meter
    return Request(scope, receive)


def _form(wish: UploadWish) -> bytes:
    fields = {"priority": wish.priority}
    if wish.webhook:
        fields["webhookUrl"] = "https://receiver.test/hook"
    parts = [f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in fields.items()]
    head = "".join(parts) + (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{wish.name}.pdf"\r\n'
        "Content-Type: application/pdf\r\n\r\n"
    )
    return head.encode() + wish.content + f"\r\n--{BOUNDARY}--\r\n".encode()
