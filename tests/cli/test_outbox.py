"""What the command line tells of messages, workers, breakers and people: the same as the operator's API."""

from __future__ import annotations

import pytest

from holdfast.engines.worker import Worker
from holdfast.kernel.kernel import Kernel
from holdfast.tables import outbox
from tests.cli import shop
from tests.cli.conftest import Place

pytestmark = pytest.mark.usefixtures("migrated")
NOBODY = "0191f3a0-7c1e-7abc-8def-0123456789ab"


async def set_all_aside(kernel: Kernel) -> None:
    async with kernel.store.transaction() as tx:
        for row in await outbox.claim(tx, "token", kernel.now(), kernel.now() + 1_000, 10):
            await outbox.refused(tx, "token", row.seq, "nobody took it", kernel.now(), 1)


@pytest.mark.spec("K10", "K8")
def test_a_message_that_was_set_aside_is_seen_and_sent_again(place: Place) -> None:
    place.job(shop.Pay, 5)
    (message,) = place.items("outbox", "list")
    assert message["status"] == "pending" and place.items("outbox", "list", "--status", "failed") == []
    place.in_kernel(set_all_aside)
    assert "nobody took it" in place.ok("outbox", "list", "--status", "failed")
    assert place.json("outbox", "requeue", message["id"]) == {
        "system": "shop",
        "id": message["id"],
        "status": "pending",
    }
    assert "that was set aside" in place.refused("outbox", "requeue", message["id"])
    assert place.items("actions")[0]["action"] == "outbox.requeued"


def test_a_message_that_nobody_knows_is_one_sentence(place: Place) -> None:
    assert place.refused("outbox", "requeue", NOBODY) == f"There is no message {NOBODY} that was set aside."
    assert place.refused("outbox", "requeue", "x") == "There is no message x that was set aside."


@pytest.mark.spec("K9")
def test_a_breaker_tells_when_it_opened_and_who_did_it(place: Place) -> None:
    place.ok("breakers", "open", "bank", "--reason", "it is down", "--actor", "ann")
    place.ok("breakers", "close", "bank", "--actor", "bob")
    assert [row["gate"] for row in place.items("breakers", "history", "bank")] == ["closed", "open"]
    assert "it is down" in place.ok("breakers", "history", "bank")
    assert [(row["actor"], row["action"]) for row in place.items("actions", "--subject", "breaker:bank")] == [
        ("bob", "breaker.closed"),
        ("ann", "breaker.opened"),
    ]
    assert [row["actor"] for row in place.items("actions", "--by", "ann")] == ["ann"]


def test_a_worker_is_listed_while_it_reports(place: Place) -> None:
    async def report(kernel: Kernel) -> None:
        await Worker(kernel).renew()

    assert place.items("workers") == []
    place.in_kernel(report)
    (worker,) = place.items("workers")
    assert worker["alive"] is True and worker["queues"] == "shop"
