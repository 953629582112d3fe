"""Messages made to harm: each is answered or laid aside, nobody's work changes, and none is remembered in memory.

The figure of docs/reliability.md: python -m tests.security.test_hostile_messages 100000
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.systems.grading.pair import WRITING, Pair, made_engine, opened

from holdfast_systems.grading.contract import CALLBACK_QUEUE, REQUEST_QUEUE

BATCH = 500
ODD_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e999", "1" * 400, "-0.0", "1e-999")
ODD_TEXTS = ("\x00", "\ud800", "\u202e" * 50, "a" * 20_000, "<script>", "'; DROP TABLE submissions; --", "../../x")


def hostile(dice: random.Random, known: str) -> tuple[str, bytes, str | None]:
    """A queue, a body and a message id, if it has one. `known` is a submission that is under way."""
    queue = dice.choice((REQUEST_QUEUE, CALLBACK_QUEUE))
    body = dice.choice(tuple(_bodies(dice, known)))
    message_id = dice.choice((None, "", "x" * 300, str(UUID(int=dice.getrandbits(128))), "same", "\x00"))
    return queue, body, message_id


def _bodies(dice: random.Random, known: str) -> Iterator[bytes]:
    request: dict[str, Any] = {
        "requestId": str(UUID(int=dice.getrandbits(128), version=4)),
        "submissionId": known,
        "userId": "eve",
    }
    request |= {"skill": "writing", "attempt": 1, "deadlineAt": "2030-01-01T00:00:00Z", "payload": WRITING}
    name = dice.choice(tuple(request))
    yield dice.randbytes(dice.randint(0, 400))
    yield b"[" * dice.choice((500, 5_000, 100_000))
    yield b'{"a":' * 3_000 + b"1" + b"}" * 3_000
    yield json.dumps(request | {"payload": {"text": dice.choice(ODD_TEXTS)}}).encode()
    yield json.dumps(request | {name: dice.choice(("", None, [], {}, 7, True, "x" * 5_000))}).encode()
    yield json.dumps(request).replace('"attempt": 1', f'"attempt": {dice.choice(ODD_NUMBERS)}').encode()
    yield json.dumps({key: value for key, value in request.items() if key != name}).encode()
    yield json.dumps({"kind": "completed", **request, "data": {"score": dice.choice((1e9, "10", None, -1))}}).encode()
    yield json.dumps(request).encode("utf-16")
    yield json.dumps(dice.choice((0, "x", None, [request], True))).encode()
    yield b"\xef\xbb\xbf" + json.dumps(request | {f"field{number}": number for number in range(200)}).encode()


async def send_many(pair: Pair, dice: random.Random, count: int, known: str) -> None:
    """As they come from the broker, with everything that follows from them."""
    for _ in range(count):
        queue, body, message_id = hostile(dice, known)
        await pair.deliver(queue, body, message_id)
    await pair.settle()
    pair.sent.clear()


def objects() -> int:
    gc.collect()
    return len(gc.get_objects())


def megabytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


@pytest.mark.slow
@pytest.mark.spec("K30", "G5")
async def test_hostile_messages_change_nobodys_work_and_leave_nothing_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dice = random.Random(7)
    async with opened(tmp_path, made_engine(tmp_path)) as pair:
        submission = await pair.submit()
        before = await pair.show(submission.id)
        caplog.set_level("CRITICAL", logger="holdfast")  # captured lines would be held in memory
        await send_many(pair, dice, 150, submission.id)
        held = objects()
        await send_many(pair, dice, 200, submission.id)
        assert objects() - held < 800, "a message leaves a few objects at most, not its parts"
        graded = await pair.show(submission.id)
        assert graded.state.status == "REVIEW_REQUIRED" and graded.payload == before.payload
        kept = await pair.query(pair.service, "SELECT COUNT(*) AS n FROM holdfast_dead_letters")
        assert kept[0]["n"] > 20, "what could not be read is kept for a person"


async def measure(count: int) -> None:
    dice = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder), made_engine(Path(folder))) as pair:
            submission = await pair.submit()
            for sent in range(0, count + 1, BATCH):
                if sent % max(BATCH, count // 10) == 0:
                    print(f"{sent} messages: {megabytes()} MB, {objects()} objects, {time.process_time():.0f} s")
                await send_many(pair, dice, BATCH, submission.id)


if __name__ == "__main__":
    asyncio.run(measure(int(sys.argv[1])))
