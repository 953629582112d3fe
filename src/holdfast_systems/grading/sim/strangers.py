"""Everybody who knows only the queues: a foreign grading service that answers what ours answers too (twice, out of
order, too late, after the end), senders of requests that were sent before, and senders of what is no message at all.

They live in the world, outside of every process. What they sent is kept here, by the hash of its bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import TransportDown
from holdfast.kit import iso
from holdfast_systems.grading.contract import CALLBACK_QUEUE, REQUEST_QUEUE

if TYPE_CHECKING:
    from holdfast_systems.grading.sim.world import GradingWorld

LOOK_EVERY_S = 9.0
CONFIRM_S = 5.0
STEPS = ("PROCESSING", "ANALYZING", "GRADING")


@dataclass(frozen=True, slots=True)
class PoisonMessage:
    """A message that no contract knows. `request_id` is what a careful reader can still make out: empty if there is
    only a submission's id."""

    message_id: str
    body: bytes
    request_id: str | None

    @property
    def identity(self) -> str:
        """How the intake knows it."""
        return hashlib.sha256(f"{self.message_id}\n".encode() + self.body).hexdigest()

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()


class Strangers:
    """What comes over the broker from others. `said` has every foreign callback by its hash."""

    def __init__(self, world: GradingWorld) -> None:
        self.world = world
        self.dice = world.loop.stream("strangers")
        dice = self.dice
        self.answering = dice.choice((0.0, 0.3, 0.8))
        self.resending = dice.choice((0.0, 0.3, 0.8))
        self.poisoning = dice.choice((0.0, 0.0, 0.3))
        self.cleaning = dice.choice((0.0, 0.05, 0.3))
        self.said: dict[str, dict[str, Any]] = {}
        self.garbage: dict[str, str] = {}
        self.events: dict[str, str] = {}
        self.resent: dict[str, str] = {}
        self.poisons: list[PoisonMessage] = []
        self.under_way = 0
        self._known: set[str] = set()
        self._serial = 0

    async def live(self) -> None:
        """Notice new submissions, as somebody does who gets a copy of each request."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if self.dice.random() < self.cleaning:
                self.world.clean_disk()
            rows = self.world.query("SELECT id, request_id, deadline_at, created_at FROM submissions ORDER BY id")
            for row in rows:
                if row["request_id"] not in self._known:
                    self._known.add(row["request_id"])
                    self._meet(dict(row))

    def _meet(self, row: dict[str, Any]) -> None:
        dice = self.dice
        if dice.random() < self.answering:
            self._answer(row)
        if dice.random() < self.resending:
            for _ in range(dice.randint(1, 3)):
                self._later(dice.choice((dice.randint(0, 30_000), dice.randint(0, 300_000))), self._resend, row)
        if dice.random() < self.poisoning:
            self._later(dice.randint(0, 20_000), self._poison, row)

    # A foreign service

    def _answer(self, row: dict[str, Any]) -> None:
        """One foreign grading, from its first progress to long after its end."""
        dice, left_ms = self.dice, row["deadline_at"] - self.world.loop.epoch_ms - self.world.loop.now_ms
        end_ms = dice.choice(
            (dice.randint(0, 20_000), max(0, left_ms + dice.randint(-6_000, 6_000)), max(0, left_ms) + 45_000)
        )
        for step in dice.sample(STEPS, dice.randint(0, 3)):
            share = dice.choice((None, 0.2, 0.5, 0.9))
            self._say(row, dice.randint(0, end_ms + 5_000), "progress", {"status": step, "progress": share})
        if dice.random() < 0.3:
            self._say(row, dice.randint(0, end_ms + 1), "error", _error("CIRCUIT_OPEN", retryable=True))
        if dice.random() < 0.75:
            kind, data = self._final()
            tree = self._say(row, end_ms, kind, data)
            self._say(row, end_ms + dice.randint(0, 20_000), "progress", {"status": "GRADING", "progress": 1.0})
            self._repeat(row, tree, end_ms)
        if dice.random() < 0.2:
            stray = row | {"id": "another-submission"} if dice.random() < 0.5 else row | {"request_id": self._uuid()}
            self._say(stray, dice.randint(0, end_ms + 1), *self._final())

    def _repeat(self, row: dict[str, Any], tree: dict[str, Any], end_ms: int) -> None:
        """The same event again, the same event with other words, or another end of the same grading."""
        dice = self.dice
        again_ms = end_ms + dice.choice((0, 1, dice.randint(0, 60_000)))
        roll = dice.random()
        if roll < 0.3:
            self._send_callback(again_ms, tree)
        elif roll < 0.4:
            self._send_callback(again_ms, tree | {"note": "the same event, told differently"})
        elif roll < 0.8:
            self._say(row, again_ms, *self._final())

    def _final(self) -> tuple[str, dict[str, Any]]:
        dice = self.dice
        if dice.random() < 0.25:
            return "error", _error("LLM_FAIL", retryable=False)
        sure = dice.choice((30, 60, 80, 87, 95))
        result = {
            "overallScore": dice.choice((3.5, 6.0, 8.5)),
            "band": "B1",
            "confidenceScore": sure,
            "reviewRequired": sure < 85,
            "auditFlag": False,
        }
        return "completed", {"result": result}

    def _say(self, row: dict[str, Any], delay_ms: int, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        request_id = row["request_id"]
        now = self.world.loop.epoch_ms + self.world.loop.now_ms
        tree = {
            "messageType": CALLBACK_QUEUE,
            "requestId": request_id.upper() if self.dice.random() < 0.1 else request_id,
            "submissionId": row["id"],
            "eventId": self._uuid(),
            "eventAt": iso(now),
            "kind": kind,
            "data": data,
        }
        self._send_callback(delay_ms, tree)
        return tree

    def _send_callback(self, delay_ms: int, tree: dict[str, Any]) -> None:
        body, message_id = json.dumps(tree).encode(), self._uuid()
        self.said[hashlib.sha256(body).hexdigest()] = tree
        self.events[message_id] = tree["eventId"]
        self._later(delay_ms, self._send, CALLBACK_QUEUE, message_id, body)

    # Senders of what was sent before, and of what nobody should send

    def _resend(self, row: dict[str, Any]) -> None:
        """A request once more, in a message of its own; sometimes with another text, or another spelling of its id."""
        found = self.world.query("SELECT payload FROM holdfast_outbox WHERE aggregate_id = ? ORDER BY seq", row["id"])
        trees = [json.loads(one["payload"]) for one in found]
        tree = next(one for one in trees if one["requestId"] == row["request_id"])
        roll = self.dice.random()
        if roll < 0.2:
            tree["payload"]["questionId"] = "q-resent"
        elif roll < 0.3:
            tree["requestId"] = tree["requestId"].upper()
        message_id = self._uuid()
        self.resent[message_id] = row["request_id"]
        self._send(REQUEST_QUEUE, message_id, json.dumps(tree).encode())

    def _poison(self, row: dict[str, Any]) -> None:
        if self.dice.random() < 0.3:
            self._spoil_callbacks(row)
            return
        self._serial += 1
        tag, stranger = f"poison {self._serial}", self._uuid()
        ids = {"requestId": stranger, "submissionId": tag}
        body, request_id = self.dice.choice(
            (
                (b"\xff\xfe" + tag.encode(), None),
                (f"{tag} is no JSON".encode(), None),
                (json.dumps([tag]).encode(), None),
                (json.dumps({"hello": tag}).encode(), None),
                (json.dumps(ids | {"skill": "writing"}).encode(), stranger),
                (json.dumps({"requestId": f"no uuid, {tag}", "submissionId": row["id"]}).encode(), f"no uuid, {tag}"),
                (json.dumps({"submissionId": row["id"], "tag": tag}).encode(), ""),
                (f'{{"requestId": "{stranger}", "cut": "{tag}'.encode(), stranger),
                (json.dumps(ids | {"requestId": row["request_id"], "skill": "dancing"}).encode(), row["request_id"]),
            )
        )
        poison = PoisonMessage(f"message {tag}", body, request_id)
        self.poisons.append(poison)
        self._send(REQUEST_QUEUE, poison.message_id, poison.body)

    def _spoil_callbacks(self, row: dict[str, Any]) -> None:
        self._serial += 1
        tag = f"spoiled {self._serial}"
        body = self.dice.choice((tag.encode(), json.dumps({"requestId": row["request_id"], "tag": tag}).encode()))
        self.garbage[f"message {tag}"] = hashlib.sha256(body).hexdigest()
        self._send(CALLBACK_QUEUE, f"message {tag}", body)

    # The line to the broker

    def _later(self, delay_ms: int, what: Any, *args: Any) -> None:
        self.under_way += 1

        def now() -> None:
            self.under_way -= 1
            what(*args)

        self.world.loop.world.after_ms(delay_ms, now)

    def _send(self, queue: str, message_id: str, body: bytes) -> None:
        self.under_way += 1
        self.world.loop.world.spawn(self._publish(queue, message_id, body), name=f"stranger-{message_id}")

    async def _publish(self, queue: str, message_id: str, body: bytes) -> None:
        while True:
            try:
                async with asyncio.timeout(CONFIRM_S):
                    await self.world.broker.publish(queue, message_id, body, {})
                self.under_way -= 1
                return
            except (TransportDown, TimeoutError):
                await asyncio.sleep(2)

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self.dice.getrandbits(128), version=4))


def _error(code: str, *, retryable: bool) -> dict[str, Any]:
    return {"error": {"type": code, "code": code, "message": "A stranger's trouble.", "retryable": retryable}}
