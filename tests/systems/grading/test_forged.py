"""Messages by somebody who may write to the broker, and is neither of the two services."""

from __future__ import annotations

import json
import re
from pathlib import Path

import aio_pika
import pytest
from aiormq.exceptions import ChannelAccessRefused
from tests.services.rabbitmq import RabbitMQServer
from tests.systems.grading.callbacks_made import completed
from tests.systems.grading.pair import Pair

from holdfast.transports.rabbitmq.transport import RabbitTransport
from holdfast.transports.seam import Delivery
from holdfast_systems.grading.callbacks import receive_callback
from holdfast_systems.grading.contract import CALLBACK_QUEUE, EXCHANGE, REQUEST_QUEUE
from holdfast_systems.grading.topology import QUEUES

CONTRACT = Path(__file__).parents[3] / "docs/contract/README.md"


@pytest.mark.spec("K30", "G9")
async def test_an_unsigned_callback_decides_nothing_where_keys_are_set(pair: Pair) -> None:
    stored = await pair.submit()
    forged = completed(stored.request_id, stored.id).body()
    await receive_callback(pair.main.kernel, Delivery(CALLBACK_QUEUE, forged, "m-1", genuine=False))
    assert (await pair.query(pair.main, "SELECT status FROM submissions"))[0]["status"] == "PENDING"
    await receive_callback(pair.main.kernel, Delivery(CALLBACK_QUEUE, forged, "m-1"))
    assert (await pair.query(pair.main, "SELECT status FROM submissions"))[0]["status"] == "COMPLETED"


def documented() -> dict[str, tuple[str, str, str]]:
    """Who may configure, write and read what, as the contract's page says it."""
    found = re.findall(r"set_permissions -p VHOST (\S+) '(\S+)' '(\S+)' '(\S+)'", CONTRACT.read_text())
    return {user: (configure, write, read) for user, configure, write, read in found}


@pytest.mark.slow
@pytest.mark.spec("K30", "G9")
async def test_the_documented_permissions_keep_the_services_apart(
    rabbitmq_server: RabbitMQServer, rabbitmq_url: str
) -> None:
    vhost = rabbitmq_url.rpartition("/")[2]
    permissions = documented()
    assert set(permissions) == {"main-app", "grading-service"}
    urls = {}
    for user in (*permissions, "stranger"):
        internal = "rabbit_auth_backend_internal"
        name = f"{user}-{vhost}"
        rabbitmq_server._insist(f'{internal}:add_user(<<"{name}">>, <<"of-the-test">>, <<"tests">>)')
        rules = ", ".join(f"<<{json.dumps(each)}>>" for each in permissions.get(user, ("^$", "^$", "^$")))
        rabbitmq_server._insist(f'{internal}:set_permissions(<<"{name}">>, <<"{vhost}">>, {rules}, <<"tests">>)')
        urls[user] = rabbitmq_url.replace("holdfast:holdfast", f"{name}:of-the-test")
    for user in permissions:
        transport = RabbitTransport(urls[user])
        await transport.declare(QUEUES)
        assert transport.trouble() is None
        await transport.close()
    assert await may_get(urls["main-app"], CALLBACK_QUEUE) and not await may_get(urls["main-app"], REQUEST_QUEUE)
    assert await may_get(urls["grading-service"], REQUEST_QUEUE)
    assert not await may_get(urls["grading-service"], CALLBACK_QUEUE)
    assert await may_publish(urls["grading-service"]) and not await may_publish(urls["stranger"])


async def may_get(url: str, queue: str) -> bool:
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        try:
            await (await channel.get_queue(queue, ensure=False)).get(no_ack=False, fail=False)
        except ChannelAccessRefused:
            return False
    return True


async def may_publish(url: str) -> bool:
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel(publisher_confirms=True)
        try:
            exchange = await channel.get_exchange(EXCHANGE, ensure=False)
            await exchange.publish(aio_pika.Message(b"{}"), CALLBACK_QUEUE)
        except ChannelAccessRefused:
            return False
    return True
