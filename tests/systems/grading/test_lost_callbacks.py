"""A callback that the broker will not take: tried again within bounds, then set aside, alerted, and mendable."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.systems.grading.pair import Pair

from holdfast.errors import Unroutable
from holdfast.kernel.observe.watch import LogWatch
from holdfast.transports.seam import Message
from holdfast_systems.grading.contract import CALLBACK_QUEUE

TRIES_MAX = 100


class Heard(LogWatch):
    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self.counts[name] += int(amount)


@pytest.mark.spec("G14", "K10", "000.35")
async def test_a_callback_nobody_takes_is_tried_within_bounds_and_then_alerted(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: Counter[str] = Counter()
    takes = pair.publish

    async def refuse(message: Message) -> None:
        if message.type == CALLBACK_QUEUE:
            tried[message.id] += 1
            raise Unroutable("no queue took it")
        await takes(message)

    monkeypatch.setattr(pair, "publish", refuse)
    pair.service.kernel.watch = heard = Heard()
    await pair.submit()
    left = 0
    for _ in range(TRIES_MAX):
        await pair.settle()
        pair.clock.advance(120)
        left = await pair.pending(pair.service)
        if not left:
            break
    assert left == 0 and heard.counts["outbox_set_aside"] == len(tried) > 1
    assert heard.counts["outbox_stale"] > 0, "a callback that waits is warned about long before"
    kept = await pair.query(pair.service, "SELECT status, retry_count, error_message FROM holdfast_outbox")
    assert {row["status"] for row in kept} == {"failed"}, "nothing is thrown away: a person can send it again"
    assert all("no queue took it" in row["error_message"] for row in kept)
    bound = pair.service.kernel.tuning.relay_retries_max
    assert set(tried.values()) == {bound}
