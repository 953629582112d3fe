"""Three real brokers, a quorum queue, and the death of its leader: what was confirmed is delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from holdfast.errors import TransportError
from holdfast.transports.rabbitmq.transport import RabbitTransport
from holdfast.transports.seam import Delivery, Message, Queue
from tests.services.child import ServerUnavailable
from tests.services.fixtures import do_without
from tests.services.rabbitmq import RabbitMQServer

pytestmark = pytest.mark.slow

LETTERS = Queue("letters")
EACH = 100
PATIENCE_S = 60.0


@pytest.fixture
def cluster() -> Iterator[list[RabbitMQServer]]:
    """Of three nodes, which boot at the same time."""
    nodes: list[RabbitMQServer] = []
    try:
        nodes.append(RabbitMQServer())
        nodes += [RabbitMQServer(beside=nodes[0]) for _ in range(2)]
        for node in nodes:
            node.begin()
        for node in nodes:
            node.wait_ready()
        for node in nodes[1:]:
            node.join(nodes[0])
        yield nodes
    except ServerUnavailable as reason:
        do_without(reason)
    finally:
        for node in reversed(nodes):
            node.stop()


class Post:
    """Publishes and consumes; remembers what was confirmed and what came."""

    def __init__(self, url: str) -> None:
        self.transport = RabbitTransport(url, queue_type="quorum", timeout_s=5)
        self.confirmed: set[str] = set()
        self.came: set[str] = set()
        self.failed = 0
        self.changed = asyncio.Event()

    async def publish(self, count: int) -> None:
        """So many, each until it is confirmed."""
        for _ in range(count):
            letter = Message(id=f"{len(self.confirmed):036d}", destination=LETTERS.name, body=b"{}", type="letter")
            while True:
                try:
                    await self.transport.publish(letter)
                    break
                except TransportError:
                    self.failed += 1
                    await asyncio.sleep(0.1)
            self.confirmed.add(letter.id)
            self.changed.set()

    async def consume(self) -> None:
        async def take(delivery: Delivery) -> None:
            self.came.add(str(delivery.message_id))
            self.changed.set()

        await self.transport.consume(LETTERS.name, take)

    async def until(self, done: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.came) < done:
                self.changed.clear()
                await self.changed.wait()


@pytest.mark.spec("K28", "K11")
async def test_nothing_confirmed_is_lost_when_the_leader_of_a_quorum_queue_is_killed(
    cluster: list[RabbitMQServer],
) -> None:
    vhost = cluster[0].create_vhost().rpartition("/")[2]
    post = Post(",".join(node.url(vhost) for node in cluster))
    await post.transport.declare([LETTERS])
    leader = next(node for node in cluster if node.node_name in cluster[0].leader_of(LETTERS.name, vhost))
    assert leader is cluster[0], "a queue is led from where it was declared: the first address"
    consuming = asyncio.ensure_future(post.consume())
    await post.publish(EACH)
    await post.until(EACH)
    going_on = asyncio.ensure_future(post.publish(2 * EACH))
    await asyncio.to_thread(leader.halt, kill=True)
    await going_on
    await post.until(3 * EACH)
    assert post.came == post.confirmed
    assert post.failed, "nobody noticed the kill: nothing was tested"
    assert cluster[1].node_name in (now := cluster[1].leader_of(LETTERS.name, vhost)) or cluster[2].node_name in now
    consuming.cancel()
    await asyncio.wait([consuming])
    await post.transport.close()
